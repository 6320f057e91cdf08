#include "mlbench/base/clock.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <iomanip>
#include <sstream>

#include "mlbench/base/errors.h"

namespace mlbench {

std::string format_utc(std::chrono::system_clock::time_point time) {
  const auto micros = std::chrono::floor<std::chrono::microseconds>(time);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(micros);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                     (micros - seconds).count());
}

std::chrono::system_clock::time_point parse_utc(const std::string& text) {
  std::istringstream in(text);
  std::tm fields{};
  in >> std::get_time(&fields, "%Y-%m-%dT%H:%M:%S");
  double fraction = 0;
  if (in && in.peek() == '.') in >> fraction;
  if (in.fail() || in.get() != 'Z' || in.peek() != std::istringstream::traits_type::eof() || fraction >= 1) {
    throw UserError("'" + text + "' is not a UTC time such as 2026-01-31T12:00:00.123456Z");
  }
  const auto seconds = std::chrono::system_clock::from_time_t(timegm(&fields));
  return seconds + std::chrono::microseconds(static_cast<int64_t>(fraction * 1e6 + 0.5));
}

}  // namespace mlbench
