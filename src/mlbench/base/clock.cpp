#include "mlbench/base/clock.h"

#include <date/date.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
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

// The same characters, any digit where the shape has a 0.
bool has_shape(std::string_view text, std::string_view shape) {
  return std::equal(text.begin(), text.end(), shape.begin(), shape.end(),
                    [](char c, char wanted) { return wanted == '0' ? c >= '0' && c <= '9' : c == wanted; });
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
  if (text.size() < 16) return {};
  std::string spelled(text);
  if (spelled[10] == ' ') spelled[10] = 'T';
  // Beyond the values, date.h trusts what it reads.
  const std::string_view whole = spelled;
  const size_t zone_at = std::min(whole.find_first_of("Z+-", 16), whole.size());
  const size_t point = std::min(whole.find('.', 16), zone_at);
  const std::string_view zone = whole.substr(zone_at), seconds = whole.substr(0, point);
  const bool has_seconds = has_shape(seconds, "0000-00-00T00:00:00");
  if (!has_seconds && !(has_shape(seconds, "0000-00-00T00:00") && point == zone_at)) return {};
  if (whole.substr(point, zone_at - point).find_first_not_of("0123456789", 1) != std::string_view::npos) return {};
  const bool with_colon = zone.size() > 1 && has_shape(zone.substr(1), "00:00");
  if (zone.size() > 1 && !with_colon && !has_shape(zone.substr(1), "0000")) return {};
  const char* zone_format = zone.size() < 2 ? (zone.empty() ? "" : "Z") : with_colon ? "%Ez" : "%z";
  return parse((std::string(has_seconds ? "%FT%T" : "%FT%R") + zone_format).c_str(), spelled);
}

}  // namespace mlbench
