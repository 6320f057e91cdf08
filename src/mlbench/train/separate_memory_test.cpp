// Training in separate memory gives the bits of training in the host's memory, and in a step nothing crosses between
// the memories but the batch and what the exchange needs.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/base/files.h"
#include "mlbench/checkpoint/checkpoint.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/synthetic.h"
#include "mlbench/framework/host_values.h"
#include "mlbench/framework/torch/torch_framework.h"
#include "mlbench/models/chain.h"
#include "mlbench/optim/factory.h"
#include "mlbench/train/evaluation.h"
#include "mlbench/train/far_framework_test.h"
#include "mlbench/train/train.h"

namespace mlbench::train::test {
namespace {

namespace fs = std::filesystem;

// Where a rank's network has its buffers.
enum class Place { kHost, kMirror, kFar };

const char* name_of(Place place) { return place == Place::kHost ? "host" : place == Place::kMirror ? "mirror" : "far"; }

// The model has numbers of channels that this project's own kernels do not take, so that all places compute by the same
// kernels.
std::unique_ptr<framework::Framework> make_framework(Place place, const spec::RunSpec& run, int rank) {
  framework::FrameworkOptions options;
  options.model = models::Chain({1, 28, 28})
                      .conv2d_normal("conv", 6, 5, 2)
                      .batch_norm2d("bn")
                      .activation("relu")
                      .flatten()
                      .dropout(0.3)
                      .linear("fc", 10)
                      .finish();
  options.model.name = "small";
  options.model.l2 = 1e-3;
  options.seed = run.seed;
  options.rank = rank;
  if (place == Place::kMirror) options.device = "mirror";
  auto made = framework::torch_framework::make(options);
  return place == Place::kFar ? std::make_unique<FarFramework>(std::move(made)) : std::move(made);
}

// Bytes that crossed on all ranks together, when the run has ended.
struct Crossed {
  uint64_t batch_bytes = 0, flat_bytes = 0;
};

struct SeparateOutcome {
  std::string weights_sha256;
  Json metrics;
  Crossed crossed;
  int64_t elements = 0;  // elements of the flat gradient
};

class SeparateRun {
 public:
  SeparateRun(int64_t workers, spec::OptimizerSpec optimizer) {
    description_ = dataset::find_description("mnist");
    description_.splits[0].samples = 60;
    description_.splits[1].samples = 20;
    const std::vector<spec::Override> changes = {{"batch_size", "8"}, {"epochs", "2"}};
    run.framework = "torch";
    run.workers = workers;
    spec::set_task(run, spec::find_task("mnist", "", "", changes), changes);
    run.task.task.optimizer = std::move(optimizer);
  }

  SeparateOutcome start(Place place, std::optional<int64_t> resume_step = {}) {
    run.name = name_of(place);
    run.run_dir = folder_ / run.name;
    fs::create_directories(fs::path(run.run_dir) / "spool");
    const dataset::PreparedDataset data = dataset::make_synthetic(description_, folder_ / "cache");
    auto comms = comm::make_in_process_group(static_cast<int>(run.workers), std::chrono::seconds(60));
    std::vector<std::future<SeparateOutcome>> ranks;
    for (auto& comm : comms) {
      ranks.push_back(std::async(std::launch::async, [&, given = std::move(comm)]() mutable {
        const auto own = std::move(given);
        return run_rank(place, *own, data, resume_step);
      }));
    }
    for (auto& rank : ranks) rank.wait();
    SeparateOutcome all;
    for (auto& rank : ranks) {
      SeparateOutcome outcome = rank.get();
      outcome.crossed.batch_bytes += all.crossed.batch_bytes;
      outcome.crossed.flat_bytes += all.crossed.flat_bytes;
      all = std::move(outcome);
    }
    return all;
  }

  NamedState checkpoint(Place place, int64_t step) const {
    for (const auto& info : checkpoint::list_checkpoints(folder_ / name_of(place) / "checkpoints")) {
      if (info.step == step) return checkpoint::read_checkpoint(info.path);
    }
    throw UserError(fmt::format("no checkpoint at step {}", step));
  }

  spec::RunSpec run;
  bool averages = false;  // from the first step on

 private:
  SeparateOutcome run_rank(Place place, comm::Communicator& comm, const dataset::PreparedDataset& data,
                           std::optional<int64_t> resume_step) const {
    const SystemClock clock;
    track::Recorder recorder({.run_dir = run.run_dir, .segment = resume_step ? 2 : 1, .rank = comm.rank()}, clock);
    const auto framework = make_framework(place, run, comm.rank());
    SeparateMemory* const memory = framework->separate_memory();
    const auto optimizer =
        optim::make_optimizer(run.task.task.optimizer, framework->layout(), comm, {.memory = memory});
    if (averages && !resume_step) {
      for (const double loss : {-100, 0}) optimizer->on_evaluation(loss);
    }
    SeparateOutcome outcome;
    outcome.weights_sha256 =
        train({run, comm, *framework, *optimizer, data, recorder, clock, resume_step}).weights_sha256;
    outcome.elements = framework->layout().parameter_elements;
    if (memory != nullptr) outcome.crossed = {memory->batch_bytes, memory->flat_bytes};
    outcome.metrics = evaluate_whole(*framework, run, data);
    return outcome;
  }

  TemporaryFolder folder_;
  dataset::DatasetDescription description_;
};

struct SeparateCase {
  const char* name;
  spec::OptimizerSpec optimizer;
  bool averages = false;
};

std::vector<SeparateCase> separate_cases() {
  const Json scaled = {{"loss_scale", 1024}, {"loss_scale_interval", 3}, {"clip_norm", 0.5}};
  Json all_at_once = {{"momentum", 0.9}, {"weight_decay", 1e-3}, {"averaging_patience", 1}};
  all_at_once.update(scaled);
  Json adam = {{"betas", {0.8, 0.9}}, {"amsgrad", true}, {"by_layer", true}};
  adam.update(scaled);
  return {{"Sgd", {"centralized_sgd", 0.05, {{"momentum", 0.5}, {"nesterov", true}, {"clip_norm", 1}}}},
          {"AveragedSgd", {"centralized_sgd", 0.05, all_at_once}, true},
          {"Adam", {"centralized_adam", 0.01, adam}},
          {"Overlapped", {"centralized_sgd", 0.05, {{"momentum", 0.9}, {"bucket_mb", 0.01}, {"overlap", true}}}}};
}

class SeparateTraining : public testing::TestWithParam<SeparateCase> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, SeparateTraining, testing::ValuesIn(separate_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FarPages, EndWhoeverReadsThemFromTheHost) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const at::Tensor far = far_zeros(8);
  EXPECT_EQ(far.add_(1).sum().item<float>(), 8);
  // A sanitizer takes the signal, says so and exits.
  const auto ended = [](int status) {
    return testing::KilledBySignal(SIGSEGV)(status) || testing::ExitedWithCode(1)(status);
  };
  EXPECT_EXIT(framework::values_of(far)[0] = 2, ended, "");
}

TEST_P(SeparateTraining, HasTheBitsOfTheHostsMemoryAndResumes) {
  constexpr int64_t kBreak = 5;  // in mid epoch
  for (const int64_t workers : {1, 2}) {
    SeparateRun test(workers, GetParam().optimizer);
    test.averages = GetParam().averages;
    test.run.checkpoint.every_steps = kBreak;
    const SeparateOutcome expected = test.start(Place::kHost);
    for (const Place place : {Place::kMirror, Place::kFar}) {
      SCOPED_TRACE(fmt::format("{} ranks, {}", workers, name_of(place)));
      const SeparateOutcome outcome = test.start(place);
      EXPECT_EQ(outcome.weights_sha256, expected.weights_sha256);
      EXPECT_EQ(outcome.metrics, expected.metrics);
      const NamedState own = test.checkpoint(place, kBreak), reference = test.checkpoint(Place::kHost, kBreak);
      EXPECT_EQ(own.scalars, reference.scalars);
      ASSERT_EQ(own.tensors.size(), reference.tensors.size());
      for (const auto& [name, tensor] : reference.tensors) EXPECT_EQ(own.tensor(name).bytes, tensor.bytes) << name;
      EXPECT_EQ(test.start(place, kBreak).weights_sha256, expected.weights_sha256) << "resumed";
    }
  }
}

// The bytes that two more steps on one batch add, per step.
Crossed crossed_per_step(Place place, int64_t workers, const spec::OptimizerSpec& optimizer, int64_t& elements) {
  constexpr int64_t kMore = 2;
  std::vector<Crossed> totals;
  for (const int64_t steps : {int64_t{2}, 2 + kMore}) {
    SeparateRun test(workers, optimizer);
    test.run.fixed_batch = true;
    test.run.limits.max_steps = steps;
    const SeparateOutcome outcome = test.start(place);
    totals.push_back(outcome.crossed);
    elements = outcome.elements;
  }
  return {(totals[1].batch_bytes - totals[0].batch_bytes) / kMore,
          (totals[1].flat_bytes - totals[0].flat_bytes) / kMore};
}

TEST_P(SeparateTraining, OnlyBatchesCrossInAStepAndTheGradientOnceEachWayWithPeers) {
  constexpr uint64_t kBatchBytes = 8 * (28 * 28 * sizeof(float) + sizeof(int64_t));
  int64_t elements = 0;
  const Crossed alone = crossed_per_step(Place::kMirror, 1, GetParam().optimizer, elements);
  EXPECT_EQ(alone.batch_bytes, kBatchBytes);
  EXPECT_EQ(alone.flat_bytes, 0U);
  for (const Place place : {Place::kMirror, Place::kFar}) {
    const Crossed pair = crossed_per_step(place, 2, GetParam().optimizer, elements);
    const auto both_ways = 2 * static_cast<uint64_t>(elements) * sizeof(float);
    EXPECT_EQ(pair.batch_bytes, place == Place::kMirror ? 2 * kBatchBytes : 0);
    EXPECT_LE(pair.flat_bytes, 2 * both_ways);
    EXPECT_GT(pair.flat_bytes, 2 * both_ways - 1024) << "but for padding";
  }
}

}  // namespace
}  // namespace mlbench::train::test
