#pragma once

// Numbers from outside: the range that each has, and their reading from text. A text is a number from its first to its
// last character: no white space, no leading '+', nothing of another base.

#include <cstdint>
#include <string>
#include <string_view>

namespace mlbench {

// Both ends are good. Ends of a count are whole, and at most 2^53, so that every reader of JSON has them exactly.
struct Range {
  double least = 0;
  double most = 0;

  bool contains(double value) const { return value >= least && value <= most; }  // not NaN
  bool operator==(const Range&) const = default;
};

// "from 1 to 1000"
std::string to_text(const Range& range);
// The same of seconds, in the largest unit that parse_duration reads and that gives a whole number: "from 0.001s to
// 24h".
std::string duration_text(const Range& seconds);

// Each: UserError naming `what`, the text and the range. Digits alone are a count: no "1e3", no "-0".
int64_t parse_count(const std::string& text, std::string_view what, const Range& range);
double parse_real(const std::string& text, std::string_view what, const Range& range);
// Seconds: "90", "90s", "5m", "1.5h".
double parse_duration(const std::string& text, std::string_view what, const Range& seconds);
// Any 64-bit number.
uint64_t parse_seed(const std::string& text, std::string_view what);

// For messages: what was given, cut where it is long.
std::string shortened(std::string_view text);

}  // namespace mlbench
