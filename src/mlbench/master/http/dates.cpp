#include "mlbench/master/http/dates.h"

#include <fmt/format.h>

#include <chrono>

#include "mlbench/base/clock.h"

namespace mlbench::master {

namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  bool at_end() const { return text_.empty(); }
  bool skip(std::string_view any) {
    if (text_.empty() || any.find(text_.front()) == std::string_view::npos) return false;
    last_ = text_.front();
    text_.remove_prefix(1);
    return true;
  }
  char last() const { return last_; }
  // Exactly `digits` of them.
  bool number(int digits, int& value) {
    value = 0;
    for (int i = 0; i < digits; ++i) {
      if (!skip("0123456789")) return false;
      value = value * 10 + (last_ - '0');
    }
    return true;
  }

 private:
  std::string_view text_;
  char last_ = 0;
};

}  // namespace

std::optional<int64_t> parse_date(std::string_view text) {
  using namespace std::chrono;
  Reader in(text);
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (!in.number(4, year) || !in.skip("-") || !in.number(2, month) || !in.skip("-") || !in.number(2, day)) return {};
  if (!in.skip("T ") || !in.number(2, hour) || !in.skip(":") || !in.number(2, minute)) return {};
  int64_t fraction = 0;
  if (in.skip(":")) {
    if (!in.number(2, second)) return {};
    if (in.skip(".")) {
      int digits = 0;
      while (digits < 6 && in.skip("0123456789")) {
        fraction = fraction * 10 + (in.last() - '0');
        ++digits;
      }
      if (digits == 0) return {};
      for (; digits < 6; ++digits) fraction *= 10;
    }
  }
  int offset_minutes = 0;
  if (in.skip("+-")) {
    const int sign = in.last() == '-' ? -1 : 1;
    int hours = 0, minutes = 0;
    if (!in.number(2, hours)) return {};
    in.skip(":");
    if (!in.number(2, minutes) || hours > 23 || minutes > 59) return {};
    offset_minutes = sign * (hours * 60 + minutes);
  } else {
    in.skip("Z");
  }
  const year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                            std::chrono::day(static_cast<unsigned>(day))};
  if (!in.at_end() || !date.ok() || hour > 23 || minute > 59 || second > 59) return {};
  const auto time = sys_days(date) + hours(hour) + minutes(minute - offset_minutes) + seconds(second);
  return duration_cast<microseconds>(time.time_since_epoch()).count() + fraction;
}

std::string format_date(int64_t time_us, Fraction fraction) {
  const std::string stamp = format_utc(std::chrono::system_clock::time_point(std::chrono::microseconds(time_us)));
  const size_t digits = fraction == Fraction::kThreeOrNone ? 3 : 6;
  const std::string part = stamp.substr(20, digits);
  if (fraction != Fraction::kSix && part.find_first_not_of('0') == std::string::npos) return stamp.substr(0, 19) + "Z";
  return stamp.substr(0, 20) + part + "Z";
}

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(SystemClock().wall_now().time_since_epoch()).count();
}

}  // namespace mlbench::master
