#pragma once

// For tests: texts in memory.

#include <cstdint>
#include <vector>

#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::data::test {

// A side of a corpus that owns its tokens. Sentence i of length n has the tokens 10 * i, 10 * i + 1, ..., each plus 4
// (after the special tokens), within the vocabulary.
class Side {
 public:
  Side(const std::vector<int64_t>& lengths, int64_t vocabulary) {
    for (size_t i = 0; i < lengths.size(); ++i) {
      for (int64_t j = 0; j < lengths[i]; ++j) {
        tokens_.push_back(static_cast<int32_t>(4 + (10 * static_cast<int64_t>(i) + j) % (vocabulary - 4)));
      }
      offsets_.push_back(static_cast<int64_t>(tokens_.size()));
    }
  }
  dataset::TokenColumn column(const char* name) const { return {name, tokens_, offsets_}; }

 private:
  std::vector<int32_t> tokens_;
  std::vector<int64_t> offsets_ = {0};
};

// Pairs of sentences of these lengths.
class Pairs {
 public:
  Pairs(const std::vector<int64_t>& source_lengths, const std::vector<int64_t>& target_lengths,
        int64_t vocabulary = 1000)
      : source_(source_lengths, vocabulary), target_(target_lengths, vocabulary) {
    split_.name = "train";
    split_.samples = static_cast<int64_t>(source_lengths.size());
    split_.columns = {source_.column("source"), target_.column("target")};
  }
  Pairs(const Pairs&) = delete;
  Pairs& operator=(const Pairs&) = delete;
  const dataset::CachedSplit& split() const { return split_; }

 private:
  Side source_, target_;
  dataset::CachedSplit split_;
};

// A text in which each token is its own position; with a vocabulary, a token computed from its position.
class Text {
 public:
  explicit Text(int64_t tokens, int64_t vocabulary = 0) : offsets_{0, tokens} {
    for (int64_t i = 0; i < tokens; ++i) {
      tokens_.push_back(static_cast<int32_t>(vocabulary == 0 ? i : i * i % 31 * 7 % vocabulary));
    }
    split_.name = "train";
    split_.samples = 1;
    split_.columns = {dataset::TokenColumn{"tokens", tokens_, offsets_}};
  }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  const dataset::CachedSplit& split() const { return split_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }

 private:
  std::vector<int32_t> tokens_;
  std::vector<int64_t> offsets_;
  dataset::CachedSplit split_;
};

}  // namespace mlbench::data::test
