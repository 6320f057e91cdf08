#pragma once

// Runs train() within one process, for tests. Ranks are threads, each with a clock of its own. A clock moves only when
// the framework or the optimizer does something, by the times below, so that every time in a spool is known.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/base/files.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/compress/identity.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/dataset/synthetic.h"
#include "mlbench/framework/null/null_framework.h"
#include "mlbench/models/chain.h"
#include "mlbench/optim/factory.h"
#include "mlbench/optim/optimizer.h"
#include "mlbench/record/build_record.h"
#include "mlbench/record/timeline.h"
#include "mlbench/train/stop_point.h"
#include "mlbench/train/train.h"

namespace mlbench::train::test {

using std::chrono::milliseconds;

// The times that rank 0 needs for the parts of a step; rank r needs r + 1 times as long.
inline constexpr milliseconds kInit{1}, kForward{20}, kLoss{3}, kBackward{40}, kAggregate{5}, kUpdate{7}, kMetrics{9};
inline constexpr milliseconds kStep{85};  // their sum
// The times for a batch of an evaluation, for the state of the optimizer in a checkpoint, and for switching a profile
// on.
inline constexpr milliseconds kEvaluation{100}, kCheckpoint{50}, kProfile{30};

// The time that a step takes beside kStep, by the number of the step.
using ExtraTime = std::function<milliseconds(int64_t step)>;

// Called at the end of a rank's backward pass, with the number of the step.
using AfterBackward = std::function<void(int rank, int64_t step)>;

// Moves a rank's clock.
class Pace {
 public:
  Pace(ManualClock& clock, int rank) : clock_(clock), factor_(rank + 1) {}
  void spend(milliseconds time) { clock_.advance(factor_ * time); }

 private:
  ManualClock& clock_;
  int factor_;
};

// A framework whose results are known beforehand. After s steps the mean loss of any batch is 8 - s, and the first s
// samples of the batch are classified rightly. The gradient of each parameter is loss_scale, so that the sum over ranks
// is 1; with a spread, the gradient of rank r is that times 1 + r * spread. Each training step adds rank + 1 to the
// running statistics.
class KnownFramework final : public framework::Framework {
 public:
  KnownFramework(const framework::FrameworkOptions& options, Pace pace, ExtraTime extra, double spread,
                 AfterBackward after_backward)
      : null_(framework::null_framework::make(options)),
        rank_(options.rank),
        pace_(pace),
        extra_(std::move(extra)),
        spread_(spread),
        after_backward_(std::move(after_backward)) {}

  const models::FlatLayout& layout() const override { return null_->layout(); }
  BufferView parameters() override { return null_->parameters(); }
  BufferView gradients() override { return null_->gradients(); }
  BufferView buffers() override { return null_->buffers(); }
  void initialise() override { null_->initialise(); }

  void begin_step(int64_t step) override {
    pace_.spend(extra_ ? kInit + extra_(step) : kInit);
    steps_ = step;
  }
  void forward(const BatchView& batch, framework::Mode mode) override {
    training_ = mode == framework::Mode::kTrain;
    spend_in_layer(framework::LayerPass::kForward, training_ ? kForward : kEvaluation);
    if (training_) {
      for (float& value : framework::values_of(buffers())) value += static_cast<float>(rank_ + 1);
    } else {
      evaluated_with.push_back(framework::values_of(buffers())[0]);
      evaluated_weights.push_back(framework::values_of(parameters())[0]);
    }
    const auto* labels = static_cast<const int64_t*>(batch.at("labels").values.data);
    outputs_.assign(static_cast<size_t>(2 * batch.samples), 0);
    for (int64_t i = 0; i < batch.samples; ++i) {
      outputs_[static_cast<size_t>(2 * i + (i < steps_ ? labels[i] : 1 - labels[i]))] = 1;
    }
    loss_ = 8 - static_cast<double>(steps_);
  }
  double loss() override {
    if (training_) pace_.spend(kLoss);
    return loss_;
  }
  framework::MetricSums metric_sums() override { return null_->metric_sums(); }
  void backward(const framework::BackwardOptions& options) override {
    spend_in_layer(framework::LayerPass::kBackward, kBackward);
    // Samples are not cut into micro-batches.
    std::ranges::fill(framework::values_of(gradients()), static_cast<float>(options.scale * (1 + rank_ * spread_)));
    null_->backward(options);  // calls the callback
    if (after_backward_) after_backward_(rank_, steps_);
    ++steps_;
  }
  void zero_gradients() override {
    std::ranges::fill(framework::values_of(gradients()), 0.0F);
    null_->zero_gradients();
    ++steps_;
  }
  std::span<const float> outputs() override {
    if (training_) pace_.spend(kMetrics);
    return outputs_;
  }
  void on_gradient_ready(GradientReady callback) override { null_->on_gradient_ready(std::move(callback)); }

  // Reports one layer, which takes as long as the pass.
  void on_layer(const Clock& clock, LayerDone done) override {
    clock_ = &clock;
    layer_done_ = std::move(done);
  }

  // Reports one operation: 0.25 s forward per counted step, and 12 operations and 8 bytes per sample.
  void profile(bool on) override {
    pace_.spend(kProfile);
    profiled_from = on ? std::optional(steps_) : std::nullopt;
  }
  std::vector<framework::OperationCost> costs() override {
    framework::OperationCost cost;
    cost.name = "fc";
    cost.implementation = "known";
    if (profiled_from) cost.forward_s = 0.25 * static_cast<double>(steps_ - *profiled_from);
    cost.forward_flops = 12;
    cost.bytes = 8;
    return {cost};
  }

  Json effective() const override { return {{"name", "known"}, {"pinned", false}}; }
  Json versions() const override { return {{"known", "1.0"}}; }

  // For each batch of an evaluation, the first running statistic, and the first parameter.
  std::vector<float> evaluated_with, evaluated_weights;
  std::optional<int64_t> profiled_from;

 private:
  void spend_in_layer(framework::LayerPass pass, milliseconds time) {
    const TimePoint begin = clock_ != nullptr ? clock_->now() : TimePoint();
    pace_.spend(time);
    if (training_ && layer_done_) layer_done_({"fc", pass, begin, clock_->now()});
  }

  std::unique_ptr<framework::Framework> null_;
  const Clock* clock_ = nullptr;
  LayerDone layer_done_;
  const int rank_;
  Pace pace_;
  ExtraTime extra_;
  const double spread_;
  AfterBackward after_backward_;
  int64_t steps_ = 0;  // steps done
  bool training_ = false;
  double loss_ = 0;
  std::vector<float> outputs_;
};

// The update rule of another optimizer, in known time.
class PacedRule final : public optim::UpdateRule {
 public:
  PacedRule(optim::Optimizer& optimizer, Pace pace) : optimizer_(optimizer), pace_(pace) {}
  void update(optim::FlatTensors& tensors, double lr, double gradient_scale) override {
    pace_.spend(kUpdate);
    if (gradient_scale != 1) tensors.gradients.mul_(gradient_scale);
    optimizer_.step(tensors, lr);
  }
  void export_state(NamedState& state) const override {
    Pace(pace_).spend(kCheckpoint);
    optimizer_.export_state(state);
  }
  void import_state(const NamedState& state) override { optimizer_.import_state(state); }

 private:
  optim::Optimizer& optimizer_;
  Pace pace_;
};

class PacedExchange final : public optim::Exchange {
 public:
  PacedExchange(optim::Optimizer& optimizer, Pace pace) : optimizer_(optimizer), pace_(pace) {}
  optim::Promise promise() const override { return optimizer_.promise(); }
  void begin(const compress::StepContext& step, optim::FlatTensors& tensors) override {
    optimizer_.begin(step, tensors);
  }
  bool listens() const override { return optimizer_.listens(); }
  void ready(int64_t first, int64_t count) override { optimizer_.ready(first, count); }
  uint64_t finish() override {
    pace_.spend(kAggregate);
    return optimizer_.finish();
  }
  void abandon() noexcept override { optimizer_.abandon(); }
  uint64_t after_update(optim::FlatTensors& tensors) override { return optimizer_.after_update(tensors); }
  uint64_t settle(optim::FlatTensors& tensors) override { return optimizer_.settle(tensors); }
  std::vector<int64_t> staleness() const override { return optimizer_.staleness(); }
  void export_state(NamedState& state) const override { optimizer_.export_own_state(state); }
  void import_state(const NamedState& state) override { optimizer_.import_own_state(state); }
  Json effective() const override { return optimizer_.effective(); }

 private:
  optim::Optimizer& optimizer_;
  Pace pace_;
};

// The results of one rank.
struct RankOutcome {
  TrainResult result;
  record::RankSpool spool;
  record::RankTimeline timeline;  // empty without run.timeline
  milliseconds time{};            // by which the rank's clock moved
  int64_t progress = 0;
  int64_t operations = 0;  // operations that the rank began on the communicator
  std::vector<float> evaluated_with, evaluated_weights;
  std::optional<int64_t> profiled_from;
  std::vector<float> parameters, buffers;  // at the end, without padding
};

struct Start {
  int64_t segment = 1;
  std::optional<int64_t> resume_step = std::nullopt;
  std::chrono::nanoseconds elapsed_before{0};
};

using MakeOptimizer =
    std::function<std::unique_ptr<optim::Optimizer>(const models::FlatLayout& layout, comm::Communicator& comm)>;

// A run with 10 training samples in global batches of 4, 4 and 2; 6 test samples; 4 epochs, each evaluated; and a goal
// that is out of reach. Tests may change `run` before start().
class TestRun {
 public:
  explicit TestRun(int64_t workers = 1, int64_t training_samples = 10) {
    data_.name = "rows";
    data_.format = "libsvm";
    data_.sample_shape = {4};
    data_.classes = 2;
    data_.splits = {{"train", training_samples, {}}, {"test", 6, {}}};

    run.name = "known-" + std::to_string(workers);
    run.workers = workers;
    run.framework = "known";
    run.run_dir = folder_.path().string();
    run.task.hash = "hash of the task";
    spec::TaskSpec& task = run.task.task;
    task.name = "known";
    task.loss = "cross_entropy";
    task.data.sample_shape = data_.sample_shape;
    task.data.classes = data_.classes;
    task.batch_size = 4 / workers;
    task.epochs = 4;
    task.optimizer = {"centralized_sgd", 1, {{"momentum", 0.5}}};
    task.evaluation.metrics = {"Prec@1"};
    task.goal.metric = "Prec@1";
    task.goal.target = 101;
    task.goal.light_target = 101;
  }

  // Runs, and returns the outcomes of all ranks in their order. Rethrows the exception of the first rank that threw.
  std::vector<RankOutcome> start(const Start& start = {}) {
    const auto prepared = dataset::make_synthetic(data_, folder_ / "cache");
    auto comms = comm::make_in_process_group(static_cast<int>(run.workers), std::chrono::seconds(60));
    std::vector<std::future<RankOutcome>> ranks;
    for (auto& comm : comms) {
      // A rank that throws leaves the group, so that nobody waits for it.
      ranks.push_back(std::async(std::launch::async, [&, given = std::move(comm)]() mutable {
        const auto own = std::move(given);
        return run_rank(*own, prepared, start);
      }));
    }
    for (auto& rank : ranks) rank.wait();
    std::vector<RankOutcome> outcomes;
    for (auto& rank : ranks) outcomes.push_back(rank.get());
    return outcomes;
  }

  std::filesystem::path checkpoints() const { return folder_ / "checkpoints"; }

  spec::RunSpec run;
  ExtraTime extra;
  double spread = 0;             // of gradients over the ranks
  AfterBackward after_backward;  // may throw
  MakeOptimizer make_optimizer;  // empty: the task's
  optim::StepOptions step_options;
  std::vector<std::unique_ptr<StopPoint>> stops;           // of all ranks; empty: nobody stops the run
  std::function<void(optim::Optimizer&)> before_training;  // empty: nothing

 private:
  RankOutcome run_rank(comm::Communicator& comm, const dataset::PreparedDataset& prepared, const Start& start) const {
    ManualClock clock;
    const Pace pace(clock, comm.rank());
    framework::FrameworkOptions options;
    options.model = models::Chain({4}).linear("fc", 2).finish();
    options.model.parameters.push_back({"bn.running_mean", {3}, {}, false});
    options.rank = comm.rank();
    KnownFramework framework(options, pace, extra, spread, after_backward);
    const auto unpaced = make_optimizer ? make_optimizer(framework.layout(), comm)
                                        : optim::make_optimizer(run.task.task.optimizer, framework.layout(), comm);
    optim::Optimizer optimizer(std::make_unique<PacedRule>(*unpaced, pace),
                               std::make_unique<compress::IdentityCoder>(framework.layout()),
                               std::make_unique<PacedExchange>(*unpaced, pace), framework.layout(), step_options);
    if (before_training) before_training(optimizer);
    track::Recorder recorder({.run_dir = run.run_dir, .segment = start.segment, .rank = comm.rank()}, clock);
    std::optional<track::TimelineRecorder> timeline;
    if (run.timeline) {
      timeline.emplace(track::RecorderOptions{.run_dir = run.run_dir, .segment = start.segment, .rank = comm.rank()},
                       clock);
    }
    std::atomic<int64_t> progress{0};
    const TrainContext context{run,
                               comm,
                               framework,
                               optimizer,
                               prepared,
                               recorder,
                               clock,
                               start.resume_step,
                               start.elapsed_before.count(),
                               &progress,
                               {},
                               {},
                               timeline ? &*timeline : nullptr,
                               0,
                               nullptr,
                               stops.empty() ? nullptr : stops.at(static_cast<size_t>(comm.rank())).get()};
    RankOutcome outcome;
    outcome.result = train(context);
    timeline.reset();
    outcome.timeline = record::read_timeline(run.run_dir, start.segment, comm.rank());
    outcome.spool = record::read_spool(run.run_dir, start.segment, comm.rank());
    outcome.time = std::chrono::duration_cast<milliseconds>(clock.now().time_since_epoch());
    outcome.progress = progress;
    outcome.operations = comm.board().read().sequence;
    outcome.evaluated_with = framework.evaluated_with;
    outcome.evaluated_weights = framework.evaluated_weights;
    outcome.profiled_from = framework.profiled_from;
    const auto parameters = framework::values_of(framework.parameters());
    const auto buffers = framework::values_of(framework.buffers());
    for (const models::FlatRange& range : framework.layout().ranges) {
      const float* first = (range.trainable ? parameters : buffers).data() + range.offset;
      auto& values = range.trainable ? outcome.parameters : outcome.buffers;
      values.insert(values.end(), first, first + range.count);
    }
    return outcome;
  }

  TemporaryFolder folder_;
  dataset::DatasetDescription data_;
};

// The events named `name` in a spool.
inline std::vector<Json> events_named(const record::RankSpool& spool, const std::string& name) {
  std::vector<Json> found;
  for (const Json& event : spool.events) {
    if (event.at("event") == name) found.push_back(event);
  }
  return found;
}

// The values of `member` in the events named `event`.
template <typename T>
std::vector<T> values_of(const record::RankSpool& spool, const std::string& event, const std::string& member) {
  std::vector<T> values;
  for (const Json& one : events_named(spool, event)) values.push_back(one.at(member).get<T>());
  return values;
}

}  // namespace mlbench::train::test
