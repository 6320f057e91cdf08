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

// The part of a request line behind the method: segments and query, both decoded.
struct Target {
  std::vector<std::string> segments;  // "/api/v1/runs/" -> {"api", "v1", "runs"}: a last slash changes nothing
  Fields query;                       // in order; a key may come twice
};

// Empty when `raw` is no absolute path, has a broken % escape, control characters, or a segment that is empty (but the
// last), "." or "..". A decoded segment may hold a slash: who makes a path of it must check it.
std::optional<Target> parse_target(std::string_view raw);

// A form-urlencoded body; empty for a broken % escape.
std::optional<Fields> parse_form(std::string_view body);

// "a b&c" -> "a%20b%26c": letters, digits and -._~ stay.
std::string percent_encode(std::string_view text);

struct Request {
  std::string method;  // GET, POST, ...
  std::string raw_target;
  Target target;
  Fields headers;
  std::string body;     // decoded when it came gzipped
  Fields form;          // of a form-urlencoded or multipart body (texts; a file's content, too)
  bool secure = false;  // came over TLS

  // The first of that name, in any case; "" when absent.
  std::string_view header(std::string_view name) const;
  // The last of that name, as forms and queries have it; empty when absent.
  std::optional<std::string> query(std::string_view name) const;
  // Without parameters, in lower case: "application/json".
  std::string content_type() const;
};

// A response whose end is open, e.g. server-sent events. Any thread may push.
class Stream {
 public:
  virtual ~Stream() = default;
  // False when the reader is gone or too far behind; then it is over.
  virtual bool push(std::string_view data) = 0;
  // How many bytes push() takes now.
  virtual size_t room() const = 0;
  virtual void end() = 0;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  Fields headers;
  std::string body;
  // Instead of `body`: called once with the open stream, from the thread of the connection. Keep the pointer, push
  // later; the client sees what is pushed in time.
  std::function<void(std::shared_ptr<Stream>)> open_stream;
  // What follows `body`, piece by piece (some 64 KiB each) until one is "": asked for as fast as the client reads, by
  // one thread at a time, none of which a slow client holds. An exception cuts the answer off.
  std::function<std::string()> next = {};
  size_t held_bytes = 0;  // by `next`, about
};

}  // namespace mlbench::net::http
