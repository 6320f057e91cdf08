#pragma once

// Numbers from outside: their ranges, and how a text is read as a number. All of a text must be the number: no white
// space, no leading '+', no other base than ten.

#include <cstdint>
#include <string>
#include <string_view>

namespace mlbench {

// Both ends belong to the range. A count's ends are whole and at most 2^53, so that JSON has them exactly.
struct Range {
  double least = 0;
  double most = 0;

  bool contains(double value) const { return value >= least && value <= most; }  // never NaN
  bool operator==(const Range&) const = default;
};

// The range as "from 1 to 1000".
std::string to_text(const Range& range);
// A range of seconds as "from 0.001s to 24h": each end in the largest unit of parse_duration() that makes it whole.
std::string duration_text(const Range& seconds);

// Each throws UserError naming `what`, the text and the range. A count has digits alone: neither "1e3" nor "-0".
int64_t parse_count(const std::string& text, std::string_view what, const Range& range);
double parse_real(const std::string& text, std::string_view what, const Range& range);
// A duration in seconds, given as "90", "90s", "5m" or "1.5h".
double parse_duration(const std::string& text, std::string_view what, const Range& seconds);
// A seed is any unsigned number of 64 bits.
uint64_t parse_seed(const std::string& text, std::string_view what);

// What was given, for a message; a long text is cut.
std::string shortened(std::string_view text);

}  // namespace mlbench
