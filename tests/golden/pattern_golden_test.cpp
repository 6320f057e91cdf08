// Patterns of communication against the text of their papers in NumPy and torch.optim.SGD (pattern_oracle.py, run at
// test time by a Python that has its own PyTorch): 32 steps of several ranks, whose gradients depend on their weights.
// Codes of 8 bits are against NumPy alone, in float32.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/random.h"
#include "mlbench/optim/factory.h"
#include "mlbench/optim/test_ranks.h"
#include "tests/golden/oracle.h"

namespace mlbench {
namespace {

constexpr int kPatternSteps = 32;
constexpr double kPatternLr = 0.05, kPatternMomentum = 0.5;
constexpr int64_t kTensors[] = {3, 24, 5, 40, 7};

struct PatternCase {
  std::string optimizer;
  Json options;
  int ranks;
  Json asked;  // of the oracle
};

Json parts_of(int fragments) {
  const auto part = [](int first, int end) { return Json::array({first, end}); };
  if (fragments == 1) return Json::array({part(0, 79)});
  if (fragments == 2) return Json::array({part(0, 32), part(32, 79)});
  return Json::array({part(0, 27), part(27, 72), part(72, 79)});
}

PatternCase streaming(int ranks, int fragments, int64_t delay, double mixing, double momentum, bool nesterov) {
  const Json outer = {
      {"outer_lr", 0.7}, {"outer_momentum", momentum}, {"every", 6}, {"delay", delay}, {"mixing", mixing}};
  PatternCase one{"streaming_diloco", outer, ranks, outer};
  one.options.update(
      {{"rule", "sgd"}, {"compression", "none"}, {"fragments", fragments}, {"outer_nesterov", nesterov}});
  one.asked.update({{"pattern", "streaming"}, {"parts", parts_of(fragments)}, {"nesterov", nesterov}});
  return one;
}

PatternCase quantised(int ranks) {
  return {"centralized_sgd",
          {{"pattern", "quantised"}, {"compression", "int8"}},
          ranks,
          {{"pattern", "quantised"}, {"tensors", kTensors}}};
}

PatternCase served_by(int ranks, int servers) {
  return {"centralized_sgd", {{"pattern", "server"}, {"servers", servers}}, ranks, {{"pattern", "server"}}};
}

using Matrix = std::vector<std::vector<double>>;

// That of ranks which each send to the one `hop` above.
Matrix shift_by(int hop, int ranks) {
  Matrix matrix;
  for (int i = 0; i < ranks; ++i) {
    std::vector<double> row(static_cast<size_t>(ranks));
    row[static_cast<size_t>(i)] = row[static_cast<size_t>((i + ranks - hop) % ranks)] = 0.5;
    matrix.push_back(row);
  }
  return matrix;
}

std::vector<PatternCase> pattern_cases() {
  const auto push = [](int ranks, const Json& options, const std::vector<Matrix>& matrices) {
    return PatternCase{"stochastic_gradient_push", options, ranks, {{"pattern", "push_sum"}, {"matrices", matrices}}};
  };
  const double third = 1 / 3.0;
  const Matrix directed = {{third, 0, third}, {third, 0.5, third}, {third, 0.5, third}};
  const Matrix uneven = {{0.5, 0.25}, {0.5, 0.75}};
  return {streaming(1, 3, 1, 0.5, 0, false),
          streaming(2, 1, 0, 0, 0.9, true),
          streaming(2, 3, 1, 0.5, 0.9, true),
          streaming(3, 3, 4, 0.25, 0.5, false),
          streaming(3, 2, 2, 0, 0.9, true),
          quantised(1),
          quantised(2),
          quantised(3),
          served_by(2, 1),
          served_by(3, 2),
          served_by(5, 5),
          push(2, Json::object(), {shift_by(1, 2)}),
          push(5, Json::object(), {shift_by(1, 5), shift_by(2, 5), shift_by(4, 5)}),
          push(3, {{"topology", "custom"}, {"edges", "0>1, 0>2, 1-2, 2>0"}}, {directed}),
          push(2, {{"topology", "custom"}, {"weights", "0.5 0.25; 0.5 0.75"}}, {uneven})};
}

FlatLayout pattern_layout() {
  FlatLayout layout;
  for (const int64_t count : kTensors) {
    layout.ranges.push_back({std::to_string(layout.ranges.size()), {count}, layout.parameter_elements, count, true});
    layout.parameter_elements += count;
  }
  return layout;
}

struct Quadratics {
  std::vector<double> curvature;
  std::vector<std::vector<double>> targets;  // of each rank
};

Quadratics quadratics(int ranks) {
  RandomSequence random(23);
  Quadratics all;
  for (int64_t i = 0; i < pattern_layout().parameter_elements; ++i) all.curvature.push_back(0.2 + 2 * random.uniform());
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<double>& target = all.targets.emplace_back();
    for (size_t i = 0; i < all.curvature.size(); ++i) target.push_back(random.normal());
  }
  return all;
}

std::vector<at::Tensor> weights_of_ranks(const PatternCase& test, const Quadratics& problem) {
  const FlatLayout layout = pattern_layout();
  std::vector<at::Tensor> weights(static_cast<size_t>(test.ranks));
  optim::on_ranks(test.ranks, [&](int rank, comm::Communicator& comm) {
    spec::OptimizerSpec spec;
    spec.name = test.optimizer;
    spec.options = test.options;
    spec.options["momentum"] = kPatternMomentum;
    const auto optimizer = optim::make_optimizer(spec, layout, comm);
    const at::Tensor curvature = at::tensor(problem.curvature),
                     target = at::tensor(problem.targets[static_cast<size_t>(rank)]);
    optim::FlatTensors tensors{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
    const double share = 1.0 / test.ranks;
    for (int step = 0; step < kPatternSteps; ++step) {
      optimizer->begin({step, kPatternLr, share}, tensors);
      tensors.gradients.copy_(curvature * (tensors.parameters - target) * share);
      optimizer->finish();
      optimizer->step(tensors, kPatternLr);
      optimizer->after_update(tensors);
    }
    weights[static_cast<size_t>(rank)] = tensors.parameters;
  });
  return weights;
}

using PatternGolden = golden::OracleTest;

TEST_F(PatternGolden, StepsOfSeveralRanksEqualThePapers) {
  const Quadratics problem = quadratics(5);
  Json asked = {{"curvature", problem.curvature}, {"targets", problem.targets}, {"lr", kPatternLr},
                {"momentum", kPatternMomentum},   {"steps", kPatternSteps},     {"cases", Json::array()}};
  for (const PatternCase& test : pattern_cases()) {
    asked["cases"].push_back(test.asked);
    asked["cases"].back()["ranks"] = test.ranks;
  }
  const Json golden = golden::answer_of("pattern_oracle.py", asked);
  ASSERT_EQ(golden.size(), pattern_cases().size());
  for (size_t number = 0; number < golden.size(); ++number) {
    const PatternCase test = pattern_cases()[number];
    SCOPED_TRACE(test.optimizer + " " + test.options.dump());
    const std::vector<at::Tensor> weights = weights_of_ranks(test, problem);
    ASSERT_EQ(golden[number].size(), weights.size());
    for (size_t rank = 0; rank < weights.size(); ++rank) {
      const at::Tensor exact = at::tensor(golden[number][rank].get<std::vector<double>>());
      EXPECT_GT(exact.abs().max().item<double>(), 0.5) << "it moved";
      EXPECT_LT((weights[rank] - exact).abs().max().item<double>(), 2e-6) << "rank " << rank;
    }
  }
}

}  // namespace
}  // namespace mlbench
