#pragma once

// Makes batches of tokens, for tests.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/base/random.h"

namespace mlbench::framework {

// A batch that owns its tensors, all int64. view() is a view of this object.
struct TokenBatch {
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape, values;
  };
  std::vector<Tensor> tensors;
  int64_t samples = 0, weight = 0;
  bool continues = false;

  BatchView view() const {
    BatchView batch;
    batch.samples = samples;
    batch.weight = weight;
    batch.continues = continues;
    for (const Tensor& one : tensors) {
      batch.tensors.push_back(
          {one.name, one.shape, {one.values.data(), static_cast<int64_t>(one.values.size()), DType::kInt64}, {}});
    }
    return batch;
  }
};

// A batch of a language model: positions [first, first + positions) of a stream of random tokens in each column.
// `key` selects the streams.
inline TokenBatch language_batch(int64_t vocabulary, int64_t positions, int64_t columns, int64_t first = 0,
                                 uint64_t key = 3) {
  TokenBatch batch;
  batch.samples = columns;
  batch.weight = positions * columns;
  batch.tensors = {{"tokens", {positions, columns}, {}}, {"targets", {positions, columns}, {}}};
  for (int64_t t = first; t < first + positions; ++t) {
    for (int64_t next = 0; next < 2; ++next) {
      for (int64_t column = 0; column < columns; ++column) {
        RandomSequence random(derive_key(key, {static_cast<uint64_t>(t + next), static_cast<uint64_t>(column)}));
        batch.tensors[static_cast<size_t>(next)].values.push_back(
            static_cast<int64_t>(random.below(static_cast<uint64_t>(vocabulary))));
      }
    }
  }
  return batch;
}

// A pair of sentences, without padding. `source` ends with eos (3); `target` has words only, to which
// translation_batch adds bos (2) and eos.
struct SentencePair {
  std::vector<int64_t> source, target;
};

inline SentencePair sentence_pair(int64_t vocabulary, int64_t source_words, int64_t target_words, uint64_t key) {
  RandomSequence random(key);
  SentencePair pair;
  const auto word = [&] { return 4 + static_cast<int64_t>(random.below(static_cast<uint64_t>(vocabulary - 4))); };
  for (int64_t i = 0; i < source_words; ++i) pair.source.push_back(word());
  pair.source.push_back(3);
  for (int64_t i = 0; i < target_words; ++i) pair.target.push_back(word());
  return pair;
}

inline TokenBatch translation_batch(const std::vector<SentencePair>& pairs) {
  TokenBatch batch;
  const auto n = static_cast<int64_t>(pairs.size());
  size_t source_positions = 0, target_positions = 0;
  for (const SentencePair& pair : pairs) {
    source_positions = std::max(source_positions, pair.source.size());
    target_positions = std::max(target_positions, pair.target.size() + 1);
  }
  TokenBatch::Tensor source{"source", {n, static_cast<int64_t>(source_positions)}, {}};
  TokenBatch::Tensor in{"target_in", {n, static_cast<int64_t>(target_positions)}, {}};
  TokenBatch::Tensor out{"target_out", in.shape, {}};
  TokenBatch::Tensor source_lengths{"source_lengths", {n}, {}}, target_lengths{"target_lengths", {n}, {}};
  const auto append = [](std::vector<int64_t>& to, std::vector<int64_t> values, size_t positions) {
    values.resize(positions);  // 0: padding
    to.insert(to.end(), values.begin(), values.end());
  };
  for (const SentencePair& pair : pairs) {
    append(source.values, pair.source, source_positions);
    std::vector<int64_t> shifted = {2}, ended = pair.target;
    shifted.insert(shifted.end(), pair.target.begin(), pair.target.end());
    ended.push_back(3);
    append(in.values, shifted, target_positions);
    append(out.values, ended, target_positions);
    source_lengths.values.push_back(static_cast<int64_t>(pair.source.size()));
    target_lengths.values.push_back(static_cast<int64_t>(ended.size()));
    batch.weight += target_lengths.values.back();
  }
  batch.samples = n;
  batch.tensors = {source, in, out, source_lengths, target_lengths};
  return batch;
}

}  // namespace mlbench::framework
