#include "mlbench/master/http/dates.h"

#include <chrono>

#include "mlbench/base/clock.h"

namespace mlbench::master {

std::optional<int64_t> parse_date(std::string_view text) {
  const auto time = parse_time(text);
  if (!time) return {};
  return unix_us(*time);
}

std::string format_date(int64_t time_us, Fraction fraction) {
  const std::string stamp = format_utc(std::chrono::system_clock::time_point(std::chrono::microseconds(time_us)));
  const size_t digits = fraction == Fraction::kThreeOrNone ? 3 : 6;
  const std::string part = stamp.substr(20, digits);
  if (fraction != Fraction::kSix && part.find_first_not_of('0') == std::string::npos) return stamp.substr(0, 19) + "Z";
  return stamp.substr(0, 20) + part + "Z";
}

int64_t now_us() { return unix_us(SystemClock().wall_now()); }

}  // namespace mlbench::master
