#pragma once

// Text from outside (a stranger's bytes, a file, a script's last words), made fit for a log or a terminal.

#include <cstddef>
#include <string>
#include <string_view>

namespace mlbench {

// The text as one line that has no effect on a terminal and cannot pass for something else. Line breaks and tabs become
// \n, \r and \t; other control characters, marks that reorder text, and bytes that are not UTF-8 become \x1b or \u202e.
// If the text is longer than `max_bytes`, only so many bytes are kept, followed by the number of those left out.
std::string printable(std::string_view text, size_t max_bytes = 500);

// Makes a text printable as printable() does, without a limit, but lines stay lines. Each line after the first begins
// with `indent`, so that in a log none passes for a message of its own (set_up_logging() does that to every message).
std::string printable_lines(std::string_view text, std::string_view indent = "    ");

// Returns the same JSON value, written so that a character which printable() would escape appears as \u202e, never as
// itself. Precondition: `json` is UTF-8, as Json::dump() returns it.
std::string printable_json(std::string json);

}  // namespace mlbench
