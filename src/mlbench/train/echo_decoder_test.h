#pragma once

// A decoder whose translations are known, and a framework that has several of them at once, for tests.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/framework/framework.h"
#include "mlbench/train/toy_test.h"

namespace mlbench::train::test {

// A decoder that repeats the source: the right token has probability 0.8, and the one after it 0.15.
class EchoDecoder final : public framework::Decoder {
 public:
  static constexpr int64_t kVocabulary = 40;

  void start(const BatchView& sources, int64_t rows_per_sample) override {
    const BatchTensor& source = sources.at("source");
    const auto* lengths = static_cast<const int64_t*>(sources.at("source_lengths").values.data);
    const auto* ids = static_cast<const int64_t*>(source.values.data);
    rows_.clear();
    for (int64_t i = 0; i < sources.samples; ++i) {
      const int64_t* first = ids + i * source.row_volume();
      for (int64_t r = 0; r < rows_per_sample; ++r) rows_.emplace_back(first, first + lengths[i]);
    }
    step_ = 0;
  }
  std::span<const float> step(std::span<const int64_t> tokens) override {
    values_.assign(tokens.size() * kVocabulary, static_cast<float>(std::log(1e-6)));
    for (size_t row = 0; row < tokens.size(); ++row) {
      const int64_t right = step_ < rows_[row].size() ? rows_[row][step_] : kEndOfSentence;
      float* own = values_.data() + row * kVocabulary;
      own[(right + 1) % kVocabulary] = static_cast<float>(std::log(0.15));
      own[right] = static_cast<float>(std::log(0.8));
    }
    ++step_;
    return values_;
  }
  void reorder(std::span<const int64_t> rows) override {
    std::vector<std::vector<int64_t>> next;
    for (const int64_t row : rows) next.push_back(rows_.at(static_cast<size_t>(row)));
    rows_ = std::move(next);
  }
  std::span<const float> attention() override { return {}; }

 private:
  static constexpr int64_t kEndOfSentence = 3;

  std::vector<std::vector<int64_t>> rows_;
  std::vector<float> values_;
  size_t step_ = 0;
};

// Decodes with at most `threads` threads.
class EchoFramework final : public ToyFramework {
 public:
  explicit EchoFramework(int64_t threads = 1) : ToyFramework(1), threads_(threads) {}

  std::unique_ptr<framework::Decoder> make_decoder() override { return std::make_unique<EchoDecoder>(); }
  void decode(int64_t most, const DecoderWork& work) override {
    std::vector<std::future<void>> calls;
    for (int64_t i = 0; i < std::min(most, threads_); ++i) {
      calls.push_back(std::async(std::launch::async, [&] { work(*make_decoder()); }));
    }
    for (auto& call : calls) call.get();
  }

 private:
  void compute(const BatchView&, framework::Mode) override {}

  const int64_t threads_;
};

}  // namespace mlbench::train::test
