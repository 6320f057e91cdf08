// Every update rule against torch.optim (optimizer_oracle.py, run at test time by a Python that has its own PyTorch): a
// hundred steps on stored gradients of very different sizes, the learning rate changing from step to step. The error
// norm against PyTorch's float64 result is at most twice that of PyTorch's own float32 result.
//
// Rules that Debian's PyTorch lacks are compared with kept answers (published.json) of packages that published_test.py
// fetches and asks again.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
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
  const char* peer;  // in torch.optim, or behind the name of its package; the options have the same names
  Json options;
  double clip_norm = 0;  // by torch.nn.utils.clip_grad_norm_
  // What is compared is the average of the weights, of the peer's state `ax`. The rate is that of the first step
  // throughout: PyTorch's ASGD takes a new one a step late.
  bool averaged = false;
  std::vector<int64_t> shape = {kCount};
  // torch.optim.Muon orthogonalises in bfloat16, whatever the weights are; else it is made to do that as the rest.
  bool bfloat16 = false;
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

std::vector<RuleCase> published_cases() {
  const Json muon = {{"adjust_lr", "match_rms_adamw"}};
  const Json other = {{"adjust_lr", "original"}, {"momentum", 0.8}, {"nesterov", false}, {"weight_decay", 0.5}};
  return {{.ours = "muon", .peer = "Muon", .options = muon, .shape = {10, 20}},
          {.ours = "muon", .peer = "Muon", .options = other, .shape = {20, 10}},
          {.ours = "muon", .peer = "Muon", .options = muon, .shape = {10, 20}, .bfloat16 = true},
          {"schedule_free_sgd", "schedulefree.SGDScheduleFree", {{"momentum", 0.8}, {"weight_decay", 0.1}}},
          {"schedule_free_adamw",
           "schedulefree.AdamWScheduleFree",
           {{"betas", {0.8, 0.9}}, {"eps", 1e-6}, {"weight_decay", 0.1}}}};
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
    problem.lr.push_back(0.01 * std::min(1.0, 0.1 * (step + 1)) / (1 + 0.1 * step));
    std::vector<float>& gradient = problem.gradients.emplace_back();
    for (const double size : scale) gradient.push_back(static_cast<float>(size * (random.normal() + 0.3)));
  }
  return problem;
}

std::vector<float> ours(const Problem& problem, const RuleCase& test) {
  const FlatLayout layout{.ranges = {{"w", test.shape, 0, kCount, true}}, .parameter_elements = kCount};
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

Json ask_pytorch(const Problem& problem, const std::vector<RuleCase>& tests) {
  Json json = {{"start", problem.start}, {"gradients", problem.gradients}, {"lr", problem.lr}};
  for (const RuleCase& test : tests) {
    Json options = test.options;
    if (test.averaged) options.update({{"t0", 0}, {"lambd", 0}});
    json["cases"].push_back({{"optimizer", test.peer},
                             {"shape", test.shape},
                             {"options", options},
                             {"clip_norm", test.clip_norm},
                             {"bfloat16", test.bfloat16}});
  }
  return golden::answer_of("optimizer_oracle.py", json);
}

template <typename Values>
double error_norm(const Values& values, const std::vector<double>& exact) {
  double sum = 0;
  for (size_t i = 0; i < exact.size(); ++i) sum += std::pow(static_cast<double>(values[i]) - exact[i], 2);
  return std::sqrt(sum);
}

void compare_rules(const Problem& problem, const std::vector<RuleCase>& tests, const Json& golden, size_t rules) {
  ASSERT_EQ(golden.size(), tests.size());
  std::set<std::string> compared;
  for (size_t i = 0; i < tests.size(); ++i) {
    const RuleCase& test = tests[i];
    SCOPED_TRACE(std::string(test.ours) + " " + test.options.dump());
    compared.insert(test.ours);
    const auto exact = golden[i]["float64"].get<std::vector<double>>();
    const std::vector<float> values = ours(problem, test);
    ASSERT_EQ(exact.size(), values.size());
    const double moved = error_norm(problem.start, exact);
    EXPECT_GT(moved, 0.01) << "it moved";
    EXPECT_LE(error_norm(values, exact), test.bfloat16 ? 0.01 * moved : 2 * golden[i]["error"].get<double>());
  }
  EXPECT_EQ(compared.size(), rules);
}

using OptimizerGolden = golden::OracleTest;

TEST_F(OptimizerGolden, AHundredStepsEqualPyTorchs) {
  const Problem problem = make_problem();
  compare_rules(problem, cases(), ask_pytorch(problem, cases()), 3);
}

TEST(PublishedOptimizers, AHundredStepsEqualTheirs) {
  const Problem problem = make_problem();
  const std::filesystem::path sources = environment_variable("MLBENCH_TEST_SOURCE_DIR").value();
  std::filesystem::path answers = sources / "tests/golden/published.json";
  if (const auto file = environment_variable("MLBENCH_TEST_PUBLISHED")) {
    answers = *file;
    write_json_file(answers, ask_pytorch(problem, published_cases()));
  }
  compare_rules(problem, published_cases(), read_json_file(answers), 3);
}

}  // namespace
}  // namespace mlbench
