// Linear regression by `mlbench run` on made rows, with real ranks: the weights of the last checkpoint beside the
// optimum that NumPy computes in float64 (tests/golden/linear_optimum.py).

#include <gtest/gtest.h>

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

constexpr const char* kData = "epsilon-sample";
constexpr double kL2 = 0.05;
// The penalty bounds the least curvature from below, so that a step of 4 leaves at most 4/5 of the distance.
constexpr int kSteps = 150;

struct Optimum {
  golden::Values weights;
  double loss = 0;
};

Optimum ask_numpy(const TemporaryFolder& folder) {
  const dataset::PreparedDataset data = dataset::make_synthetic(dataset::find_description(kData), folder / "cache");
  const dataset::CachedSplit& train = data.split("train");
  const auto features = train.column<dataset::FixedColumn>("features").as<float>();
  golden::write_values(folder / "features.bin", std::vector<float>(features.begin(), features.end()));
  golden::write_values(folder / "labels.bin", std::vector<int64_t>(train.labels().begin(), train.labels().end()));
  write_json_file(folder / "case.json",
                  {{"dimension", train.column<dataset::FixedColumn>("features").volume()}, {"l2", kL2}});
  golden::run_oracle("linear_optimum.py", folder);
  return {golden::read_values(folder / "optimum.bin"), read_json_file(folder / "result.json")["loss"].get<double>()};
}

golden::Values last_weights(const std::filesystem::path& run) {
  const NamedState state = checkpoint::read_checkpoint(checkpoint::list_checkpoints(run / "checkpoints").back().path);
  const std::vector<std::byte>& bytes = state.tensor("linear.weight").bytes;
  std::vector<float> weights(bytes.size() / sizeof(float));
  std::memcpy(weights.data(), bytes.data(), bytes.size());
  return {weights.begin(), weights.end()};
}

using LinearRegression = golden::OracleTest;

// The whole training set is one batch for 1 and 2 workers, so that both descend straight to the optimum.
TEST_F(LinearRegression, RunsReachTheOptimum) {
  const TemporaryFolder folder;
  const Optimum optimum = ask_numpy(folder);
  double norm = 0;
  for (const double weight : optimum.weights) norm += weight * weight;
  ASSERT_GT(norm, 0.1) << "a case that says nothing";

  for (const std::string framework : {"torch", "native"}) {
    SCOPED_TRACE(framework);
    std::vector<std::string> arguments = {"run",
                                          framework,
                                          "1",
                                          "2",
                                          "--task",
                                          "2a",
                                          "--data",
                                          kData,
                                          "--synthetic",
                                          "--framework",
                                          framework,
                                          "--threads-per-worker",
                                          "1",
                                          "--max-steps",
                                          std::to_string(kSteps),
                                          "--checkpoint-every",
                                          std::to_string(kSteps)};
    for (const std::string setting :
         {"model.name=linear_regression", "model.l2=0.05", "loss=mean_squared_error",
          R"(evaluation.metrics=["loss", "Mean Squared Error"])", "goal.metric=Mean Squared Error",
          "goal.higher_is_better=false", "goal.target=1e-6", "goal.light_target=1e-6", "schedule.scaling=none",
          "schedule.decay=constant"}) {
      arguments.insert(arguments.end(), {"--set", setting});
    }
    const ProcessOutput output = test::mlbench(folder, arguments);
    ASSERT_EQ(output.end.code, 0) << output.standard_output << output.standard_error;

    for (const char* workers : {"-1", "-2"}) {
      SCOPED_TRACE(workers);
      const std::filesystem::path run = std::filesystem::path(folder / "home") / "runs" / (framework + workers);
      const Json record = read_json_file(run / "run.json");
      EXPECT_EQ(record["state"], "finished");
      EXPECT_EQ(record["division"], "open");
      EXPECT_NEAR(record["epochs"].back()["train_loss"].get<double>(), optimum.loss, 1e-6);
      const golden::Values weights = last_weights(run);
      ASSERT_EQ(weights.size(), optimum.weights.size());
      double distance = 0;
      for (size_t i = 0; i < weights.size(); ++i) distance += std::pow(weights[i] - optimum.weights[i], 2);
      EXPECT_LT(std::sqrt(distance / norm), 1e-5);
    }
  }
}

}  // namespace
}  // namespace mlbench
