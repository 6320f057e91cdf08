#pragma once

// Checkpoints of a run: what is in one, when it is written, and which run may go on from it.

#include <cstdint>
#include <filesystem>

#include "mlbench/base/named_state.h"
#include "mlbench/schedule/schedule.h"
#include "mlbench/train/evaluation.h"
#include "mlbench/train/train.h"

namespace mlbench::train {

// How far a run is.
struct Position {
  int64_t steps = 0;  // done
  bool goal_reached = false;
};

// A checkpoint holds model, the state that its batches carry, optimizer and schedule, the metrics of the epoch so
// far, whether the goal was reached, and which run wrote it. What ranks do not share is in it for each of them
// (own_state.h).
class CheckpointKeeper {
 public:
  // `epoch_metrics` are this rank's own.
  CheckpointKeeper(const TrainContext& context, schedule::Schedule& schedule, MetricSet& epoch_metrics);

  // Whether the run's policy wants one behind this step in mid-run.
  bool due(int64_t step, bool epoch_ends) const;

  // Rank 0 writes, and returns the folder; the others return "". Collective. IoError.
  std::filesystem::path write(const Position& position);

  // Everything as it was behind that step. UserError: there is no such checkpoint (lists those that there are), or it
  // is damaged or of another task, framework or number of workers.
  Position restore(int64_t step);

 private:
  void export_carried_state(NamedState& own) const;
  void import_carried_state(const NamedState& own) const;
  NamedState capture(const Position& position);
  void check_origin(const std::filesystem::path& checkpoint, const NamedState& state) const;

  const TrainContext& c_;
  schedule::Schedule& schedule_;
  MetricSet& epoch_metrics_;
  const std::filesystem::path folder_;
};

}  // namespace mlbench::train
