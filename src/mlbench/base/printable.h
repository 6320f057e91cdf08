#pragma once

// Text that came from outside (a stranger's bytes, a file, a script's last words), made fit for a log or a terminal.

#include <cstddef>
#include <string>
#include <string_view>

namespace mlbench {

// One line that does nothing to a terminal and passes for nothing that it is not. Line breaks and tabs become \n, \r,
// \t; other control characters, marks that reorder text, and bytes that are no UTF-8 become \x1b or \u202e. Of a longer
// text the first `max_bytes`, and how many more there are.
std::string printable(std::string_view text, size_t max_bytes = 500);

// The same without a limit, and lines stay lines, each but the first begun with `indent`: in a log none passes for a
// line of its own (set_up_logging() does that to every message).
std::string printable_lines(std::string_view text, std::string_view indent = "    ");

// The same value as JSON, in which no such character stands as itself, but as \u202e: `json` is a text of UTF-8 that
// Json::dump() made.
std::string printable_json(std::string json);

}  // namespace mlbench
