#include "mlbench/train/checkpoint_keeper.h"

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/checkpoint/checkpoint.h"
#include "mlbench/spec/former_names.h"
#include "mlbench/train/own_state.h"
#include "mlbench/train/snapshot.h"

namespace mlbench::train {

namespace {

constexpr const char* kCarriedState = "train/carried_state";

}  // namespace

CheckpointKeeper::CheckpointKeeper(const TrainContext& context, schedule::Schedule& schedule, MetricSet& epoch_metrics,
                                   BadImages& bad_images)
    : c_(context),
      schedule_(schedule),
      epoch_metrics_(epoch_metrics),
      bad_images_(bad_images),
      folder_(checkpoints_dir(context.run.run_dir)) {}

bool CheckpointKeeper::due(int64_t step, bool epoch_ends) const {
  const spec::CheckpointPolicy& policy = c_.run.checkpoint;
  return (policy.every_steps > 0 && step % policy.every_steps == 0) || (policy.every_epoch && epoch_ends);
}

NamedState CheckpointKeeper::capture(const Position& position) {
  NamedState state, own;
  const bool replicated = c_.optimizer.promise().replicated;
  export_model(c_.framework, average_model(c_.framework, c_.comm, replicated), state, own);
  c_.optimizer.export_state(state);
  c_.optimizer.export_own_state(own);
  export_carried_state(own);
  gather_own_state(own, c_.comm, state);
  schedule_.export_state(state);
  bad_images_.share(c_.comm);
  bad_images_.export_state(state);
  std::vector<double> sums = epoch_metrics_.gather_sums();
  if (c_.comm.size() > 1) c_.comm.all_reduce(view_of(std::span(sums)), comm::ReduceOp::kSum);
  const auto bytes = std::as_bytes(std::span(sums));
  state.tensors["train/epoch_metric_sums"] = {
      DType::kFloat64, {static_cast<int64_t>(sums.size())}, {bytes.begin(), bytes.end()}};
  state.scalars["train/step"] = position.steps;
  state.scalars["train/goal_reached"] = static_cast<int64_t>(position.goal_reached);
  state.scalars["train/task_hash"] = c_.run.task.hash;
  state.scalars["train/framework"] = c_.run.framework;
  state.scalars["train/workers"] = c_.run.workers;
  state.scalars["train/threads_per_worker"] = c_.run.threads_per_worker;
  state.scalars["train/seed"] = static_cast<int64_t>(c_.run.seed);
  return state;
}

std::filesystem::path CheckpointKeeper::write(const Position& position) {
  const NamedState state = capture(position);
  return c_.comm.rank() == 0 ? checkpoint::write_checkpoint(folder_, position.steps, state) : std::filesystem::path();
}

void CheckpointKeeper::export_carried_state(NamedState& own) const {
  const std::vector<float> carried = c_.framework.carried_state();
  if (carried.empty()) return;
  const auto bytes = std::as_bytes(std::span(carried));
  own.tensors[kCarriedState] = {DType::kFloat32, {std::ssize(carried)}, {bytes.begin(), bytes.end()}};
}

void CheckpointKeeper::import_carried_state(const NamedState& own) const {
  if (!own.tensors.contains(kCarriedState)) return;
  const HostTensor& stored = own.tensor(kCarriedState);
  std::vector<float> carried(stored.bytes.size() / sizeof(float));
  std::memcpy(carried.data(), stored.bytes.data(), carried.size() * sizeof(float));
  // A state is carried along each column of a text, and a rank has batch_size columns.
  c_.framework.set_carried_state(carried, c_.run.task.task.batch_size);
}

void CheckpointKeeper::check_origin(const std::filesystem::path& checkpoint, const NamedState& state) const {
  const auto must_equal = [&](const std::string& name, const std::string& found, const std::string& expected) {
    if (found != expected) {
      throw UserError("checkpoint " + checkpoint.string() + " was written by another run: " + name + " is " + found +
                      ", this run's is " + expected);
    }
  };
  must_equal("task", state.text("train/task_hash"), c_.run.task.hash);
  must_equal("framework", spec::present_framework(state.text("train/framework")), c_.run.framework);
  must_equal("workers", std::to_string(state.integer("train/workers")), std::to_string(c_.run.workers));
}

Position CheckpointKeeper::restore(int64_t step) {
  std::string steps;
  for (const checkpoint::CheckpointInfo& info : checkpoint::list_checkpoints(folder_)) {
    steps += (steps.empty() ? "" : ", ") + std::to_string(info.step);
    if (info.step != step) continue;
    const NamedState state = checkpoint::read_checkpoint(info.path);
    check_origin(info.path, state);
    import_model(state, c_.comm.rank(), c_.framework);
    c_.optimizer.import_state(state);
    const NamedState own = own_state_of(state, c_.comm.rank());
    c_.optimizer.import_own_state(own);
    import_carried_state(own);
    schedule_.import_state(state);
    bad_images_.import_state(state);
    // The stored sums are those of all ranks: rank 0 goes on with them, the others from zero.
    const HostTensor& stored = state.tensor("train/epoch_metric_sums");
    std::vector<double> sums(stored.bytes.size() / sizeof(double));
    if (c_.comm.rank() == 0) std::memcpy(sums.data(), stored.bytes.data(), stored.bytes.size());
    epoch_metrics_.scatter_sums(sums);
    return {state.integer("train/step"), state.integer("train/goal_reached") != 0};
  }
  throw UserError("no checkpoint at step " + std::to_string(step) + " in " + folder_.string() +
                  (steps.empty() ? ": there is none" : ": there are steps " + steps));
}

}  // namespace mlbench::train
