#pragma once

// Runs train() in one process with any model on any data, for tests. Ranks are threads, and a run may be cut off in the
// middle of a step. The tests provide models and data.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/data/workload.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/framework/framework.h"
#include "mlbench/optim/factory.h"
#include "mlbench/record/spool.h"
#include "mlbench/train/train.h"

namespace mlbench::train::test {

template <typename T>
std::span<const T> tensor_of(const BatchView& batch, const char* name) {
  const ConstBufferView& values = batch.at(name).values;
  return {static_cast<const T*>(values.data), static_cast<size_t>(values.count)};
}

// A model with one parameter, the vector w. A subclass adds up the losses of a batch, and the slopes of that sum.
class ToyFramework : public framework::Framework {
 public:
  explicit ToyFramework(int64_t size) {
    model_.name = "toy";
    model_.parameters.push_back({"w", {size}, {models::Initialiser::Kind::kNormal, 0.5}});
    layout_ = models::lay_out(model_);
    parameters_.resize(static_cast<size_t>(layout_.parameter_elements));
    gradients_.resize(parameters_.size());
  }

  const models::FlatLayout& layout() const override { return layout_; }
  BufferView parameters() override { return view_of(std::span(parameters_)); }
  BufferView gradients() override { return view_of(std::span(gradients_)); }
  BufferView buffers() override { return {}; }
  void initialise() override { models::initialise(model_, layout_, 42, parameters_, {}); }

  void begin_step(int64_t) override {}
  void forward(const BatchView& batch, framework::Mode mode) override {
    sums_ = {0, 0, batch.weight};
    slopes_.assign(static_cast<size_t>(layout_.parameter_elements), 0);
    compute(batch, mode);
    sums_.nll = sums_.loss;
  }
  double loss() override { return sums_.loss / static_cast<double>(sums_.weight); }
  framework::MetricSums metric_sums() override { return sums_; }
  void backward(const framework::BackwardOptions& options) override {
    if (!options.accumulate) std::ranges::fill(gradients_, 0.0F);
    for (size_t i = 0; i < slopes_.size(); ++i) {
      gradients_[i] += static_cast<float>(slopes_[i] * options.scale / static_cast<double>(sums_.weight));
    }
    if (options.last && ready_) ready_(0, layout_.parameter_elements);
  }
  void zero_gradients() override {
    std::ranges::fill(gradients_, 0.0F);
    if (ready_) ready_(0, layout_.parameter_elements);
  }
  std::span<const float> outputs() override { throw UserError("a toy has sums alone"); }
  void on_gradient_ready(GradientReady callback) override { ready_ = std::move(callback); }
  Json effective() const override { return {{"name", "toy"}}; }
  Json versions() const override { return Json::object(); }

 protected:
  virtual void compute(const BatchView& batch, framework::Mode mode) = 0;

  double w(int64_t i) { return parameters_[static_cast<size_t>(i)]; }
  // Adds the loss e^2 / 2 of an error e; returns its slope, e.
  double add_square(double error) {
    sums_.loss += error * error / 2;
    return error;
  }
  void add_slope(int64_t i, double slope) { slopes_[static_cast<size_t>(i)] += slope; }

 private:
  models::ModelDescription model_;
  models::FlatLayout layout_;
  std::vector<float> parameters_, gradients_;
  GradientReady ready_;
  framework::MetricSums sums_;
  std::vector<double> slopes_;  // slopes of the sum of losses
};

// A place in a training: a step (from 0), and a micro-batch (from 1) of this step.
struct Place {
  int64_t step = -1, micro_batch = 1;
  bool operator==(const Place&) const = default;
};
struct CutOff : std::runtime_error {
  CutOff() : std::runtime_error("cut off, as the test wanted") {}
};

// Forwards all calls to a framework, and throws CutOff where the forward pass at `cut_off` would begin.
class WatchedFramework final : public framework::Framework {
 public:
  WatchedFramework(std::unique_ptr<framework::Framework> framework, Place cut_off)
      : own_(std::move(framework)), cut_off_(cut_off) {}

  const models::FlatLayout& layout() const override { return own_->layout(); }
  BufferView parameters() override { return own_->parameters(); }
  BufferView gradients() override { return own_->gradients(); }
  BufferView buffers() override { return own_->buffers(); }
  void initialise() override { own_->initialise(); }
  void begin_step(int64_t step) override {
    place_ = {step, 0};
    own_->begin_step(step);
  }
  void forward(const BatchView& batch, framework::Mode mode) override {
    if (mode == framework::Mode::kTrain) {
      ++place_.micro_batch;
      most_micro_batches = std::max(most_micro_batches, place_.micro_batch);
      if (place_ == cut_off_) throw CutOff();
    }
    own_->forward(batch, mode);
  }
  double loss() override { return own_->loss(); }
  framework::MetricSums metric_sums() override { return own_->metric_sums(); }
  void backward(const framework::BackwardOptions& options) override {
    EXPECT_EQ(options.accumulate, place_.micro_batch > 1);
    own_->backward(options);
  }
  void zero_gradients() override {
    ++empty_steps;
    own_->zero_gradients();
  }
  std::span<const float> outputs() override { return own_->outputs(); }
  std::vector<float> carried_state() override { return own_->carried_state(); }
  void set_carried_state(std::span<const float> state, int64_t sequences) override {
    own_->set_carried_state(state, sequences);
  }
  std::unique_ptr<framework::Decoder> make_decoder() override { return own_->make_decoder(); }
  void decode(int64_t most, const DecoderWork& work) override { own_->decode(most, work); }
  void on_gradient_ready(GradientReady callback) override { own_->on_gradient_ready(std::move(callback)); }
  Json effective() const override { return own_->effective(); }
  Json versions() const override { return own_->versions(); }

  int64_t most_micro_batches = 0, empty_steps = 0;

 private:
  std::unique_ptr<framework::Framework> own_;
  Place cut_off_, place_;
};

struct ToyOutcome {
  std::vector<float> parameters;  // the parameters that are trained, even where their average is evaluated
  std::vector<std::pair<double, double>> evaluations;  // loss and perplexity
  std::vector<double> epoch_losses;
  int64_t steps = 0, weight = 0;  // over all ranks
  int64_t most_micro_batches = 0, empty_steps = 0;
  std::string weights_sha256;            // of the model that is evaluated
  bool averages = false;                 // at the end of the run
  int64_t skipped_steps = 0;             // as the optimizer counts them
  std::optional<int64_t> averaged_from;  // the step after which averaging began, in this segment
};

// Tests may change `run` before start().
class ToyRun {
 public:
  using MakeFramework = std::function<std::unique_ptr<framework::Framework>(int rank)>;
  using MakeWorkload = std::function<std::unique_ptr<data::Workload>(int64_t workers)>;

  // `splits` are "train" and "test". What they refer to must outlive the object.
  ToyRun(MakeFramework make_framework, std::vector<dataset::CachedSplit> splits)
      : make_framework_(std::move(make_framework)), splits_(std::move(splits)) {
    run.name = "toy";
    run.framework = "toy";
    run.run_dir = folder_.path().string();
    run.task.hash = "hash of the task";
    spec::TaskSpec& task = run.task.task;
    task.name = "toy";
    task.epochs = 3;
    task.optimizer = {"centralized_sgd", 0.5, {{"momentum", 0.5}}};
    task.goal.metric = "loss";
    task.goal.higher_is_better = false;
  }

  // Runs from a checkpoint, or from the beginning. Rethrows the exception of the first rank that threw.
  ToyOutcome start(std::optional<int64_t> resume_step = std::nullopt) {
    dataset::DatasetDescription description;
    description.fingerprint = "known";
    const dataset::PreparedDataset data(description, nullptr, splits_, "made", "");
    ++segment_;
    auto comms = comm::make_in_process_group(static_cast<int>(run.workers), std::chrono::seconds(60));
    std::vector<std::future<ToyOutcome>> ranks;
    for (auto& comm : comms) {
      // A rank that throws leaves the group, so that nobody waits for it.
      ranks.push_back(std::async(std::launch::async, [&, given = std::move(comm)]() mutable {
        const auto own = std::move(given);
        return run_rank(*own, data, resume_step);
      }));
    }
    for (auto& rank : ranks) rank.wait();
    ToyOutcome all;
    for (auto& rank : ranks) {
      ToyOutcome outcome = rank.get();
      if (all.parameters.empty()) {
        all = std::move(outcome);
        continue;
      }
      EXPECT_EQ(outcome.parameters, all.parameters) << "all ranks have the same";
      EXPECT_EQ(outcome.steps, all.steps);
      all.weight += outcome.weight;
      all.most_micro_batches = std::max(all.most_micro_batches, outcome.most_micro_batches);
      all.empty_steps += outcome.empty_steps;
    }
    return all;
  }

  spec::RunSpec run;
  MakeWorkload make_workload;  // empty: the task's workload
  Place cut_off;               // where rank 0 is cut off; step -1: nowhere

 private:
  ToyOutcome run_rank(comm::Communicator& comm, const dataset::PreparedDataset& data,
                      std::optional<int64_t> resume_step) const {
    const ManualClock clock;
    WatchedFramework framework(make_framework_(comm.rank()), comm.rank() == 0 ? cut_off : Place{});
    const auto optimizer = optim::make_optimizer(run.task.task.optimizer, framework.layout(), comm);
    const auto workload = make_workload ? make_workload(run.workers) : nullptr;
    ToyOutcome outcome;
    {
      track::Recorder recorder({.run_dir = run.run_dir, .segment = segment_, .rank = comm.rank()}, clock);
      TrainContext context{run, comm, framework, *optimizer, data, recorder, clock, resume_step};
      context.workload = workload.get();
      const TrainResult result = train(context);
      outcome.steps = result.steps;
      outcome.weights_sha256 = result.weights_sha256;
    }
    outcome.averages = optimizer->averages();
    outcome.skipped_steps = optimizer->skipped_steps();
    read_spool(comm.rank(), outcome);
    for (const models::FlatRange& range : framework.layout().ranges) {
      if (!range.trainable) continue;
      const float* first = framework::values_of(framework.parameters()).data() + range.offset;
      outcome.parameters.insert(outcome.parameters.end(), first, first + range.count);
    }
    outcome.most_micro_batches = framework.most_micro_batches;
    outcome.empty_steps = framework.empty_steps;
    return outcome;
  }

  void read_spool(int rank, ToyOutcome& outcome) const {
    const record::RankSpool spool = record::read_spool(run.run_dir, segment_, rank);
    for (const record::StepRecord& step : spool.steps) outcome.weight += static_cast<int64_t>(step.samples);
    if (rank != 0) return;  // only rank 0's events have the values
    for (const Json& event : spool.events) {
      const std::string kind = event.at("event");
      if (kind == "evaluation") {
        const Json& metrics = event.at("metrics");
        outcome.evaluations.emplace_back(metrics.at("loss").get<double>(), metrics.value("Perplexity", 0.0));
      } else if (kind == "epoch") {
        outcome.epoch_losses.push_back(event.at("train_loss").get<double>());
      } else if (kind == "averaging") {
        outcome.averaged_from = event.at("step").get<int64_t>();
      }
    }
  }

  const MakeFramework make_framework_;
  const std::vector<dataset::CachedSplit> splits_;
  const TemporaryFolder folder_;
  int64_t segment_ = 0;
};

inline void expect_near(const std::vector<float>& values, const std::vector<float>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-5) << i;
}

inline void expect_near(const ToyOutcome& outcome, const ToyOutcome& expected) {
  expect_near(outcome.parameters, expected.parameters);
  EXPECT_EQ(outcome.steps, expected.steps);
  EXPECT_EQ(outcome.weight, expected.weight);
  ASSERT_EQ(outcome.evaluations.size(), expected.evaluations.size());
  for (size_t i = 0; i < outcome.evaluations.size(); ++i) {
    EXPECT_NEAR(outcome.evaluations[i].first, expected.evaluations[i].first, 1e-5);
    EXPECT_NEAR(outcome.evaluations[i].second, expected.evaluations[i].second, 1e-5);
  }
  ASSERT_EQ(outcome.epoch_losses.size(), expected.epoch_losses.size());
  for (size_t i = 0; i < outcome.epoch_losses.size(); ++i) {
    EXPECT_NEAR(outcome.epoch_losses[i], expected.epoch_losses[i], 1e-5);
  }
}

}  // namespace mlbench::train::test
