#pragma once

// The training loop, the only code that knows the order of steps, evaluations, checkpoints and stop rule.
//
// The train clock (rules in docs/rules.md) runs from the first batch request to the end of the last step, and stands
// still during evaluations. Every moment of the train clock belongs to one step kind. A checkpoint in mid-run counts as
// `checkpoint` of the step that follows it; the checkpoint at the end of a run comes after the clock has stopped. A
// timeline has every moment from the first batch request on: steps, and what lies between them.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/data/train_loader.h"
#include "mlbench/data/workload.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/framework/framework.h"
#include "mlbench/optim/optimizer.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/track/recorder.h"
#include "mlbench/track/timeline_recorder.h"
#include "mlbench/train/stop_point.h"

namespace mlbench::train {

// Wraps the run's own loader, for tests in which a rank's data come late.
using WrapLoader = std::function<std::unique_ptr<data::TrainLoader>(std::unique_ptr<data::TrainLoader>)>;

struct TrainContext {
  const spec::RunSpec& run;
  comm::Communicator& comm;
  framework::Framework& framework;
  optim::Optimizer& optimizer;
  const dataset::PreparedDataset& data;
  track::Recorder& recorder;
  const Clock& clock;
  std::optional<int64_t> resume_step;           // step of the checkpoint to start from; empty: a new run
  int64_t elapsed_before_ns = 0;                // train + evaluation time of earlier segments, for --max-time
  std::atomic<int64_t>* progress = nullptr;     // steps done, for heartbeats; may be null
  WrapLoader wrap_loader = {};                  // empty: the loader is not wrapped
  std::vector<int> other_cores = {};            // for threads that load data; empty: the cores of the loop's thread
  track::TimelineRecorder* timeline = nullptr;  // null: none is wanted; it must use the same clock
  int decoding_threads = 0;                     // that decode a batch of samples together; 0: one, and it is not told
  const data::Workload* workload = nullptr;     // of `data`, for tests; null: the one that the task's batching makes
  StopPoint* stop = nullptr;                    // null: nobody stops the run before its end
};

enum class StopReason { kGoal, kMaxSteps, kMaxEpochs, kMaxTime, kEpochs, kStopped };
std::string_view name_of(StopReason reason);

struct TrainResult {
  StopReason reason = StopReason::kEpochs;
  int64_t steps = 0;           // steps done, from the run's beginning
  std::string weights_sha256;  // of the model averaged over the ranks (snapshot.h), the same on all ranks; kStopped: ""
};

// Trains to the goal or a limit, or until the run is stopped; then there is a checkpoint of the last step. Collective:
// all ranks call it with the same run. Throws CommError where a peer fails,
// IoError where spool or checkpoint cannot be written, and UserError for a checkpoint of another run.
TrainResult train(const TrainContext& context);

}  // namespace mlbench::train
