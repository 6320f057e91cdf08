#include "mlbench/base/choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"

namespace mlbench {

namespace {

// How many characters are to be inserted, left out, replaced or swapped with their neighbour (optimal string
// alignment).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, row);
  }
  return last.back();
}

std::string_view without_dashes(std::string_view name) {
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

}  // namespace

std::vector<std::string> nearest(std::string_view given, const std::vector<std::string>& valid, size_t most) {
  const std::string_view letters = without_dashes(given);
  if (letters.empty()) return {};
  const size_t near = std::min(std::max<size_t>(2, letters.size() / 3), (letters.size() - 1) / 2);
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& one : valid) {
    const std::string_view other = without_dashes(one);
    const size_t lengths = std::max(other.size(), letters.size()) - std::min(other.size(), letters.size());
    if (other.starts_with(letters)) {
      ranked.emplace_back(0, one);
    } else if (lengths <= near) {
      const size_t distance = edit_distance(letters, other);
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
