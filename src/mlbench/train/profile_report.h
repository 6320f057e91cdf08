#pragma once

// What a training step is made of (--explain), and what each operation of it costs (--profile).

#include <cstdint>
#include <optional>

#include "mlbench/base/json.h"
#include "mlbench/train/train.h"

namespace mlbench::train {

class ProfileReport {
 public:
  explicit ProfileReport(const TrainContext& context) : c_(context) {}

  // Before each step of the segment, with this rank's samples in it, of all its micro-batches. The first few, in
  // which memory is found and caches fill, are not counted.
  void begin_step(int64_t samples);

  // The record's `operations`, on rank 0: means over the counted steps, of the first thread of this rank. Without
  // profile "time" all figures are null. Empty where nothing was asked for, no step was counted, or on other ranks.
  std::optional<Json> operations() const;

 private:
  bool timed() const { return c_.run.profile == "time"; }

  const TrainContext& c_;
  int64_t steps_seen_ = 0;
  int64_t steps_ = 0, samples_ = 0;  // counted
};

}  // namespace mlbench::train
