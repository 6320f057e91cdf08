#pragma once

// This rank's training batches, one global step after the other, decoded ahead of use.

#include <cstdint>
#include <memory>
#include <vector>

#include "mlbench/data/batch.h"
#include "mlbench/data/plan.h"
#include "mlbench/data/ring_gauge.h"
#include "mlbench/data/sample_source.h"

namespace mlbench::data {

struct LoaderOptions {
  int64_t rank = 0;
  int64_t first_step = 0;    // the global step to begin with (resume in the middle of an epoch)
  int prefetch = 3;          // batches decoded ahead in the background; 0, and for rows of the cache: when asked
  int threads = 1;           // that decode the samples of a batch together
  bool fixed_batch = false;  // the first batch of the run, decoded once, is returned over and over; no thread
  // The cores on which the loader's threads may run; empty: those of the thread that makes the loader. A maker that is
  // bound to a core names more.
  std::vector<int> cores = {};
  BadSampleRule bad = {};                // told by next()
  std::shared_ptr<RingGauge> ring = {};  // is told of a ring; null: nobody asks
};

// Endless training batches, in order, decoded in the background into a ring of prefetch + 1 buffers. Neither bits nor
// buffers depend on the number of threads. One consumer may use a loader. Only a fixed batch is decoded before the
// first next(), so that a clock which starts there counts all waiting for data. The destructor waits at most for the
// batch that is being decoded.
class TrainLoader {
 public:
  virtual ~TrainLoader() = default;
  // Waits for the next batch, which is valid until the next call. An error of a thread (a transform's) is
  // thrown after the batches before it, and again by every later call. A batch may be empty (there are fewer samples
  // left than ranks): then it has no micro-batches, and global_samples is not 0.
  virtual const Batch& next() = 0;
  // No further batch is begun before the next call of next(): for time that no clock counts.
  virtual void pause() {}
};
// Throws UserError where options make no sense.
std::unique_ptr<TrainLoader> make_train_loader(std::shared_ptr<const SampleSource> source,
                                               std::shared_ptr<const BatchPlan> plan, const LoaderOptions& options);

}  // namespace mlbench::data
