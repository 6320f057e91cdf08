// Linear models by `mlbench run` on made rows, with real ranks: the weights of the last checkpoint and their objective
// beside the optimum that is computed in float64 (tests/golden/linear_optimum.py). Logistic regression has the loss and
// the penalty of task 2a.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/process.h"
#include "mlbench/checkpoint/checkpoint.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/synthetic.h"
#include "tests/golden/oracle.h"
#include "tests/support/processes.h"

namespace mlbench {
namespace {

using golden::Values;

constexpr double kExcess = 1e-8;    // allowed beyond the optimum
constexpr double kRounding = 1e-6;  // of losses that a run computes in float32

// The whole training set is one batch for 1 and 2 workers, so that both descend straight to the optimum.
struct LinearModel {
  std::string name, loss, data;
  double l2;
  int steps;
  double distance;  // allowed from the optimum's weights, as a share of their norm
  std::vector<std::string> settings;
};

std::vector<LinearModel> linear_models() {
  return {// The penalty bounds the least curvature from below, so that a step of 4 leaves at most 4/5 of the distance.
          {"linear_regression",
           "mean_squared_error",
           "epsilon-sample",
           0.05,
           150,
           1e-5,
           {"model.name=linear_regression", "model.l2=0.05", "loss=mean_squared_error",
            R"(evaluation.metrics=["loss", "Mean Squared Error"])", "goal.metric=Mean Squared Error",
            "goal.higher_is_better=false", "goal.target=1e-6", "goal.light_target=1e-6"}},
          // Model, loss and penalty are the task's. There are more rows than weights, and labels are noisy.
          {"logistic_regression",
           "binary_cross_entropy",
           "madelon",
           2.5e-6,
           1000,
           1e-3,
           {"epochs=1000", "batch_size=2000", "optimizer.lr=40", "optimizer.momentum=0.98", "optimizer.nesterov=true",
            "goal.target=100"}}};
}

struct Rows {
  std::vector<float> features;
  std::vector<int64_t> labels;
  size_t dimension = 0;
};

Rows rows_of(const LinearModel& model, const TemporaryFolder& folder) {
  const dataset::PreparedDataset data =
      dataset::make_synthetic(dataset::find_description(model.data), folder / "cache");
  const dataset::CachedSplit& train = data.split("train");
  const auto& column = train.column<dataset::FixedColumn>("features");
  const auto features = column.as<float>();
  return {{features.begin(), features.end()},
          {train.labels().begin(), train.labels().end()},
          static_cast<size_t>(column.volume())};
}

struct Optimum {
  Values weights;
  double loss = 0;
  double below = 0;  // how much smaller the true one may be
};

Optimum ask_oracle(const LinearModel& model, const Rows& rows, const TemporaryFolder& folder) {
  golden::write_values(folder / "features.bin", rows.features);
  golden::write_values(folder / "labels.bin", rows.labels);
  write_json_file(folder / "case.json", {{"loss", model.loss}, {"dimension", rows.dimension}, {"l2", model.l2}});
  golden::run_oracle("linear_optimum.py", folder);
  const Json result = read_json_file(folder / "result.json");
  return {golden::read_values(folder / "optimum.bin"), result["loss"], result["below"]};
}

// In float64.
double objective(const LinearModel& model, const Rows& rows, const Values& weights) {
  double losses = 0, squares = 0;
  for (size_t row = 0; row < rows.labels.size(); ++row) {
    double z = 0;
    for (size_t i = 0; i < weights.size(); ++i) z += rows.features[row * rows.dimension + i] * weights[i];
    const auto y = static_cast<double>(rows.labels[row]);
    losses += model.loss == "mean_squared_error" ? (z - y) * (z - y)
                                                 : std::max(z, 0.0) - z * y + std::log1p(std::exp(-std::abs(z)));
  }
  for (const double weight : weights) squares += weight * weight;
  return losses / static_cast<double>(rows.labels.size()) + model.l2 / 2 * squares;
}

Values last_weights(const std::filesystem::path& run) {
  const NamedState state = checkpoint::read_checkpoint(checkpoint::list_checkpoints(run / "checkpoints").back().path);
  const std::vector<std::byte>& bytes = state.tensor("linear.weight").bytes;
  std::vector<float> weights(bytes.size() / sizeof(float));
  std::memcpy(weights.data(), bytes.data(), bytes.size());
  return {weights.begin(), weights.end()};
}

class EveryLinearModel : public golden::OracleTest, public testing::WithParamInterface<LinearModel> {};

INSTANTIATE_TEST_SUITE_P(Table, EveryLinearModel, testing::ValuesIn(linear_models()),
                         [](const auto& info) { return info.param.name; });

TEST_P(EveryLinearModel, ReachesItsOptimum) {
  const LinearModel& model = GetParam();
  const TemporaryFolder folder;
  const Rows rows = rows_of(model, folder);
  const Optimum optimum = ask_oracle(model, rows, folder);
  ASSERT_LT(optimum.below, kExcess / 10) << "no optimum";
  EXPECT_NEAR(objective(model, rows, optimum.weights), optimum.loss, 1e-12);
  double norm = 0;
  for (const double weight : optimum.weights) norm += weight * weight;
  ASSERT_GT(norm, 0.1) << "a case that says nothing";

  for (const std::string framework : {"torch", "native"}) {
    SCOPED_TRACE(framework);
    const std::string steps = std::to_string(model.steps);
    std::vector<std::string> arguments = {"run",         framework,     "1",       "2",
                                          "--task",      "2a",          "--data",  model.data,
                                          "--synthetic", "--framework", framework, "--threads-per-worker",
                                          "1",           "--max-steps", steps,     "--checkpoint-every",
                                          steps};
    for (const std::string setting : {"schedule.scaling=none", "schedule.decay=constant"}) {
      arguments.insert(arguments.end(), {"--set", setting});
    }
    for (const std::string& setting : model.settings) arguments.insert(arguments.end(), {"--set", setting});
    const ProcessOutput output = test::mlbench(folder, arguments);
    ASSERT_EQ(output.end.code, 0) << output.standard_output << output.standard_error;

    for (const char* workers : {"-1", "-2"}) {
      SCOPED_TRACE(workers);
      const std::filesystem::path run = std::filesystem::path(folder / "home") / "runs" / (framework + workers);
      const Json record = read_json_file(run / "run.json");
      EXPECT_EQ(record["state"], "finished");
      EXPECT_EQ(record["division"], "open");
      EXPECT_NEAR(record["epochs"].back()["train_loss"].get<double>(), optimum.loss, kRounding);
      for (const Json& epoch : record["epochs"]) {
        ASSERT_GT(epoch["train_loss"].get<double>(), optimum.loss - kRounding) << epoch;
      }
      const Values weights = last_weights(run);
      ASSERT_EQ(weights.size(), optimum.weights.size());
      const double excess = objective(model, rows, weights) - optimum.loss;
      EXPECT_LT(excess, kExcess);
      EXPECT_GT(excess, -optimum.below - 1e-12) << "below the optimum";
      double distance = 0;
      for (size_t i = 0; i < weights.size(); ++i) distance += std::pow(weights[i] - optimum.weights[i], 2);
      EXPECT_LT(std::sqrt(distance / norm), model.distance);
    }
  }
}

}  // namespace
}  // namespace mlbench
