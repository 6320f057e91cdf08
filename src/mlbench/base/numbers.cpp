#include "mlbench/base/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "mlbench/base/errors.h"
#include "mlbench/base/to_number.h"

namespace mlbench {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string seconds_text(double seconds) {
  for (const auto& [factor, unit] : {std::pair(3600.0, 'h'), std::pair(60.0, 'm')}) {
    if (seconds >= factor && std::fmod(seconds, factor) == 0) return fmt::format("{}{}", seconds / factor, unit);
  }
  return fmt::format("{}s", seconds);
}

}  // namespace

std::string to_text(const Range& range) { return fmt::format("from {} to {}", range.least, range.most); }

std::string duration_text(const Range& seconds) {
  return fmt::format("from {} to {}", seconds_text(seconds.least), seconds_text(seconds.most));
}

std::string shortened(std::string_view text) {
  constexpr size_t kMost = 60;
  return text.size() <= kMost ? std::string(text) : std::string(text.substr(0, kMost)) + "...";
}

int64_t parse_count(const std::string& text, std::string_view what, const Range& range) {
  const auto value = to_number<int64_t>(text);
  const bool digits = std::all_of(text.begin(), text.end(), is_digit);
  if (!digits || !value || !range.contains(static_cast<double>(*value))) {
    throw UserError(fmt::format("{} '{}' is not a whole number {}", what, shortened(text), to_text(range)));
  }
  return *value;
}

double parse_real(const std::string& text, std::string_view what, const Range& range) {
  const auto value = to_number<double>(text);
  if (!value || !range.contains(*value)) {
    throw UserError(fmt::format("{} '{}' is not a number {}", what, shortened(text), to_text(range)));
  }
  return *value;
}

double parse_duration(const std::string& text, std::string_view what, const Range& seconds) {
  double value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  const std::string_view unit(end, static_cast<size_t>(last - end));
  const double factor = unit.empty() || unit == "s" ? 1
                        : unit == "ms"              ? 1e-3
                        : unit == "m"               ? 60
                        : unit == "h"               ? 3600
                                                    : 0;
  if (error != std::errc() || factor == 0 || !seconds.contains(value * factor)) {
    throw UserError(fmt::format("{} '{}' is not a time {}: seconds, or with a unit, such as 150ms, 90s, 5m, 2h", what,
                                shortened(text), duration_text(seconds)));
  }
  return value * factor;
}

uint64_t parse_seed(const std::string& text, std::string_view what) {
  const auto seed = to_number<uint64_t>(text);
  if (!seed) {
    throw UserError(fmt::format("{} '{}' is not a whole number from 0 to {}", what, shortened(text),
                                std::numeric_limits<uint64_t>::max()));
  }
  return *seed;
}

}  // namespace mlbench
