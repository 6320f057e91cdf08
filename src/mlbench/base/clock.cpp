#include "mlbench/base/clock.h"

#include <date/date.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <regex>
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
  // date.h trusts what it reads beyond the values.
  static const std::regex kShape(R"((\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(?:\.\d{0,6})?)?(Z|[+-]\d\d(:?)\d\d)?)");
  std::cmatch part;
  if (!std::regex_match(text.begin(), text.end(), part, kShape)) return {};
  const std::string zone = part.str(4);
  const std::string format = std::string(part[3].matched ? "%FT%T" : "%FT%R") + (zone.empty() || zone == "Z" ? zone
                                                                                 : part.length(5) == 1       ? "%Ez"
                                                                                                             : "%z");
  return parse(format.c_str(), part.str(1) + "T" + part.str(2) + part.str(3) + zone);
}

}  // namespace mlbench
