#pragma once

// Logins of browsers. A page shows the token, or a code that somebody with the token asked for, and gets a cookie that
// it cannot read and a CSRF token that it sends with everything that changes something. Held in memory: a restart of
// the master ends them all. Thread-safe.

#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "mlbench/base/clock.h"
#include "mlbench/net/http/message.h"

namespace mlbench::master {

struct Session {
  std::string id;    // value of the cookie
  std::string csrf;  // value of the header X-CSRF-Token
  TimePoint end;
};

class Sessions {
 public:
  static constexpr std::chrono::hours kSessionTime{12};
  static constexpr std::chrono::minutes kCodeTime{5};
  static constexpr size_t kMost = 200;  // of each; the oldest make room

  explicit Sessions(const Clock& clock) : clock_(clock) {}

  // For a link: logs in once, within kCodeTime.
  std::string make_code();
  // False for one that is unknown, used or too old.
  bool take_code(std::string_view code);

  Session open();
  std::optional<Session> find(std::string_view id) const;
  void close(std::string_view id);

 private:
  struct Code {
    std::string text;
    TimePoint end;
  };

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::deque<Code> codes_;  // oldest first, as sessions_
  std::deque<Session> sessions_;
};

// Browsers share cookies between the ports of a host, so the port of the Host header is part of the name.
std::string cookie_name(const net::http::Request& request);
// Value of that cookie; "" when absent.
std::string cookie_value(const net::http::Request& request);
// A Set-Cookie field for `id`, or with "" the one that takes the cookie away.
std::string set_cookie(const net::http::Request& request, const std::string& id);

}  // namespace mlbench::master
