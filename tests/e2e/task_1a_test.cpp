// Task 1a from image files to the weights, in one process with ranks that are threads: ResNet-20 with a batch norm of
// each rank's own, augmentation, warm-up and plateau decay, on the images beside this file.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <exception>
#include <filesystem>
#include <thread>
#include <tuple>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"
#include "mlbench/checkpoint/checkpoint.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/framework/native/native_framework.h"
#include "mlbench/framework/torch/torch_framework.h"
#include "mlbench/models/model.h"
#include "mlbench/optim/factory.h"
#include "mlbench/train/evaluation.h"
#include "mlbench/train/train.h"

namespace mlbench {
namespace {

using testing::Contains;
using testing::ElementsAre;
namespace fs = std::filesystem;

constexpr std::string_view kDescription = R"(
name = "shapes"
title = "Drawn shapes in the layout of CIFAR-10"
format = "cifar"
sample_shape = [3, 32, 32]
classes = 10
folder = "images"
[[split]]
name = "train"
samples = 80
[[split.file]]
pattern = "train.bin"
[[split]]
name = "test"
samples = 40
[[split.file]]
pattern = "test.bin"
)";

using MakeFramework = std::unique_ptr<framework::Framework> (*)(const framework::FrameworkOptions&);

class Task1a : public testing::Test {
 protected:
  static void require(const std::string& name) {
    if (name == "native" && !framework::native_framework::available().available) {
      GTEST_SKIP() << "missing capability: oneDNN";
    }
  }

  dataset::PreparedDataset images() const {
    static const dataset::DatasetDescription description = dataset::parse_description("shapes.toml", kDescription);
    const fs::path sources = environment_variable("MLBENCH_TEST_SOURCE_DIR").value();
    return dataset::prepare(description, {sources / "tests/e2e"}, folder_ / "cache", {});
  }

  // 80 images in batches of 4 per rank, evaluated after every 16.
  spec::RunSpec make_run(const std::string& name, const std::string& framework, int64_t workers,
                         const std::vector<spec::Override>& more = {}) const {
    std::vector<spec::Override> changes = {{"batch_size", "4"},
                                           {"epochs", "3"},
                                           {"evaluation.every_samples", "16"},
                                           {"schedule.threshold", "1e6"},  // only the first loss is an improvement
                                           {"goal.target", "1000"}};
    changes.insert(changes.end(), more.begin(), more.end());
    spec::RunSpec run;
    run.name = name;
    run.framework = framework;
    run.workers = workers;
    spec::set_task(run, spec::find_task("1a", "2021", "", changes), changes);
    run.run_dir = folder_ / name;
    fs::create_directories(fs::path(run.run_dir) / "spool");
    return run;
  }

  static std::unique_ptr<framework::Framework> make_framework(const spec::RunSpec& run, int rank) {
    framework::FrameworkOptions options;
    options.model = models::describe_model(run.task.task);
    options.seed = run.seed;
    options.rank = rank;
    const MakeFramework make =
        run.framework == "native" ? framework::native_framework::make : framework::torch_framework::make;
    return make(options);
  }

  // To the end of the run, from its beginning or a checkpoint: the weights, and what the model is worth then.
  struct Outcome {
    std::string weights_sha256;
    Json metrics;  // of rank 0's own model
  };
  Outcome train(const spec::RunSpec& run, std::optional<int64_t> resume_step = {}) const {
    const dataset::PreparedDataset data = images();
    auto group = comm::make_in_process_group(static_cast<int>(run.workers), std::chrono::minutes(2));
    std::vector<Outcome> outcomes(group.size());
    std::vector<std::exception_ptr> errors(group.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < group.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const SystemClock clock;
          track::Recorder recorder(
              {.run_dir = run.run_dir, .segment = resume_step ? 2 : 1, .rank = static_cast<int64_t>(rank)}, clock);
          const auto framework = make_framework(run, static_cast<int>(rank));
          const auto optimizer = optim::make_optimizer(run.task.task.optimizer, framework->layout(), *group[rank]);
          train::TrainContext context{run, *group[rank], *framework, *optimizer, data, recorder, clock, resume_step};
          outcomes[rank].weights_sha256 = train::train(context).weights_sha256;
          if (rank == 0) outcomes[rank].metrics = train::evaluate_whole(*framework, run, data);
        } catch (...) {
          errors[rank] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    return outcomes.front();
  }

  static NamedState checkpoint_of(const spec::RunSpec& run, int64_t step) {
    for (const auto& info : checkpoint::list_checkpoints(fs::path(run.run_dir) / "checkpoints")) {
      if (info.step == step) return checkpoint::read_checkpoint(info.path);
    }
    throw UserError(fmt::format("no checkpoint at step {}", step));
  }

  // The steps from which on the plateau halved the rate once more.
  static std::vector<int64_t> reductions_of(const NamedState& state) {
    const HostTensor& stored = state.tensor("schedule/reductions");
    std::vector<int64_t> steps(stored.bytes.size() / sizeof(int64_t));
    std::memcpy(steps.data(), stored.bytes.data(), stored.bytes.size());
    return steps;
  }

  TemporaryFolder folder_;
};

class Task1aOnEach : public Task1a, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { require(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Frameworks, Task1aOnEach, testing::Values("torch", "native"),
                         [](const auto& info) { return std::string(info.param); });

// Everything that a run carries at once. Ten steps an epoch, evaluated after every second; the warm-up of one epoch for
// two workers ends with step 10. That evaluation's loss is the best; every second one after it halves the rate.
TEST_P(Task1aOnEach, ResumedRunIsThatWithoutABreakToTheBit) {
  constexpr int64_t kBreak = 17;  // in mid epoch, one bad evaluation after the first reduction
  const spec::RunSpec whole = make_run("whole", GetParam(), 2);
  EXPECT_THAT(whole.task.task.data.train_transform, Contains("pad_crop_flip"));
  EXPECT_EQ(whole.task.task.schedule.decay, "plateau");
  const Outcome expected = train(whole);

  spec::RunSpec parts = make_run("parts", GetParam(), 2);
  parts.checkpoint.every_steps = kBreak;
  EXPECT_EQ(train(parts).weights_sha256, expected.weights_sha256) << "a checkpoint changes nothing";
  const NamedState broken = checkpoint_of(parts, kBreak);
  EXPECT_THAT(reductions_of(broken), ElementsAre(14));
  EXPECT_EQ(broken.integer("schedule/bad"), 1);
  EXPECT_NE(broken.tensor("rank0/stem.bn.running_mean").bytes, broken.tensor("rank1/stem.bn.running_mean").bytes);

  fs::remove_all(fs::path(parts.run_dir) / "checkpoints" / "step-000000030");
  parts.checkpoint.every_steps = 0;
  EXPECT_EQ(train(parts, kBreak).weights_sha256, expected.weights_sha256);
  const NamedState resumed = checkpoint_of(parts, 30), reference = checkpoint_of(whole, 30);
  EXPECT_THAT(reductions_of(resumed), ElementsAre(14, 18, 22, 26, 30));
  EXPECT_EQ(resumed.scalars, reference.scalars);
  ASSERT_EQ(resumed.tensors.size(), reference.tensors.size());
  for (const auto& [name, tensor] : reference.tensors) {
    EXPECT_EQ(resumed.tensor(name).bytes, tensor.bytes) << name;
  }
}

// Three ranks, of which the last has no images in every third step: 80 are twice 39 and 2.
TEST_P(Task1aOnEach, BucketsExchangedBesideTheBackwardPassGiveTheSameWeightsToTheBit) {
  const auto weights_with = [&](const std::string& name, const char* key, const char* value, const char* overlap) {
    return train(make_run(name, GetParam(), 3,
                          {{"batch_size", "13"},
                           {"epochs", "2"},
                           {"evaluation.every_samples", "39"},
                           {key, value},
                           {"optimizer.overlap", overlap}}))
        .weights_sha256;
  };
  for (const auto& [name, key, value] :
       {std::tuple("buckets", "optimizer.bucket_mb", "0.25"), std::tuple("layers", "optimizer.by_layer", "true"),
        std::tuple("whole", "optimizer.by_layer", "false")}) {
    EXPECT_EQ(weights_with(fmt::format("{}-o", name), key, value, "true"), weights_with(name, key, value, "false"))
        << name;
  }
}

// Two libraries compute with the same start, images and augmentation: rounding alone tells them apart, and a ReLU that
// falls on its other side makes more of it with every step. Seen were 8e-9 of the loss after the first step and 9e-6
// after the fourth; at the task's own rate, ten times this one, 5e-3.
TEST_F(Task1a, FrameworksAgreeOnTheLossAfterSomeSteps) {
  require("native");
  if (IsSkipped()) return;
  const auto loss_after = [&](const char* framework, int64_t steps) {
    spec::RunSpec run = make_run(fmt::format("{}-{}", framework, steps), framework, 1, {{"optimizer.lr", "0.002"}});
    run.limits.max_steps = steps;
    return train(run).metrics.at("loss").get<double>();
  };
  const double first = loss_after("torch", 1), fourth = loss_after("torch", 4);
  EXPECT_LT(fourth, 0.75 * first);
  EXPECT_NEAR(loss_after("native", 1), first, 1e-6 * first);
  EXPECT_NEAR(loss_after("native", 4), fourth, 1e-3 * fourth);
}

}  // namespace
}  // namespace mlbench
