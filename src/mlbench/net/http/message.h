#pragma once

// HTTP messages as both ends of this program see them, whatever library carries them.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mlbench::net::http {

using Fields = std::vector<std::pair<std::string, std::string>>;

// The value of the first field of that name, in upper or lower case; "" when it is absent.
std::string_view field(const Fields& fields, std::string_view name);

// The target of a request line: its segments and its query, both decoded.
struct Target {
  std::vector<std::string> segments;  // "/api/v1/runs/" -> {"api", "v1", "runs"}: a last slash changes nothing
  Fields query;                       // in order; a key may occur twice
};

// The target in `raw`. Empty when `raw` is no absolute path, or has a broken % escape, control characters, or a segment
// that is "." or ".." or (except the last) empty. A decoded segment may hold a slash: a caller that makes a path of it
// must check it.
std::optional<Target> parse_target(std::string_view raw);

// The fields of a form-urlencoded body; empty for a broken % escape.
std::optional<Fields> parse_form(std::string_view body);

// "a b&c" becomes "a%20b%26c": letters, digits and -._~ stay as they are.
std::string percent_encode(std::string_view text);

struct Request {
  std::string method;  // GET, POST, ...
  std::string raw_target;
  Target target;
  Fields headers;
  std::string body;     // unpacked, when it came as gzip
  Fields form;          // of a form-urlencoded or multipart body: its texts, and the contents of its files
  bool secure = false;  // it came over TLS

  // The first header of that name, in upper or lower case; "" when it is absent.
  std::string_view header(std::string_view name) const;
  // The last query field of that name, as forms and queries have it; empty when it is absent.
  std::optional<std::string> query(std::string_view name) const;
  // The content type without parameters, in lower case: "application/json".
  std::string content_type() const;
};

// A response without a known end, e.g. server-sent events. Any thread may push.
class Stream {
 public:
  virtual ~Stream() = default;
  // Returns false when the reader is gone or too far behind; the stream is then over.
  virtual bool push(std::string_view data) = 0;
  // How many bytes push() takes at this moment.
  virtual size_t room() const = 0;
  virtual void end() = 0;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  Fields headers;
  std::string body;
  // Takes the place of `body`: the connection's thread calls it once with the open stream. Who keeps the pointer can
  // push later, and the client sees each push at once.
  std::function<void(std::shared_ptr<Stream>)> open_stream;
  // Returns what follows `body`, piece by piece (some 64 KiB each), until a piece is "". The function is called as fast
  // as the client reads, by one thread at a time; a slow client holds no thread. An exception cuts the answer off.
  std::function<std::string()> next = {};
  size_t held_bytes = 0;  // about how many bytes `next` holds
};

}  // namespace mlbench::net::http
