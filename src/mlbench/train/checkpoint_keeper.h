#pragma once

// Checkpoints of a run: what is in a checkpoint, when it is written, and which run may go on from it.

#include <cstdint>
#include <filesystem>

#include "mlbench/base/named_state.h"
#include "mlbench/schedule/schedule.h"
#include "mlbench/train/bad_images.h"
#include "mlbench/train/evaluation.h"
#include "mlbench/train/train.h"

namespace mlbench::train {

// How far a run is.
struct Position {
  int64_t steps = 0;  // steps done
  bool goal_reached = false;
};

// Writes and restores checkpoints. A checkpoint holds the model, the state that batches carry, optimizer and schedule,
// the metrics of the current epoch, whether the goal was reached, the images that cannot be decoded, and which run
// wrote it. State in which ranks differ is there once per rank (own_state.h).
class CheckpointKeeper {
 public:
  // `epoch_metrics` are this rank's own metrics of the current epoch. The arguments must outlive the keeper.
  CheckpointKeeper(const TrainContext& context, schedule::Schedule& schedule, MetricSet& epoch_metrics,
                   BadImages& bad_images);

  // Whether the run's policy wants a checkpoint after `step` steps, in mid-run. `epoch_ends` says whether an epoch ends
  // there.
  bool due(int64_t step, bool epoch_ends) const;

  // Writes a checkpoint of `position`. Rank 0 writes it and returns its folder; other ranks return an empty path.
  // Collective. Throws IoError where writing fails.
  std::filesystem::path write(const Position& position);

  // Restores the state after `step` steps. Throws UserError where there is no such checkpoint (the message lists those
  // that there are), and where it is damaged or of another task, framework or number of workers.
  Position restore(int64_t step);

 private:
  void export_carried_state(NamedState& own) const;
  void import_carried_state(const NamedState& own) const;
  NamedState capture(const Position& position);
  void check_origin(const std::filesystem::path& checkpoint, const NamedState& state) const;

  const TrainContext& c_;
  schedule::Schedule& schedule_;
  MetricSet& epoch_metrics_;
  BadImages& bad_images_;
  const std::filesystem::path folder_;
};

}  // namespace mlbench::train
