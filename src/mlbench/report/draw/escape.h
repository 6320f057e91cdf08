#pragma once

// Text from outside in the languages of tables. Each function makes the text printable (base/printable.h) and takes the
// meaning from every character that has one, so that a reader sees the text as it was given.

#include <string>
#include <string_view>

#include "mlbench/base/json.h"

namespace mlbench::report {

// For GitHub's Markdown, in a paragraph as in a cell: a backslash stands before each special character.
std::string markdown_text(std::string_view text);
// For LaTeX, in a paragraph as in a cell of tabular.
std::string latex_text(std::string_view text);
// A cell of CSV (RFC 4180). A "'" is put in front of what a spreadsheet would take for a formula.
std::string csv_text(std::string_view text);
// A value as a cell of CSV: null is empty, true and false are 1 and 0.
std::string csv_cell_of(const Json& value);

}  // namespace mlbench::report
