#include "mlbench/metrics/ngrams.h"

#include <algorithm>
#include <compare>

namespace mlbench::metrics {

namespace {

std::strong_ordering compare(const Ngrams::Suffix& a, const Ngrams::Suffix& b, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (a[i] != b[i]) return a[i] <=> b[i];
  }
  return std::strong_ordering::equal;
}

// How many suffixes from `from` on begin with the same n symbols as `ngram`.
size_t run_length(std::span<const Ngrams::Suffix> suffixes, size_t from, const Ngrams::Suffix& ngram, size_t n) {
  size_t end = from;
  while (end < suffixes.size() && std::is_eq(compare(suffixes[end], ngram, n))) ++end;
  return end - from;
}

}  // namespace

std::vector<uint32_t> Vocabulary::numbers_of(std::span<const std::u32string_view> words) {
  std::vector<uint32_t> numbers;
  numbers.reserve(words.size());
  for (const std::u32string_view word : words) {
    numbers.push_back(numbers_.try_emplace(word, static_cast<uint32_t>(numbers_.size() + 1)).first->second);
  }
  return numbers;
}

Ngrams::Ngrams(std::span<const uint32_t> symbols) : suffixes_(symbols.size()) {
  for (size_t i = 0; i < symbols.size(); ++i) {
    const auto suffix = symbols.subspan(i, std::min(kLongest, symbols.size() - i));
    std::copy(suffix.begin(), suffix.end(), suffixes_[i].begin());
  }
  std::sort(suffixes_.begin(), suffixes_.end());
}

int64_t Ngrams::count(size_t n) const {
  return suffixes_.size() < n ? 0 : static_cast<int64_t>(suffixes_.size() - n + 1);
}

int64_t clipped_matches(const Ngrams& hypothesis, std::span<const Ngrams> references, size_t n) {
  const auto suffixes = hypothesis.sorted();
  std::vector<size_t> places(references.size(), 0);
  int64_t matches = 0;
  for (size_t at = 0, count = 0; at < suffixes.size(); at += count) {
    const Ngrams::Suffix& ngram = suffixes[at];
    count = run_length(suffixes, at, ngram, n);
    if (ngram[n - 1] == 0) continue;  // shorter than n
    size_t most = 0;
    for (size_t r = 0; r < references.size(); ++r) {
      const auto others = references[r].sorted();
      while (places[r] < others.size() && std::is_lt(compare(others[places[r]], ngram, n))) ++places[r];
      most = std::max(most, run_length(others, places[r], ngram, n));
    }
    matches += static_cast<int64_t>(std::min(count, most));
  }
  return matches;
}

}  // namespace mlbench::metrics
