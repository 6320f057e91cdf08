#pragma once

// A rank's part of an evaluation split.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/data/sample_source.h"
#include "mlbench/data/transform.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::data {

// Returns batches in order, and nullptr at the end. Batches are decoded when asked for. A view is valid until the next
// call.
class EvalLoader {
 public:
  virtual ~EvalLoader() = default;
  virtual void restart() = 0;
  virtual const BatchView* next() = 0;
  // Which records of the split the last batch has, sample for sample, so that results can be put into the split's
  // order. Empty where the records follow each other.
  virtual std::span<const int64_t> records() const { return {}; }
};

// Which of `workers` ranks a loader is for; how many threads decode the samples of a batch together, of which one is
// the caller of next(), and the cores of the others (DecodingThreads). Bad samples are told by next().
struct EvalShard {
  int64_t workers = 1, rank = 0;
  int threads = 1;
  std::vector<int> cores = {};
  BadSampleRule bad = {};
};

// Micro-batches of that source in their order. `pieces` are pieces of `rows`, as in a StepPlan.
std::unique_ptr<EvalLoader> make_piece_eval_loader(std::shared_ptr<const SampleSource> source,
                                                   std::vector<int64_t> rows, std::vector<Piece> pieces,
                                                   const EvalShard& shard);

// Rank r takes rows [r*N/k, (r+1)*N/k), up to `batch_size` at a time. A batch is a dense piece of the mapped cache
// where the transform leaves samples as they are.
std::unique_ptr<EvalLoader> make_sample_eval_loader(const dataset::CachedSplit& split,
                                                    std::unique_ptr<Transform> transform, const EvalShard& shard,
                                                    int64_t batch_size);

// The loader takes rows as the one above does, but of `records` of a source, which are decoded in that order.
std::unique_ptr<EvalLoader> make_sample_eval_loader(std::shared_ptr<const SampleSource> source,
                                                    const std::vector<int64_t>& records, const EvalShard& shard,
                                                    int64_t batch_size);

// All pairs that the source keeps, sorted by length, `batch_size` at a time; rank i mod k takes batch i. All k have the
// same batches.
std::unique_ptr<EvalLoader> make_sentence_eval_loader(std::shared_ptr<const SentenceSource> source,
                                                      const EvalShard& shard, int64_t batch_size);

// The text in `columns` columns for every k, `bptt` positions at a time; rank r takes columns [r*C/k, (r+1)*C/k). Each
// column begins without state, and the state goes on from batch to batch. So all predictions are the same for every k,
// except for the rounding of products of other shapes.
std::unique_ptr<EvalLoader> make_column_eval_loader(std::span<const int32_t> text, int64_t columns, int64_t bptt,
                                                    const EvalShard& shard);

}  // namespace mlbench::data
