#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mlbench::master {

// Microseconds since the Unix epoch, as parse_time reads them.
std::optional<int64_t> parse_date(std::string_view text);

enum class Fraction { kSix, kSixOrNone, kThreeOrNone };
// "2026-01-31T12:00:00.123456Z"; "or none": left out when it is 0. Three digits are cut, not rounded.
std::string format_date(int64_t time_us, Fraction fraction);

int64_t now_us();

}  // namespace mlbench::master
