#pragma once

// This rank's training batches, one global step after the other, decoded ahead of them.

#include <cstdint>
#include <memory>
#include <vector>

#include "mlbench/data/batch.h"
#include "mlbench/data/plan.h"
#include "mlbench/data/sample_source.h"

namespace mlbench::data {

struct LoaderOptions {
  int64_t rank = 0;
  int64_t first_step = 0;    // global step to begin with (resume in the middle of an epoch)
  int prefetch = 3;          // batches decoded ahead by the background thread; 0, and for rows of the cache: when asked
  bool fixed_batch = false;  // the first batch of the run, decoded once, over and over; no thread
  // Where the background thread may run; empty: where its maker may. A maker that is bound to a core names more.
  std::vector<int> cores = {};
};

// Endless training batches, in order, decoded by one background thread into a ring of prefetch + 1 buffers. For one
// consumer. Nothing but a fixed batch is decoded before the first next(), so that a clock which starts there counts all
// waiting for data. Destruction waits for the batch in work at most.
class TrainLoader {
 public:
  virtual ~TrainLoader() = default;
  // Waits for the next batch; valid until the next call. What the background thread threw (a transform's error) is
  // rethrown after the batches before it, and again by every later call. A batch may be empty (fewer samples left
  // than ranks): it has no micro-batches, global_samples is not 0.
  virtual const Batch& next() = 0;
  // No further batch is begun before the next next(): for time that no clock counts.
  virtual void pause() {}
};
// UserError where options make no sense.
std::unique_ptr<TrainLoader> make_train_loader(std::shared_ptr<const SampleSource> source,
                                               std::shared_ptr<const BatchPlan> plan, const LoaderOptions& options);

}  // namespace mlbench::data
