#pragma once

// What a step's micro-batches are made of, and the memory that holds them.
//
//   samples    records of one shape: rows of the mapped cache, or what a transform makes of them
//   sentences  pairs of any length, found by an index, padded at their ends
//   columns    pieces of one text

#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/data/plan.h"
#include "mlbench/data/transform.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::data {

// Of one micro-batch. Grows, and is kept from step to step.
class BatchMemory {
 public:
  // At least `count` values, at a multiple of 64 bytes; not set to anything.
  float* floats(int64_t count);
  // `count` values each; what `slot` (from 0) held before is gone.
  std::span<int64_t> integers(size_t slot, int64_t count);

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct AlignedDelete {
    void operator()(float* data) const { operator delete[](data, kAlignment); }
  };

  std::unique_ptr<float[], AlignedDelete> floats_;
  int64_t float_capacity_ = 0;
  std::vector<std::vector<int64_t>> integers_;
};

// Without state: one object serves several threads.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  // Makes `view` the micro-batch of these rows (piece.count of them, which live as long as the view), in `memory` or in
  // the mapped cache.
  virtual void fill(std::span<const int64_t> rows, const Piece& piece, int64_t epoch, BatchView& view,
                    BatchMemory& memory) const = 0;
  // Whether a micro-batch is a list of rows: made sooner than handed over by another thread.
  virtual bool points_into_cache() const { return false; }
};

// "features" float32 [samples, ...] and "labels" int64 [samples]; weight = samples. The split outlives the source.
// UserError where the transform refuses the split.
std::shared_ptr<const SampleSource> make_sample_source(const dataset::CachedSplit& split,
                                                       std::unique_ptr<Transform> transform);

struct SentenceOptions {
  int64_t max_length = 0;  // of both sides: longer pairs are not among those that are kept; 0: all are
  int64_t cut_length = 0;  // of both sides: what is longer loses its end; 0: nothing is cut
  int64_t multiple = 1;    // positions are a multiple of this
};
// Pairs of sentences, "source" and "target" of a split, as tensors int64 [sentences, positions], padded at the end:
//   source      the tokens, then the end       source_lengths [sentences]: tokens and end
//   target_in   the begin, then the tokens     target_lengths [sentences]: tokens and begin, or end
//   target_out  the tokens, then the end
// weight = sum of target lengths. Max and cut count tokens alone.
class SentenceSource final : public SampleSource, public Sentences {
 public:
  // UserError where the split holds no pairs. It outlives the source.
  SentenceSource(const dataset::CachedSplit& split, const SentenceOptions& options);

  void fill(std::span<const int64_t> rows, const Piece& piece, int64_t epoch, BatchView& view,
            BatchMemory& memory) const override;

  const std::vector<int64_t>& kept() const override { return kept_; }
  int64_t length(int64_t sentence) const override;
  int64_t weight(int64_t sentence) const override;

 private:
  std::span<const int32_t> cut(std::span<const int32_t> tokens) const;

  const dataset::TokenColumn &source_, &target_;
  SentenceOptions options_;
  std::vector<int64_t> kept_;
};

// A text, "tokens" of a split, in `columns` columns of equal height; what is left at its end is left out.
//   tokens, targets   int64 [positions, columns]; targets are the tokens one position further
// weight = positions * columns. The split outlives the source. UserError where it holds no text, or too short a one.
std::shared_ptr<const SampleSource> make_column_source(const dataset::CachedSplit& split, int64_t columns);

}  // namespace mlbench::data
