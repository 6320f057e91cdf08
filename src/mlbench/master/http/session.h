#pragma once

// Logins of browsers. A page shows the token, or a code that somebody with the token asked for. It then gets a secret,
// which it shows with each request instead of the token, and keeps where only pages of this address and port can read
// it. It is no cookie, since a browser sends cookies to all ports of a host, and so to servers of other users. Logins
// are held in memory: a restart of the master ends them all. Thread-safe.

#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

#include "mlbench/base/clock.h"

namespace mlbench::master {

class Sessions {
 public:
  static constexpr std::chrono::hours kSessionTime{12};
  static constexpr std::chrono::minutes kCodeTime{5};
  static constexpr size_t kMost = 200;  // codes, and as many sessions; the oldest make room

  explicit Sessions(const Clock& clock) : clock_(clock) {}

  // A code for a link, which logs in once, within kCodeTime.
  std::string make_code();
  // Uses up a code. Returns false for a code that is unknown, used or too old.
  bool take_code(std::string_view code);

  // Opens a login and returns its secret, which is valid for kSessionTime.
  std::string open();
  bool holds(std::string_view secret) const;
  void close(std::string_view secret);

 private:
  struct Secret {
    std::string text;
    TimePoint end;
  };

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::deque<Secret> codes_;  // oldest first, as are `sessions_`
  std::deque<Secret> sessions_;
};

}  // namespace mlbench::master
