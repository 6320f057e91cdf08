#pragma once

// Makes the micro-batches of a step, and has the memory that holds them.
//
//   samples    records of one shape: rows of the mapped cache, or what a transform makes of them or of encoded images
//   sentences  pairs of any length, found by an index, padded at their ends
//   columns    pieces of one text

#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/data/bad_sample.h"
#include "mlbench/data/decoding_threads.h"
#include "mlbench/data/plan.h"
#include "mlbench/data/transform.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::data {

// The memory of one micro-batch, which grows, and is kept from step to step.
class BatchMemory {
 public:
  // At least `count` values, at a multiple of 64 bytes, without initial values.
  float* floats(int64_t count);
  // `count` values in slot `slot` (from 0). What the slot held before is lost.
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

// The samples of one micro-batch.
struct SampleRequest {
  std::span<const int64_t> rows;  // their numbers, piece.count of them, which must live as long as the view
  Piece piece;
  int64_t epoch = 0;         // with a sample's number, what its augmentation is drawn from
  DecodingThreads& threads;  // may decode samples at the same time
  BadSampleRule bad = {};    // told on the thread that calls fill()
};

// Numbered samples, which plans put into an order, and which are brought into batches. A source has no state: several
// threads may use one object. The first kind of source is the columns of a split.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  // How many samples there are. They are numbered from 0.
  virtual int64_t size() const = 0;
  // Makes `view` the micro-batch of these samples, in `memory` or in the mapped cache. Its bits do not depend on the
  // number of threads.
  virtual void fill(const SampleRequest& request, BatchView& view, BatchMemory& memory) const = 0;
  // Whether a micro-batch is only a list of rows, which is made sooner than another thread could hand it over.
  virtual bool points_into_cache() const { return false; }
};

// Yields "features" float32 [samples, ...], or sparse rows in their place (base/sparse_rows.h), and "labels" int64
// [samples]; the weight is the number of samples. Encoded images are read from their files and decoded whenever they
// are asked for. The split must outlive the source. Throws UserError where the transform refuses the split, and IoError
// where a file of images cannot be opened. The text of what is thrown for one sample begins with "sample NUMBER of
// split 'NAME': ". What a transform throws as image::BadImage follows SampleRequest::bad, unless the image has other
// bytes than the index says: that is an IoError. Stand-ins are of `part`, ascending numbers of samples; empty: of the
// whole split.
std::shared_ptr<const SampleSource> make_sample_source(const dataset::CachedSplit& split,
                                                       std::unique_ptr<Transform> transform,
                                                       std::vector<int64_t> part = {});

struct SentenceOptions {
  int64_t max_length = 0;  // of both sides: longer pairs are not kept; 0: all pairs are
  int64_t cut_length = 0;  // of both sides: a longer sentence loses its end; 0: nothing is cut
  int64_t multiple = 1;    // the number of positions is a multiple of this
};
// The pairs of sentences "source" and "target" of a split, as tensors int64 [sentences, positions], padded at the end:
//   source      the tokens, then the end       source_lengths [sentences]: tokens and end
//   target_in   the begin, then the tokens     target_lengths [sentences]: tokens and begin, or end
//   target_out  the tokens, then the end
// The weight is the sum of the target lengths. max_length and cut_length count tokens alone.
class SentenceSource final : public SampleSource, public Sentences {
 public:
  // Keeps of all pairs, or of the pairs `records` (ascending), those that are short enough. Throws UserError where the
  // split has no pairs. The split must outlive the source.
  SentenceSource(const dataset::CachedSplit& split, const SentenceOptions& options);
  SentenceSource(const dataset::CachedSplit& split, const SentenceOptions& options, std::vector<int64_t> records);

  int64_t size() const override { return source_.records(); }
  void fill(const SampleRequest& request, BatchView& view, BatchMemory& memory) const override;

  const std::vector<int64_t>& kept() const override { return kept_; }
  int64_t length(int64_t sentence) const override;
  int64_t weight(int64_t sentence) const override;

 private:
  std::span<const int32_t> cut(std::span<const int32_t> tokens) const;

  const dataset::TokenColumn &source_, &target_;
  SentenceOptions options_;
  std::vector<int64_t> kept_;
};

// Holds out the pairs that hold_out() draws. Of the others, those are left out of both parts that have the source or
// the target of a held-out pair, so that no evaluated sentence is trained on. Throws UserError where the split has no
// pairs, and as hold_out() does.
Holdout hold_out_pairs(const dataset::CachedSplit& split, double share);

// A text in `columns` columns of equal height; the rest at the text's end is left out.
//   tokens, targets   int64 [positions, columns]; targets are the tokens one position further
// The weight is positions * columns. The text must outlive the source. Throws UserError where it is too short.
std::shared_ptr<const SampleSource> make_column_source(std::span<const int32_t> text, int64_t columns);

// A text whose end is held out: floor(tokens * share) tokens. Both parts are whole, as a model reads them, and meet in
// one place. Throws UserError where either part is empty.
struct TextHoldout {
  std::span<const int32_t> trained, held_out;
};
TextHoldout hold_out_end(std::span<const int32_t> text, double share);

}  // namespace mlbench::data
