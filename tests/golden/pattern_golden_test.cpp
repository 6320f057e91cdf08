// Patterns of communication against PyTorch's own, or the text of their papers in NumPy and torch.optim: 50 steps of
// several ranks, whose gradients depend on their weights. Codes of 8 bits are against NumPy alone, in float32.
// pattern_oracle.py is run at test time by a Python that has its own PyTorch. Started by published_test.py, DiLoCo is
// against torchft, too.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/random.h"
#include "mlbench/optim/factory.h"
#include "mlbench/optim/test_ranks.h"
#include "mlbench/spec/algorithm.h"
#include "tests/golden/oracle.h"

namespace mlbench {
namespace {

constexpr int kPatternSteps = 50;
constexpr double kPatternLr = 0.05, kPatternMomentum = 0.5;
constexpr int64_t kTensors[] = {3, 24, 5, 40, 7};

struct PatternCase {
  std::string optimizer;
  Json options;
  int ranks;
  Json asked;           // of the oracle, beside the options
  double bound = 2e-6;  // of what a weight may differ
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
  PatternCase one{"streaming_diloco", outer, ranks, Json::object()};
  one.options.update(
      {{"rule", "sgd"}, {"compression", "none"}, {"fragments", fragments}, {"outer_nesterov", nesterov}});
  one.asked.update({{"pattern", "streaming"}, {"parts", parts_of(fragments)}});
  return one;
}

PatternCase quantised(int ranks) {
  return {"centralized_sgd", {{"pattern", "quantised"}, {"compression", "int8"}}, ranks, {{"pattern", "quantised"}}};
}

PatternCase served_by(int ranks, int servers) {
  return {"centralized_sgd", {{"pattern", "server"}, {"servers", servers}}, ranks, {{"pattern", "synchronous"}}};
}

PatternCase gossip(int ranks, const Json& topology) {
  return {"decentralized_sgd", {{"topology", topology}}, ranks, {{"pattern", "push_sum"}}};
}

// What is there for every number of ranks.
std::vector<PatternCase> cases_of(int ranks) {
  const Json synchronous = {{"pattern", "synchronous"}}, zero = {{"pattern", "zero"}};
  const auto local = [&](const std::string& name, Json options, bool slowmo) {
    options["every"] = 6;
    PatternCase one{name, options, ranks, {{"pattern", "local"}, {"slowmo", slowmo}}};
    // An outer momentum of 0.9 amplifies AdamW's rounding: the oracle itself differs by 4e-6 in float32.
    if (name == "diloco") one.bound = 1e-5;
    return one;
  };
  const auto post_local = [&](int start_step) {
    return PatternCase{"local_sgd", {{"every", 6}, {"start_step", start_step}}, ranks, {{"pattern", "post_local"}}};
  };
  const auto choco = [&](const char* topology, int every) {
    const Json options = {{"compression", "top_k"}, {"error_feedback", false}, {"share", 0.2},
                          {"topology", topology},   {"consensus_rate", 0.4},   {"every", every}};
    return PatternCase{"choco_sgd", options, ranks, {{"pattern", "choco"}}};
  };
  return {
      {"centralized_sgd", Json::object(), ranks, synchronous},
      {"centralized_sgd", {{"by_layer", true}}, ranks, synchronous},
      {"centralized_sgd", {{"bucket_mb", 1e-4}, {"overlap", true}}, ranks, synchronous},
      {"centralized_sgd", {{"pattern", "async_server"}, {"staleness", 0}}, ranks, synchronous},
      {"adamw", {{"rule", "adamw"}, {"pattern", "server"}, {"servers", 2}}, ranks, synchronous},
      {"centralized_sgd", {{"pattern", "sharded"}}, ranks, zero},
      {"adamw", {{"rule", "adamw"}, {"pattern", "sharded"}}, ranks, zero},
      post_local(0),
      post_local(10),
      local("local_sgd", {{"outer_lr", 0.8}, {"outer_momentum", 0.6}}, true),
      local("diloco", {{"rule", "adamw"}, {"outer_lr", 0.7}, {"outer_momentum", 0.9}, {"outer_nesterov", true}}, false),
      local("sparse_loco", {{"rule", "adamw"}, {"share", 0.1}, {"error_decay", 0.9}}, false),
      gossip(ranks, "ring"),
      gossip(ranks, "torus"),
      gossip(ranks, "complete"),
      {"decentralized_sgd", {{"every", 3}}, ranks, {{"pattern", "push_sum"}, {"topology", "ring"}}},
      choco("ring", 1),
      choco("torus", 2)};
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

std::vector<PatternCase> cases_of_some_ranks() {
  const auto push = [](int ranks, const Json& options, const std::vector<Matrix>& matrices) {
    return PatternCase{"stochastic_gradient_push", options, ranks, {{"pattern", "push_sum"}, {"matrices", matrices}}};
  };
  const double third = 1 / 3.0;
  const Matrix directed = {{third, 0, third}, {third, 0.5, third}, {third, 0.5, third}};
  const Matrix uneven = {{0.5, 0.25}, {0.5, 0.75}};
  const Json star = {{0, 1}, {0, 2}, {0, 3}, {2, 3}};
  const Json edges = {{"topology", "custom"}, {"edges", "0-1, 0-2, 0-3, 2-3"}};
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
          push(2, {{"topology", "custom"}, {"weights", "0.5 0.25; 0.5 0.75"}}, {uneven}),
          gossip(2, "exponential"),
          gossip(4, "exponential"),
          gossip(6, "torus"),
          gossip(9, "torus"),
          {"decentralized_sgd", edges, 4, {{"pattern", "push_sum"}, {"topology", star}}}};
}

// torchft's DiLoCo has the cases where a fragment arrives before the next is sent.
std::vector<PatternCase> by_torchft(const std::vector<PatternCase>& cases) {
  std::vector<PatternCase> chosen;
  for (PatternCase test : cases) {
    if (test.optimizer != "diloco" && test.optimizer != "streaming_diloco") continue;
    const int fragments = test.options.value("fragments", 1);
    if (test.options.value("delay", 0) * fragments >= test.options["every"].get<int>()) continue;
    test.asked = {{"pattern", "torchft"}, {"parts", parts_of(fragments)}};
    chosen.push_back(test);
  }
  return chosen;
}

std::vector<PatternCase> pattern_cases() {
  std::vector<PatternCase> cases = cases_of_some_ranks();
  for (const int ranks : golden::rank_counts()) {
    for (PatternCase& test : cases_of(ranks)) cases.push_back(std::move(test));
  }
  if (environment_variable("MLBENCH_TEST_PUBLISHED")) {
    for (PatternCase& test : by_torchft(cases)) cases.push_back(std::move(test));
  }
  return cases;
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

spec::OptimizerSpec spec_of(const PatternCase& test) {
  spec::OptimizerSpec spec;
  spec.name = test.optimizer;
  spec.options = test.options;
  if (test.options.value("rule", "sgd") == "sgd") spec.options["momentum"] = kPatternMomentum;
  return spec;
}

std::vector<at::Tensor> weights_of_ranks(const PatternCase& test, const Quadratics& problem) {
  const FlatLayout layout = pattern_layout();
  std::vector<at::Tensor> weights(static_cast<size_t>(test.ranks));
  optim::on_ranks(test.ranks, [&](int rank, comm::Communicator& comm) {
    const auto optimizer = optim::make_optimizer(spec_of(test), layout, comm);
    const at::Tensor curvature = at::tensor(problem.curvature),
                     target = at::tensor(problem.targets[static_cast<size_t>(rank)]);
    optim::FlatTensors tensors{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
    const double share = 1.0 / test.ranks;
    for (int step = 0; step < kPatternSteps; ++step) {
      optimizer->begin({step, kPatternLr, share}, tensors);
      tensors.gradients.copy_(curvature * (tensors.parameters - target) * share);
      optimizer->ready(0, layout.parameter_elements);
      optimizer->finish();
      optimizer->step(tensors, kPatternLr);
      optimizer->after_update(tensors);
    }
    optimizer->settle(tensors);
    weights[static_cast<size_t>(rank)] = tensors.parameters;
  });
  return weights;
}

using PatternGolden = golden::OracleTest;

TEST_F(PatternGolden, StepsOfSeveralRanksEqualThePapers) {
  const Quadratics problem = quadratics(9);
  const std::vector<PatternCase> cases = pattern_cases();
  Json asked = {
      {"curvature", problem.curvature}, {"targets", problem.targets}, {"tensors", kTensors}, {"lr", kPatternLr},
      {"momentum", kPatternMomentum},   {"steps", kPatternSteps}};
  for (const PatternCase& test : cases) {
    Json one = test.options;
    one.update(test.asked);
    one["ranks"] = test.ranks;
    asked["cases"].push_back(one);
  }
  const Json golden = golden::answer_of("pattern_oracle.py", asked);
  ASSERT_EQ(golden.size(), cases.size());
  std::set<std::string> compared;
  for (size_t number = 0; number < golden.size(); ++number) {
    const PatternCase& test = cases[number];
    SCOPED_TRACE(fmt::format("{} {}, {} ranks", test.optimizer, test.options.dump(), test.ranks));
    compared.insert(spec::algorithm_of(spec_of(test)).pattern);
    const std::vector<at::Tensor> weights = weights_of_ranks(test, problem);
    ASSERT_EQ(golden[number].size(), weights.size());
    for (size_t rank = 0; rank < weights.size(); ++rank) {
      const at::Tensor exact = at::tensor(golden[number][rank].get<std::vector<double>>());
      EXPECT_GT(exact.abs().max().item<double>(), 0.5) << "it moved";
      EXPECT_LT((weights[rank] - exact).abs().max().item<double>(), test.bound) << "rank " << rank;
    }
  }
  for (const Json& row : optim::list_exchanges()) EXPECT_TRUE(compared.contains(row["name"].get<std::string>())) << row;
}

}  // namespace
}  // namespace mlbench
