#pragma once

// Compares a name that somebody gave with the valid names, and has the one text for a name that is not among them.

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench {

// The names of `valid` that a mistyped `given` may have meant, nearest first, at most `most` of them. Such a name
// begins with `given`, or few of its characters, and less than half, differ. Dashes before names count for nothing.
std::vector<std::string> nearest(std::string_view given, const std::vector<std::string>& valid, size_t most = 3);

// The end of an error's text that quoted `given`: ": did you mean 'lr'? valid: lr, momentum", or "; valid: lr,
// momentum" where no name is near, or "; there is none" where `valid` is empty.
std::string valid_text(std::string_view given, const std::vector<std::string>& valid);

// The text "unknown WHAT 'GIVEN'" followed by valid_text(). A long `given` is cut.
std::string unknown_text(std::string_view what, std::string_view given, const std::vector<std::string>& valid);

// Throws UserError with the text of unknown_text().
[[noreturn]] void refuse_unknown(std::string_view what, std::string_view given, const std::vector<std::string>& valid);
// Throws UserError with the text of unknown_text() unless `given` is one of `valid`.
void check_choice(std::string_view what, std::string_view given, const std::vector<std::string>& valid);

// The names as strings; `Names` is any range of texts.
template <typename Names>
std::vector<std::string> texts_of(const Names& names) {
  return {std::begin(names), std::end(names)};
}

// ---- tables whose rows have a `name` --------------------------------------------------------------------------------

template <typename Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

// The row whose `name` is the one given. Throws UserError as refuse_unknown() does where there is none.
template <typename Rows>
const auto& row_named(const Rows& rows, std::string_view what, std::string_view name) {
  const auto found = std::find_if(std::begin(rows), std::end(rows),
                                  [&](const auto& row) { return std::string_view(row.name) == name; });
  if (found == std::end(rows)) refuse_unknown(what, name, names_of(rows));
  return *found;
}

}  // namespace mlbench
