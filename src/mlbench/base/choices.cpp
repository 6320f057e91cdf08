#include "mlbench/base/choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"

namespace mlbench {

namespace {

// The Levenshtein distance.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> nearest(std::string_view given, const std::vector<std::string>& valid, size_t most) {
  const size_t near = std::min(std::max<size_t>(2, given.size() / 3), given.size() / 2);
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& one : valid) {
    const size_t lengths = std::max(one.size(), given.size()) - std::min(one.size(), given.size());
    if (!given.empty() && one.starts_with(given)) {
      ranked.emplace_back(0, one);
    } else if (lengths <= near) {
      const size_t distance = edit_distance(given, one);
      if (distance <= near) ranked.emplace_back(distance, one);
    }
  }
  std::ranges::stable_sort(ranked, {}, &std::pair<size_t, std::string>::first);
  if (ranked.size() > most) ranked.resize(most);
  std::vector<std::string> result;
  for (auto& [distance, one] : ranked) result.push_back(std::move(one));
  return result;
}

std::string valid_text(std::string_view given, const std::vector<std::string>& valid) {
  if (valid.empty()) return "; there is none";
  const std::vector<std::string> meant = nearest(given, valid);
  return fmt::format("{}valid: {}",
                     meant.empty() ? "; " : fmt::format(": did you mean '{}'? ", fmt::join(meant, "' or '")),
                     fmt::join(valid, ", "));
}

std::string unknown_text(std::string_view what, std::string_view given, const std::vector<std::string>& valid) {
  return fmt::format("unknown {} '{}'{}", what, shortened(given), valid_text(given, valid));
}

void refuse_unknown(std::string_view what, std::string_view given, const std::vector<std::string>& valid) {
  throw UserError(unknown_text(what, given, valid));
}

void check_choice(std::string_view what, std::string_view given, const std::vector<std::string>& valid) {
  if (std::ranges::find(valid, given) == valid.end()) refuse_unknown(what, given, valid);
}

}  // namespace mlbench
