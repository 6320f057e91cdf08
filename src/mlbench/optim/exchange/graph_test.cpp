// Custom graphs, and how fast ranks agree on each graph.

#include "mlbench/optim/exchange/graph.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/optim/exchange/steps_test.h"

namespace mlbench::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const Json kStar = {{"topology", "custom"}, {"edges", "0-1, 0-2, 0-3"}};

at::Tensor matrix(const std::vector<std::vector<double>>& rows) {
  at::Tensor all = at::zeros({std::ssize(rows), std::ssize(rows)}, at::kDouble);
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t j = 0; j < rows.size(); ++j) all[static_cast<int64_t>(i)][static_cast<int64_t>(j)] = rows[i][j];
  }
  return all;
}

TEST(CustomGraph, EdgesHaveMetropolisWeights) {
  EXPECT_TRUE(
      at::allclose(matrix_of_edges("0-1, 0-2, 0-3", MixingDemand::kSymmetric, 4),
                   matrix({{0.25, 0.25, 0.25, 0.25}, {0.25, 0.75, 0, 0}, {0.25, 0, 0.75, 0}, {0.25, 0, 0, 0.75}})));
  EXPECT_TRUE(at::allclose(matrix_of_edges("1-0,1-2", MixingDemand::kDoublyStochastic, 3) * 3,
                           matrix({{2, 1, 0}, {1, 1, 1}, {0, 1, 2}})));
}

TEST(CustomGraph, DirectedEdgesShareEvenly) {
  EXPECT_TRUE(at::allclose(matrix_of_edges("0>1, 0>2, 1-2, 2>0", MixingDemand::kColumnStochastic, 3) * 6,
                           matrix({{2, 0, 2}, {2, 3, 2}, {2, 3, 2}})));
}

TEST(CustomGraph, WeightsAreReadByRow) {
  EXPECT_TRUE(at::equal(matrix_of_weights("0.5 0.5 0; 0 0.5 0.5; 0.5 0 0.5", MixingDemand::kDoublyStochastic, 3) * 2,
                        matrix({{1, 1, 0}, {0, 1, 1}, {1, 0, 1}})));
  EXPECT_TRUE(at::equal(matrix_of_weights("0.5 0.25; 0.5 0.75", MixingDemand::kColumnStochastic, 2) * 4,
                        matrix({{2, 1}, {2, 3}})));
}

TEST(CustomGraph, SaysWhatIsWrong) {
  const auto edges = [](const std::string& text, const std::string& expected,
                        MixingDemand demand = MixingDemand::kSymmetric) {
    EXPECT_THAT([&] { matrix_of_edges(text, demand, 4); }, ThrowsMessage<UserError>(HasSubstr(expected))) << text;
  };
  edges("0-1,2", "edge '2'; expected two ranks such as 0-1");
  edges("0>1", "edge '0>1'; expected two ranks such as 0-1");
  edges("0<1", "or 0>1 for one direction", MixingDemand::kColumnStochastic);
  edges("0-1,1-2,2-4", "a rank of the edge '2-4'");
  edges("0-1,x-2", "a rank of the edge 'x-2'");
  edges("0-1,1-1", "edge '1-1' joins a rank to itself");
  edges("0-1,2-3", "rank 0 may have nothing of rank 2; expected a connected graph");
  edges("0>1,1>2,2>3", "rank 0 may have nothing of rank 1", MixingDemand::kColumnStochastic);

  const auto weights = [](const std::string& text, const std::string& expected,
                          MixingDemand demand = MixingDemand::kDoublyStochastic) {
    EXPECT_THAT([&] { matrix_of_weights(text, demand, 2); }, ThrowsMessage<UserError>(HasSubstr(expected))) << text;
  };
  weights("0.5 0.5", "weights has 1 row for 2 ranks; expected a row of 2 numbers for each rank");
  weights("0.5 0.5; 0.5", "row 1 of weights has 1 number; expected 2");
  weights("0.5 0.5; 1.5 -0.5", "row 1 of weights");
  weights("0.5 0.5; 0.5 0.4", "row 1 of weights sums to 0.9; expected 1");
  weights("0.5 0.5; 0.4 0.6", "column 0 of weights sums to 0.9; expected 1");
  weights("0.5 0.4; 0.5 0.5", "column 1 of weights sums to 0.9; expected 1", MixingDemand::kColumnStochastic);
  weights("0 1; 1 0", "the graph never brings all ranks together");
  EXPECT_THAT(
      [] { matrix_of_weights("0.5 0.5 0; 0 0.5 0.5; 0.5 0 0.5", MixingDemand::kSymmetric, 3); },
      ThrowsMessage<UserError>(HasSubstr("weights has 0 at row 1, column 0, but 0.5 at row 0, column 1; expected a "
                                         "symmetric matrix")));
  expect_refusal(named("decentralized_sgd", {{"topology", "custom"}}), "topology \"custom\" with no edges");
  expect_refusal(named("choco_sgd", {{"topology", "custom"}, {"edges", "0-1"}, {"weights", "1"}}),
                 "both edges and weights");
  expect_refusal(named("decentralized_sgd", {{"edges", "0-1"}}), "topology \"ring\" with edges or weights");
  expect_refusal(named("decentralized_sgd", kStar), "a rank of the edge '0-1'");
}

// Gradients 1 to 4. Behind the first step rank 0 has -(1 + 2 + 3 + 4) / 4, and rank 1 -(3/4 2 + 1/4 1).
TEST(CustomGraph, StepsOnAStarComputedByHand) {
  const auto weights = weights_behind_steps(named("decentralized_sgd", kStar), 4, 2);
  EXPECT_THAT(weights[0], ElementsAre(-2.5, -5));
  EXPECT_THAT(weights[1], ElementsAre(-1.75, -3.6875)) << "-(3/4 3.75 + 1/4 3.5)";
  EXPECT_THAT(weights[2], ElementsAre(-2.5, -5));
  EXPECT_THAT(weights[3], ElementsAre(-3.25, -6.3125));

  Json choco = {{"compression", "top_k"}, {"share", 1}, {"error_feedback", false}, {"consensus_rate", 1}};
  choco.update(kStar);
  EXPECT_EQ(weights_behind_steps(named("choco_sgd", choco), 4, 2), weights) << "all elements are sent";
}

TEST(CustomGraph, EdgesOfARingGiveTheBitsOfTheRing) {
  const Json edges = {{"topology", "custom"}, {"edges", "0-1,1-2,2-3,3-4,4-0"}};
  EXPECT_EQ(weights_behind_steps(named("decentralized_sgd", edges), 5, 4),
            weights_behind_steps(named("decentralized_sgd", Json::object()), 5, 4));
}

TEST(CustomGraph, BytesAreFourPerParameterAndNeighbour) {
  const FlatLayout layout = layout_with_buffer({3, 5});
  on_ranks(4, [&](int rank, comm::Communicator& comm) {
    const auto optimizer = make_optimizer(named("decentralized_sgd", kStar), layout, comm);
    FlatTensors tensors{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
    optimizer->begin({0, 1, 0.25}, tensors);
    optimizer->finish();
    optimizer->step(tensors, 1);
    const uint64_t bytes = (rank == 0 ? 3U : 1U) * 8 * sizeof(float);
    EXPECT_EQ(optimizer->after_update(tensors), bytes);
    EXPECT_EQ(optimizer->promise().bytes_per_step, bytes);
  });
}

// ---- consensus ------------------------------------------------------------------------------------------------------

// The second largest magnitude of an eigenvalue of the graph's matrix, in closed form.
double ring_rate(int size) { return (1 + 2 * std::cos(2 * std::numbers::pi / size)) / 3; }

struct Contraction {
  std::string optimizer;
  Json options;
  int size;
  double rate;
};

std::vector<Contraction> contractions() {
  std::vector<Contraction> all;
  for (const int size : {4, 5, 6, 9}) all.push_back({"", {{"topology", "ring"}}, size, ring_rate(size)});
  // A grid of 2 x 3 has (1 + v + h) / 4 with v = 1, -1 and h = 2, -1; 3 x 3 and 4 x 4 have (1 + v + h) / 5 with
  // v, h = 2 cos(2 pi a / rows).
  all.push_back({"", {{"topology", "torus"}}, 6, 0.5});
  all.push_back({"", {{"topology", "torus"}}, 9, 0.4});
  all.push_back({"", {{"topology", "torus"}}, 16, 0.6});
  for (const int size : {2, 5}) all.push_back({"", {{"topology", "complete"}}, size, 0});
  all.push_back({"", kStar, 4, 0.75});  // eigenvalues 1, 3/4, 3/4 and 0
  // The half of a shift: the second singular value is |1 + exp(2 pi i / k)| / 2 = cos(pi / k).
  all.push_back({"", {{"topology", "custom"}, {"weights", "0.5 0.5 0; 0 0.5 0.5; 0.5 0 0.5"}}, 3, 0.5});
  const size_t gossip = all.size();
  // Shifts by powers of two are powers of one shift, since these numbers of ranks are prime.
  for (const int size : {3, 5, 7}) {
    all.push_back({"stochastic_gradient_push", Json::object(), size, std::cos(std::numbers::pi / size)});
  }
  for (size_t i = 0; i < gossip; ++i) {
    all[i].optimizer = "decentralized_sgd";
    if (all[i].options.contains("weights")) continue;  // not symmetric
    // With all elements sent, a rate g makes of each eigenvalue e of these graphs 1 - g (1 - e); none is below -e.
    Json choco = {{"compression", "top_k"}, {"share", 1}, {"error_feedback", false}, {"consensus_rate", 0.5}};
    choco.update(all[i].options);
    all.push_back({"choco_sgd", choco, all[i].size, (1 + all[i].rate) / 2});
  }
  return all;
}

// The values of all ranks, from the squares of their numbers, behind each of `rounds` exchanges without a gradient.
std::vector<std::vector<double>> values_without_gradients(const spec::OptimizerSpec& spec, int size, int rounds) {
  std::vector<std::vector<double>> values(static_cast<size_t>(rounds) + 1,
                                          std::vector<double>(static_cast<size_t>(size)));
  const FlatLayout layout = layout_with_buffer({1});
  on_ranks(size, [&](int rank, comm::Communicator& comm) {
    const auto optimizer = make_optimizer(spec, layout, comm);
    FlatTensors tensors{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
    for (int round = 0; round <= rounds; ++round) {
      values[static_cast<size_t>(round)][static_cast<size_t>(rank)] = tensors.parameters[0].item<float>();
      optimizer->begin({round, 1, 1.0 / size}, tensors);
      optimizer->finish();
      // CHOCO's public copies are to be of one place, so that ranks part behind the first step alone.
      if (round == 0) tensors.parameters[0] = std::pow(rank, 2);
      optimizer->after_update(tensors);
    }
  });
  for (int rank = 0; rank < size; ++rank) values[0][static_cast<size_t>(rank)] = std::pow(rank, 2);
  return values;
}

struct Spread {
  double mean = 0, distance = 0;  // of all to their mean
};

Spread spread_of(const std::vector<double>& values) {
  Spread spread;
  for (const double value : values) spread.mean += value / static_cast<double>(values.size());
  for (const double value : values) spread.distance += std::pow(value - spread.mean, 2);
  spread.distance = std::sqrt(spread.distance);
  return spread;
}

TEST(Consensus, ContractsAtLeastAtTheSpectralGapsRate) {
  for (const Contraction& test : contractions()) {
    SCOPED_TRACE(fmt::format("{} {}, {} ranks", test.optimizer, test.options.dump(), test.size));
    const auto values = values_without_gradients(named(test.optimizer, test.options), test.size, 10);
    const Spread first = spread_of(values.front());
    for (size_t round = 1; round < values.size(); ++round) {
      const Spread before = spread_of(values[round - 1]), now = spread_of(values[round]);
      EXPECT_LE(now.distance, before.distance * test.rate + first.distance * 1e-6) << "round " << round;
      EXPECT_NEAR(now.mean, first.mean, first.mean * 1e-5) << "round " << round;
    }
  }
}

// The product of log2 k matrices of one peer each is the mean.
TEST(Consensus, IsReachedInLogarithmicallyManyRoundsOfOnePeer) {
  for (const auto& [size, rounds] : {std::pair(2, 1), std::pair(4, 2), std::pair(8, 3)}) {
    for (const char* name : {"decentralized_sgd", "stochastic_gradient_push"}) {
      const auto values = values_without_gradients(named(name, {{"topology", "exponential"}}), size, rounds);
      EXPECT_GT(spread_of(values[static_cast<size_t>(rounds) - 1]).distance, 0.4) << name << ", " << size;
      EXPECT_EQ(spread_of(values.back()).distance, 0) << name << ", " << size;
      EXPECT_EQ(spread_of(values.back()).mean, spread_of(values.front()).mean) << name << ", " << size;
    }
  }
}

}  // namespace
}  // namespace mlbench::optim
