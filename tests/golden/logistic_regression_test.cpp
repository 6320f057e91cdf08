// Task 2a, and the other losses and penalties of linear models, against PyTorch (logistic_regression.py, run at test
// time by a Python that has its own PyTorch) over one and a half epochs, with 1, 2, 3 and 5 workers that share the same
// global batches. Framework torch takes dense rows; torch and native take sparse rows, which PyTorch gets as dense
// ones. Rule of comparison: the norm of the error against PyTorch's float64 result is at most twice that of PyTorch's
// own float32 result, or below a stated multiple of eps x norm.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/random.h"
#include "mlbench/base/sparse_rows.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/data/shard.h"
#include "mlbench/data/train_loader.h"
#include "mlbench/framework/native/native_framework.h"
#include "mlbench/framework/torch/torch_framework.h"
#include "mlbench/models/model.h"
#include "mlbench/optim/factory.h"
#include "mlbench/spec/task.h"
#include "tests/golden/oracle.h"

namespace mlbench {
namespace {

using golden::read_values;
using golden::Values;
using golden::write_values;

constexpr double kEps = std::numeric_limits<float>::epsilon();
constexpr uint64_t kSeed = 42;
constexpr int64_t kDimension = 2000;
constexpr int64_t kSamples = 303;  // the last global batch of an epoch has 3 samples: some of 5 ranks get none
constexpr int64_t kGlobalBatch = 60;
constexpr int64_t kSteps = 9;  // 6 in an epoch

// Unit-norm rows as epsilon's, labels that a linear model can learn in part. Of sparse rows about one value in 40 is
// not zero, and one row has none.
struct Rows {
  explicit Rows(bool sparse) {
    RandomSequence random(7);
    for (int64_t i = 0; i < kSamples; ++i) {
      std::vector<double> row(kDimension);
      double squares = 0;
      for (size_t j = 0; j < row.size(); ++j) {
        if (sparse && (i == 100 || (j > 1 && random.below(40) != 0))) continue;
        row[j] = random.normal();
        squares += row[j] * row[j];
      }
      const double norm = squares > 0 ? std::sqrt(squares) : 1;
      for (const double value : row) features.push_back(static_cast<float>(value / norm));
      labels.push_back(row[0] + row[1] + 0.5 * random.normal() > 0 ? 1 : 0);
    }
    split.name = "train";
    split.samples = kSamples;
    split.columns = {dataset::FixedColumn{"labels", {}, const_view_of(std::span<const int64_t>(labels))}};
    if (sparse) {
      keep_entries();
      split.columns.emplace_back(dataset::SparseColumn{{"features", entries, offsets}, kDimension});
    } else {
      split.columns.emplace_back(
          dataset::FixedColumn{"features", {kDimension}, const_view_of(std::span<const float>(features))});
    }
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  void keep_entries() {
    for (int64_t i = 0; i < kSamples * kDimension; ++i) {
      if (i % kDimension == 0) offsets.push_back(std::ssize(entries));
      const float value = features[static_cast<size_t>(i)];
      if (value != 0) entries.push_back({static_cast<int32_t>(i % kDimension), value});
    }
    offsets.push_back(std::ssize(entries));
  }

  std::vector<float> features;
  std::vector<int64_t> labels;
  std::vector<SparseEntry> entries;
  std::vector<int64_t> offsets;
  dataset::CachedSplit split;
};

spec::TaskSpec task_2a() { return spec::find_task("2a", "2021", "", {}).task; }
// The squared error has a steeper gradient.
double lr_of(const std::string& loss, int64_t step) {
  return (loss == "mean_squared_error" ? 0.5 : 40.0) / std::sqrt(static_cast<double>(step + 1));
}

struct Objective {
  std::string loss, model;
  double l1 = 0, l2 = 0;
  bool sparse = false;
};

spec::TaskSpec task_of(const Objective& objective) {
  spec::TaskSpec task = task_2a();
  task.loss = objective.loss;
  task.model = {objective.model, {{"l1", objective.l1}, {"l2", objective.l2}}};
  return task;
}

struct Outcome {
  Values losses;  // of every step, of the global batch
  Values gradients, parameters, outputs;
};

struct Golden {
  Outcome exact, peer;  // float64, float32
};

Golden ask_pytorch(const Rows& rows, const Objective& objective) {
  const TemporaryFolder folder;
  Json batches = Json::array();
  Json lr = Json::array();
  for (int64_t step = 0; step < kSteps; ++step) {
    const int64_t steps_per_epoch = data::steps_per_epoch(kSamples, {1, 0, kGlobalBatch});
    const auto order = data::epoch_permutation(kSamples, kSeed, step / steps_per_epoch);
    const auto slice = data::slice_of(kSamples, {1, 0, kGlobalBatch}, step % steps_per_epoch);
    batches.push_back(std::vector<int64_t>(order.begin() + slice.first, order.begin() + slice.first + slice.count));
    lr.push_back(lr_of(objective.loss, step));
  }
  const models::ModelDescription model = models::describe_model(task_of(objective));
  std::vector<float> start(kDimension);
  models::initialise(model.parameters[0], 0, kSeed, start);
  write_json_file(folder / "case.json", {{"loss", objective.loss},
                                         {"dimension", kDimension},
                                         {"batches", batches},
                                         {"lr", lr},
                                         {"l1", objective.l1},
                                         {"l2", objective.l2}});
  write_values(folder / "start.bin", start);
  write_values(folder / "features.bin", rows.features);
  write_values(folder / "labels.bin", rows.labels);

  golden::run_oracle("logistic_regression.py", folder);

  const Json result = read_json_file(folder / "result.json");
  const auto outcome = [&](const std::string& precision) {
    return Outcome{result[precision]["losses"].get<Values>(), read_values(folder / ("gradients_" + precision + ".bin")),
                   read_values(folder / ("parameters_" + precision + ".bin")),
                   result[precision]["outputs"].get<Values>()};
  };
  return {outcome("float64"), outcome("float32")};
}

using Make = std::function<std::unique_ptr<framework::Framework>(const framework::FrameworkOptions&)>;

// As a run trains, from the loader to the optimizer; rank 0's view, losses summed over the ranks.
Outcome train(const Rows& rows, const Objective& objective, int workers, const Make& make) {
  const spec::TaskSpec task = task_of(objective);
  auto group = comm::make_in_process_group(workers, std::chrono::seconds(60));
  std::vector<Outcome> outcomes(static_cast<size_t>(workers));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < workers; ++rank) {
    threads.emplace_back([&, rank] {
      Outcome& outcome = outcomes[static_cast<size_t>(rank)];
      framework::FrameworkOptions options;
      options.model = models::describe_model(task);
      options.threads = workers == 1 ? 2 : 1;
      options.seed = kSeed;
      options.rank = rank;
      options.sparse_rows = objective.sparse;
      const auto framework = make(options);
      framework->initialise();
      const auto optimizer =
          optim::make_optimizer(task.optimizer, framework->layout(), *group[static_cast<size_t>(rank)]);
      optim::FlatTensors tensors = optim::flat_tensors(framework->parameters(), framework->gradients());
      const auto loader = data::make_train_loader(
          data::make_sample_source(rows.split, data::make_transform({}, task.data, kSeed)),
          data::make_sample_plan(kSamples, {.workers = workers, .batch_size = kGlobalBatch / workers, .seed = kSeed}),
          {.rank = rank});
      const auto logical = [&](const at::Tensor& flat) {
        return Values(flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + kDimension);
      };
      for (int64_t step = 0; step < kSteps; ++step) {
        const data::Batch& batch = loader->next();
        optimizer->begin({step}, tensors);
        framework->begin_step(step);
        double loss = 0;
        for (const BatchView& part : batch.micro) {
          framework->forward(part, framework::Mode::kTrain);
          loss = framework->loss() * batch.share_of(part);
          framework->backward({.scale = batch.share_of(part)});
        }
        if (batch.micro.empty()) framework->zero_gradients();
        outcome.losses.push_back(loss);
        optimizer->finish();
        if (step == 0) outcome.gradients = logical(tensors.gradients);
        if (!batch.micro.empty()) {
          const auto outputs = framework->outputs();
          outcome.outputs.assign(outputs.begin(), outputs.end());
        }
        optimizer->step(tensors, lr_of(objective.loss, step));
      }
      outcome.parameters = logical(tensors.parameters);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t rank = 1; rank < outcomes.size(); ++rank) {
    for (size_t step = 0; step < kSteps; ++step) outcomes[0].losses[step] += outcomes[rank].losses[step];
  }
  return outcomes[0];
}

double distance(const Values& a, const Values& b) {
  EXPECT_EQ(a.size(), b.size());
  double squares = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares);
}

void expect_close(const char* what, const Values& ours, const Values& peer, const Values& exact, double multiple) {
  const double peer_error = distance(peer, exact), norm = distance(exact, Values(exact.size()));
  EXPECT_LE(distance(ours, exact), std::max(2 * peer_error, multiple * kEps * norm))
      << what << ": PyTorch's own float32 error is " << peer_error << ", norm " << norm;
}

class Task2a : public golden::OracleTest, public ::testing::WithParamInterface<Objective> {};

TEST_P(Task2a, EqualsPyTorchWithAnyNumberOfWorkers) {
  const Rows rows(GetParam().sparse);
  const Golden golden = ask_pytorch(rows, GetParam());
  ASSERT_GT(distance(golden.exact.gradients, Values(kDimension)), 0.01) << "a case that says nothing";
  std::vector<Make> frameworks = {framework::torch_framework::make};
  if (GetParam().sparse) frameworks.emplace_back(framework::native_framework::make);
  for (const Make& make : frameworks) {
    for (const int workers : {1, 2, 3, 5}) {
      SCOPED_TRACE(fmt::format("{}, {} workers", &make == &frameworks.front() ? "torch" : "native", workers));
      const Outcome ours = train(rows, GetParam(), workers, make);
      expect_close("losses", ours.losses, golden.peer.losses, golden.exact.losses, 4);
      expect_close("gradient", ours.gradients, golden.peer.gradients, golden.exact.gradients, 4);
      expect_close("weights", ours.parameters, golden.peer.parameters, golden.exact.parameters, 4);
      if (workers == 1) {
        expect_close("outputs", ours.outputs, golden.peer.outputs, golden.exact.outputs, 4);
      }
    }
  }
}

// The task's loss and penalty, a penalty that nobody overlooks, and the other losses that MLBench has.
INSTANTIATE_TEST_SUITE_P(Objectives, Task2a,
                         ::testing::Values(Objective{"binary_cross_entropy", "logistic_regression", 0, 2.5e-6},
                                           Objective{"binary_cross_entropy", "logistic_regression", 0, 1e-2},
                                           Objective{"binary_cross_entropy", "logistic_regression", 1e-4, 0},
                                           Objective{"mean_squared_error", "linear_regression", 0, 0},
                                           Objective{"mean_squared_error", "linear_regression", 1e-4, 0},
                                           Objective{"mean_squared_error", "linear_regression", 0, 1e-2},
                                           Objective{"binary_cross_entropy", "logistic_regression", 0, 0, true},
                                           Objective{"binary_cross_entropy", "logistic_regression", 0, 1e-2, true},
                                           Objective{"mean_squared_error", "linear_regression", 1e-4, 0, true}),
                         [](const auto& info) {
                           return (info.param.sparse ? "sparse_" : "") + info.param.model +
                                  (info.param.l1 > 0 ? "_l1" : "") +
                                  (info.param.l2 > 0 ? fmt::format("_l2_{}", std::lround(1 / info.param.l2)) : "");
                         });

}  // namespace
}  // namespace mlbench
