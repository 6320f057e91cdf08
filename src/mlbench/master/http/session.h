#pragma once

// Logins of browsers. A page shows the token, or a code that somebody with the token asked for, gets a secret of its
// own and shows that with each request, as others show the token. It keeps it where only pages of this address and port
// can read it. No cookie: a browser sends those to all ports of a host, so to servers of other users. Held in memory: a
// restart of the master ends them all. Thread-safe.

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
  static constexpr size_t kMost = 200;  // of each; the oldest make room

  explicit Sessions(const Clock& clock) : clock_(clock) {}

  // For a link: logs in once, within kCodeTime.
  std::string make_code();
  // False for one that is unknown, used or too old.
  bool take_code(std::string_view code);

  // The secret of a new login.
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
  std::deque<Secret> codes_;  // oldest first, as sessions_
  std::deque<Secret> sessions_;
};

}  // namespace mlbench::master
