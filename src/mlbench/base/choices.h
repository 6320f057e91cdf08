#pragma once

// A name that somebody gave, held against those that there are, and the one text for a name that is none of them.

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench {

// Those of `valid` that a mistyped `given` may have meant, nearest first, at most `most`: they begin with it, or few of
// its characters, and less than half of them, are wrong.
std::vector<std::string> nearest(std::string_view given, const std::vector<std::string>& valid, size_t most = 3);

// How an error that quoted `given` ends: ": did you mean 'lr'? valid: lr, momentum", "; valid: lr, momentum" where
// nothing is near, "; there is none".
std::string valid_text(std::string_view given, const std::vector<std::string>& valid);

// "unknown WHAT 'GIVEN'", with that end. A long name is cut.
std::string unknown_text(std::string_view what, std::string_view given, const std::vector<std::string>& valid);

// UserError with that text.
[[noreturn]] void refuse_unknown(std::string_view what, std::string_view given, const std::vector<std::string>& valid);
// The same, unless `given` is one of them.
void check_choice(std::string_view what, std::string_view given, const std::vector<std::string>& valid);

// Names of any kind of text.
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

// The row called `name`; UserError as above where there is none.
template <typename Rows>
const auto& row_named(const Rows& rows, std::string_view what, std::string_view name) {
  const auto found = std::find_if(std::begin(rows), std::end(rows),
                                  [&](const auto& row) { return std::string_view(row.name) == name; });
  if (found == std::end(rows)) refuse_unknown(what, name, names_of(rows));
  return *found;
}

}  // namespace mlbench
