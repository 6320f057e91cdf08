#pragma once

// The n-grams of a sequence of words or characters.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace mlbench::metrics {

// Gives each different word a number, from 1. Precondition: the texts that it is given outlive it.
class Vocabulary {
 public:
  std::vector<uint32_t> numbers_of(std::span<const std::u32string_view> words);

 private:
  std::map<std::u32string_view, uint32_t> numbers_;
};

// The n-grams of one sequence for every n up to kLongest. The n-grams are the sequence's suffixes, cut to that length
// and sorted, so that for each n equal n-grams are next to each other. Symbols are numbers from 1.
class Ngrams {
 public:
  static constexpr size_t kLongest = 6;
  using Suffix = std::array<uint32_t, kLongest>;  // 0 after the end of the sequence

  explicit Ngrams(std::span<const uint32_t> symbols);

  // The number of n-grams; each of several equal ones counts.
  int64_t count(size_t n) const;
  std::span<const Suffix> sorted() const { return suffixes_; }

 private:
  std::vector<Suffix> suffixes_;
};

// The sum, over the different n-grams of `hypothesis`, of their count there, limited to the largest count in one of the
// references.
int64_t clipped_matches(const Ngrams& hypothesis, std::span<const Ngrams> references, size_t n);

}  // namespace mlbench::metrics
