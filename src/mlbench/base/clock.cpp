#include "mlbench/base/clock.h"

#include <date/date.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <sstream>

#include "mlbench/base/errors.h"

namespace mlbench {

namespace {

std::optional<std::chrono::system_clock::time_point> parse(const char* format, const std::string& text) {
  std::istringstream in(text);
  date::sys_time<std::chrono::microseconds> time;
  if (!(in >> date::parse(format, time)) || in.peek() != std::istringstream::traits_type::eof()) return {};
  // The clock counts nanoseconds, which end in 1677 and 2262.
  using std::chrono::floor, std::chrono::microseconds, std::chrono::system_clock;
  if (time <= floor<microseconds>(system_clock::time_point::min()) ||
      time >= floor<microseconds>(system_clock::time_point::max())) {
    return {};
  }
  return time;
}

}  // namespace

std::string format_utc(std::chrono::system_clock::time_point time) {
  const auto micros = std::chrono::floor<std::chrono::microseconds>(time);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(micros);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                     (micros - seconds).count());
}

std::chrono::system_clock::time_point parse_utc(const std::string& text) {
  if (const auto time = parse("%FT%TZ", text)) return *time;
  throw UserError("'" + text + "' is not a UTC time such as 2026-01-31T12:00:00.123456Z");
}

std::optional<std::chrono::system_clock::time_point> parse_time(std::string_view text) {
  if (text.size() < 16 || text.front() == '-') return {};
  std::string spelled(text);
  if (spelled[10] == ' ') spelled[10] = 'T';
  // date.h trusts the digits of an offset.
  const size_t sign = spelled.find_first_of("+-", 16);
  if (sign != std::string::npos && spelled.find_first_not_of("0123456789:", sign + 1) != std::string::npos) return {};
  const char* zone = sign == std::string::npos                      ? (spelled.back() == 'Z' ? "Z" : "")
                     : spelled.find(':', sign) == std::string::npos ? "%z"
                                                                    : "%Ez";
  return parse((std::string(spelled[16] == ':' ? "%FT%T" : "%FT%R") + zone).c_str(), spelled);
}

}  // namespace mlbench
