// Every update rule against torch.optim (optimizer_oracle.py, run at test time by a Python that has its own PyTorch): a
// hundred steps on stored gradients of very different sizes, the learning rate changing from step to step. The error
// norm against PyTorch's float64 result is at most twice that of PyTorch's own float32 result.

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/random.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/optim/factory.h"
#include "tests/golden/oracle.h"

namespace mlbench {
namespace {

constexpr int64_t kCount = 200;
constexpr int kSteps = 100;

struct RuleCase {
  const char* ours;
  const char* peer;  // in torch.optim; the options have the same names
  Json options;
  double clip_norm = 0;  // by torch.nn.utils.clip_grad_norm_
  // What is compared is the average of the weights, of the peer's state `ax`. The rate is that of the first step
  // throughout: PyTorch's ASGD takes a new one a step late.
  bool averaged = false;
};

std::vector<RuleCase> cases() {
  return {{"centralized_sgd", "SGD", Json::object()},
          {"centralized_sgd", "SGD", {{"momentum", 0.9}}},
          {"centralized_sgd", "SGD", {{"momentum", 0.9}, {"nesterov", true}, {"weight_decay", 1e-4}}},
          {"centralized_sgd", "SGD", {{"momentum", 0.8}, {"dampening", 0.3}, {"weight_decay", 0.01}}},
          {"centralized_sgd", "SGD", {{"weight_decay", 0.1}}},
          {"centralized_sgd", "SGD", {{"momentum", 0.9}}, 2.5},
          {"centralized_sgd", "ASGD", {{"weight_decay", 1.2e-6}}, 2.5, true},
          {"centralized_adam", "Adam", Json::object()},
          {"centralized_adam", "Adam", {{"betas", {0.9, 0.98}}, {"eps", 1e-9}}},
          {"centralized_adam", "Adam", {{"betas", {0.5, 0.9}}, {"weight_decay", 0.1}}},
          {"centralized_adam", "Adam", {{"betas", {0.8, 0.7}}, {"eps", 1e-3}, {"amsgrad", true}}},
          {"adamw", "AdamW", Json::object()},
          {"adamw", "AdamW", {{"betas", {0.5, 0.9}}, {"weight_decay", 0.1}, {"amsgrad", true}}}};
}

struct Problem {
  std::vector<float> start;
  std::vector<std::vector<float>> gradients;
  std::vector<double> lr;
};

Problem make_problem() {
  RandomSequence random(11);
  Problem problem;
  std::vector<double> scale;
  for (int64_t i = 0; i < kCount; ++i) {
    problem.start.push_back(static_cast<float>(random.normal()));
    scale.push_back(std::pow(10, 4 * random.uniform() - 3));
  }
  for (int step = 0; step < kSteps; ++step) {
    problem.lr.push_back(0.01 / (1 + 0.1 * step));
    std::vector<float>& gradient = problem.gradients.emplace_back();
    for (const double size : scale) gradient.push_back(static_cast<float>(size * (random.normal() + 0.3)));
  }
  return problem;
}

std::vector<float> ours(const Problem& problem, const RuleCase& test) {
  const FlatLayout layout{.ranges = {{"w", {kCount}, 0, kCount, true}}, .parameter_elements = kCount};
  const auto comm = std::move(comm::make_in_process_group(1, std::chrono::seconds(20)).front());
  spec::OptimizerSpec spec;
  spec.name = test.ours;
  spec.options = test.options;
  if (test.clip_norm > 0) spec.options["clip_norm"] = test.clip_norm;
  if (test.averaged) spec.options["averaging_patience"] = 1;
  const auto optimizer = optim::make_optimizer(spec, layout, *comm);
  optim::FlatTensors tensors{at::tensor(problem.start), at::zeros({kCount})};
  for (const double loss : {1.0, 2.0}) optimizer->on_evaluation(loss);  // averaging begins with the first step
  for (size_t step = 0; step < kSteps; ++step) {
    optimizer->begin({static_cast<int64_t>(step)}, tensors);
    tensors.gradients.copy_(at::tensor(problem.gradients[step]));
    optimizer->finish();
    optimizer->step(tensors, problem.lr[test.averaged ? 0 : step]);
  }
  optimizer->swap_average(tensors);
  return {tensors.parameters.data_ptr<float>(), tensors.parameters.data_ptr<float>() + kCount};
}

Json ask_pytorch(const Problem& problem) {
  Json json = {{"start", problem.start}, {"gradients", problem.gradients}, {"lr", problem.lr}};
  for (const RuleCase& test : cases()) {
    Json options = test.options;
    if (test.averaged) options.update({{"t0", 0}, {"lambd", 0}});
    json["cases"].push_back({{"optimizer", test.peer}, {"options", options}, {"clip_norm", test.clip_norm}});
  }
  return golden::answer_of("optimizer_oracle.py", json);
}

template <typename Values>
double error_norm(const Values& values, const std::vector<double>& exact) {
  double sum = 0;
  for (size_t i = 0; i < exact.size(); ++i) sum += std::pow(static_cast<double>(values[i]) - exact[i], 2);
  return std::sqrt(sum);
}

using OptimizerGolden = golden::OracleTest;

TEST_F(OptimizerGolden, AHundredStepsEqualPyTorchs) {
  const Problem problem = make_problem();
  const Json golden = ask_pytorch(problem);
  ASSERT_EQ(golden.size(), cases().size());
  std::set<std::string> compared;
  for (size_t i = 0; i < cases().size(); ++i) {
    const RuleCase test = cases()[i];
    SCOPED_TRACE(std::string(test.ours) + " " + test.options.dump());
    compared.insert(test.ours);
    const auto exact = golden[i]["float64"].get<std::vector<double>>();
    const auto peer = golden[i]["float32"].get<std::vector<double>>();
    const std::vector<float> values = ours(problem, test);
    ASSERT_EQ(exact.size(), values.size());
    EXPECT_GT(error_norm(problem.start, exact), 0.01) << "it moved";
    EXPECT_LE(error_norm(values, exact), 2 * error_norm(peer, exact));
  }
  EXPECT_EQ(compared.size(), 3U) << "the rules that torch.optim has";
}

}  // namespace
}  // namespace mlbench
