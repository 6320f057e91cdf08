#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mlbench::master {

// Microseconds since the Unix epoch of a date that parse_time() reads; empty for another text.
std::optional<int64_t> parse_date(std::string_view text);

enum class Fraction { kSix, kSixOrNone, kThreeOrNone };
// Writes "2026-01-31T12:00:00.123456Z". A fraction of 0 is left out with kSixOrNone and kThreeOrNone. Three digits are
// cut, not rounded.
std::string format_date(int64_t time_us, Fraction fraction);

int64_t now_us();

}  // namespace mlbench::master
