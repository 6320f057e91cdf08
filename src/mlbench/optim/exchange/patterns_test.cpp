// Local steps, outer steps and gossip; and every optimizer of the table on several ranks.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <numeric>
#include <sstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/test_layout.h"
#include "mlbench/optim/exchange/neighbours.h"
#include "mlbench/optim/exchange/steps_test.h"
#include "mlbench/optim/factory.h"
#include "mlbench/optim/test_ranks.h"

namespace mlbench::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;
using ::testing::ThrowsMessage;

// Ranks go by 1 and 2, and meet at the mean behind every second step.
TEST(LocalSgd, FourStepsComputedByHand) {
  const auto weights = weights_behind_steps(named("local_sgd", {{"every", 2}}), 2, 4);
  EXPECT_THAT(weights[0], ElementsAre(-1, -3, -4, -6));
  EXPECT_THAT(weights[1], ElementsAre(-2, -3, -5, -6));
}

TEST(LocalSgd, BeforeItsStartGradientsAreSummed) {
  const auto weights = weights_behind_steps(named("local_sgd", {{"every", 2}, {"start_step", 2}}), 2, 4);
  EXPECT_THAT(weights[0], ElementsAre(-1.5, -3, -4, -6));
  EXPECT_THAT(weights[1], ElementsAre(-1.5, -3, -5, -6));
}

// Whatever its share of the step, a rank goes by the mean of its own samples; without any, it stays.
TEST(LocalSgd, SharesAreUndone) {
  const auto weights = weights_behind_steps(named("local_sgd", {{"every", 3}}), 3, 2, {0.75, 0.25, 0});
  EXPECT_THAT(weights[0], ElementsAre(-1, -2));
  EXPECT_THAT(weights[1], ElementsAre(-2, -4));
  EXPECT_THAT(weights[2], ElementsAre(0, 0));
}

// Means of the differences: 3 each time. With momentum 0.5 and outer rate 0.5: b = 3, 4.5; x = -1.5, -3.75. With
// Nesterov d + b / 2 = 4.5, 5.25: x = -2.25, -4.875.
TEST(LocalSgd, OuterStepsComputedByHand) {
  const Json options = {{"every", 2}, {"outer_lr", 0.5}, {"outer_momentum", 0.5}};
  EXPECT_THAT(weights_behind_steps(named("local_sgd", options), 2, 4)[1], ElementsAre(-2, -1.5, -3.5, -3.75));
  Json nesterov = options;
  nesterov["outer_nesterov"] = true;
  EXPECT_THAT(weights_behind_steps(named("local_sgd", nesterov), 2, 4)[1], ElementsAre(-2, -2.25, -4.25, -4.875));
  // One rank has outer steps, too: it is the same algorithm. d = 2, 2; b = 2, 3.
  EXPECT_THAT(weights_behind_steps(named("local_sgd", options), 1, 4)[0], ElementsAre(-1, -1, -2, -2.5));
  nesterov["outer_momentum"] = 0;
  expect_refusal(named("local_sgd", nesterov), "outer_nesterov needs an outer_momentum above 0");
}

// Two parameters, of which a rank sends one behind every second step. Halves of differences: 4 and 3 on rank 0, 1 and 2
// on rank 1. With half of what was not sent, rank 0 chooses among (4, 3), (4, 3 + 1.5) and (4 + 2, 3). Rank 1 always
// chooses the second one, of (1, 2), (1.5, 2) and (1.75, 2).
TEST(SparseLoco, ThreeRoundsComputedByHand) {
  const FlatLayout layout = layout_with_buffer({2});
  const Json options = {{"rule", "sgd"}, {"every", 2}, {"share", 0.5}, {"error_decay", 0.5}};
  on_ranks(2, [&](int rank, comm::Communicator& comm) {
    const auto optimizer = make_optimizer(named("sparse_loco", options), layout, comm);
    FlatTensors tensors{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
    std::vector<float> first, second;
    for (int step = 0; step < 6; ++step) {
      tensors.gradients[0] = rank == 0 ? 4 * 0.5 : 1 * 0.5;
      tensors.gradients[1] = rank == 0 ? 3 * 0.5 : 2 * 0.5;
      optimizer->begin({step, 1, 0.5}, tensors);
      optimizer->finish();
      optimizer->step(tensors, 1);
      EXPECT_EQ(optimizer->after_update(tensors), step % 2 == 0 ? 0U : 8U) << "an index and a value";
      if (step % 2 == 0) continue;
      first.push_back(tensors.parameters[0].item<float>());
      second.push_back(tensors.parameters[1].item<float>());
    }
    EXPECT_THAT(first, ElementsAre(-4, -4, -10));
    EXPECT_THAT(second, ElementsAre(-2, -2 - 4.5 - 2, -8.5 - 2));
  });
  expect_refusal(named("sparse_loco", {{"error_feedback", false}, {"error_decay", 0.9}}),
                 "error_decay with error_feedback false");
}

// ---- weights are averaged instead of gradients (MLBench's agg_grad = False): local with every = 1 -------------------

// Returns weights[rank][step] of a model with one weight, which each step sends, at the rate 0.5.
std::vector<std::vector<float>> weights_with(const spec::OptimizerSpec& spec,
                                             const std::vector<std::vector<double>>& gradients,
                                             const std::vector<double>& shares) {
  std::vector<std::vector<float>> weights(gradients.size());
  const FlatLayout layout = layout_with_buffer({1});
  on_ranks(static_cast<int>(gradients.size()), [&](int number, comm::Communicator& comm) {
    const auto rank = static_cast<size_t>(number);
    const auto optimizer = make_optimizer(spec, layout, comm);
    FlatTensors tensors{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
    for (size_t step = 0; step < gradients[rank].size(); ++step) {
      tensors.gradients.zero_();
      tensors.gradients[0] = shares[rank] * gradients[rank][step];
      const uint64_t bytes =
          step_with(*optimizer, tensors, tensors.gradients, {static_cast<int64_t>(step), 0.5, shares[rank]});
      EXPECT_EQ(bytes, sizeof(float));
      weights[rank].push_back(tensors.parameters[0].item<float>());
    }
  });
  return weights;
}

// The means 2, 0.5 and -1 of the ranks' gradients move a weight to -1, -1.25 and -0.75. With momentum 0.5 they are
// summed to 2, 1.5 and -0.25: -1, -1.75 and -1.625. SGD is linear, so the mean of the ranks' steps is the step of the
// mean.
TEST(WeightAggregation, OfSgdAreThoseOfAveragedGradients) {
  const std::vector<std::vector<double>> gradients = {{1, 2, 0}, {3, -1, -2}};
  for (const auto& [name, options] : {std::pair{"centralized_sgd", Json::object()}, {"local_sgd", {{"every", 1}}}}) {
    SCOPED_TRACE(name);
    for (const auto& of_rank : weights_with(named(name, options), gradients, {0.5, 0.5})) {
      EXPECT_THAT(of_rank, ElementsAre(-1, -1.25, -0.75));
    }
    Json momentum = options;
    momentum["momentum"] = 0.5;
    for (const auto& of_rank : weights_with(named(name, momentum), gradients, {0.5, 0.5})) {
      EXPECT_THAT(of_rank, ElementsAre(-1, -1.75, -1.625));
    }
  }
}

// Adam steps by the rate times the sign of a constant gradient. The ranks' steps -0.5 and 0.5 cancel, while the mean
// gradient -1 moves by 0.5 in each step.
TEST(WeightAggregation, OfAdamAreOthersThanThoseOfAveragedGradients) {
  const std::vector<std::vector<double>> gradients = {{1, 1, 1}, {-3, -3, -3}};
  const auto near = [](float value) { return FloatNear(value, 1e-5F); };
  for (const auto& of_rank : weights_with(named("centralized_adam", Json::object()), gradients, {0.5, 0.5})) {
    EXPECT_THAT(of_rank, ElementsAre(near(0.5), near(1), near(1.5)));
  }
  const Json averaged = {{"rule", "adam"}, {"every", 1}};
  for (const auto& of_rank : weights_with(named("local_sgd", averaged), gradients, {0.5, 0.5})) {
    EXPECT_THAT(of_rank, ElementsAre(near(0), near(0), near(0)));
  }
}

// Ranks count alike, whatever their shares of the batch are: the mean of the gradients 1 and 3 of ranks is 2, and that
// of samples 2.5.
TEST(WeightAggregation, AreByWorld) {
  const std::vector<std::vector<double>> gradients = {{1}, {3}};
  EXPECT_THAT(weights_with(named("local_sgd", {{"every", 1}}), gradients, {0.25, 0.75})[0], ElementsAre(-1));
  EXPECT_THAT(weights_with(named("centralized_sgd", Json::object()), gradients, {0.25, 0.75})[0], ElementsAre(-1.25));
}

// ---- gossip ---------------------------------------------------------------------------------------------------------

TEST(Gossip, NeighboursOfEachTopology) {
  EXPECT_THAT(neighbours_of(Topology::kRing, 0, 1, 0), IsEmpty());
  EXPECT_THAT(neighbours_of(Topology::kRing, 0, 2, 0), ElementsAre(1));
  EXPECT_THAT(neighbours_of(Topology::kRing, 0, 5, 0), ElementsAre(1, 4));
  EXPECT_THAT(neighbours_of(Topology::kTorus, 0, 6, 0), ElementsAre(1, 2, 3)) << "2 x 3: above is below";
  EXPECT_THAT(neighbours_of(Topology::kTorus, 4, 9, 0), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(neighbours_of(Topology::kComplete, 1, 3, 0), ElementsAre(0, 2));
  EXPECT_THAT(neighbours_of(Topology::kExponential, 5, 8, 0), ElementsAre(4));
  EXPECT_THAT(neighbours_of(Topology::kExponential, 5, 8, 1), ElementsAre(7));
  EXPECT_THAT(neighbours_of(Topology::kExponential, 5, 8, 2), ElementsAre(1));
  EXPECT_THAT(neighbours_of(Topology::kExponential, 5, 8, 3), ElementsAre(4));
  EXPECT_THAT([] { neighbours_of(Topology::kExponential, 0, 6, 0); },
              ThrowsMessage<UserError>(HasSubstr("expected a power of two")));
}

// Whoever has a neighbour is that one's neighbour, with as many of its own: rows and columns of the weights sum to 1.
TEST(Gossip, WeightsAreDoublyStochastic) {
  for (const Topology topology : {Topology::kRing, Topology::kTorus, Topology::kComplete, Topology::kExponential}) {
    for (int size = 1; size <= 16; ++size) {
      if (topology == Topology::kExponential && (size & (size - 1)) != 0) continue;
      for (int64_t round = 0; round < 4; ++round) {
        for (int rank = 0; rank < size; ++rank) {
          const std::vector<int> own = neighbours_of(topology, rank, size, round);
          for (const int peer : own) {
            const std::vector<int> others = neighbours_of(topology, peer, size, round);
            EXPECT_THAT(others, testing::Contains(rank));
            EXPECT_EQ(others.size(), own.size());
          }
        }
      }
    }
  }
}

// Gradients 1, 2, 3: means of all three, then of neighbours in a ring of four.
TEST(Gossip, StepsComputedByHand) {
  const auto three = weights_behind_steps(named("decentralized_sgd", Json::object()), 3, 2);
  for (const auto& weights : three) EXPECT_THAT(weights, Pointwise(FloatEq(), {-2.0F, -4.0F}));
  const auto four = weights_behind_steps(named("decentralized_sgd", Json::object()), 4, 1);
  EXPECT_THAT(four[0][0], FloatEq(-(1 + 2 + 4) / 3.0F));
  EXPECT_THAT(four[2][0], FloatEq(-(2 + 3 + 4) / 3.0F));
  const auto pairs = weights_behind_steps(named("decentralized_sgd", {{"topology", "exponential"}}), 4, 2);
  EXPECT_THAT(pairs[0], ElementsAre(-1.5, -4.5)) << "(1 + 2) / 2, then (1.5 + 1 + 3.5 + 3) / 2";
}

TEST(Gossip, RefusesCoders) {
  expect_refusal(named("decentralized_sgd", {{"compression", "qsgd"}}), "compression 'qsgd' with the pattern gossip");
}

// ---- choco ----------------------------------------------------------------------------------------------------------

// The parameters of `size` ranks that begin at 0, then step by their own rank, after each of `rounds` exchanges without
// a gradient.
std::vector<std::vector<double>> moved(const Json& options, int size, int rounds) {
  std::vector<std::vector<double>> values(static_cast<size_t>(rounds) + 1,
                                          std::vector<double>(static_cast<size_t>(size)));
  on_ranks(size, [&](int rank, comm::Communicator& comm) {
    const FlatLayout layout = layout_with_buffer({4});
    const auto optimizer = make_optimizer(named("choco_sgd", options), layout, comm);
    FlatTensors tensors{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
    for (int round = 0; round <= rounds; ++round) {
      tensors.gradients.narrow(0, 0, 4).fill_(round == 0 ? -rank / static_cast<double>(size) : 0);
      step_with(*optimizer, tensors, tensors.gradients, {round, 1, 1.0 / size});
      values[static_cast<size_t>(round)][static_cast<size_t>(rank)] = tensors.parameters[0].item<float>();
    }
  });
  return values;
}

// Two ranks at 0 and 1 behind their steps. All elements are sent: h = x, s = 1/2, so that x moves by half the way at
// the rate 0.5: 0.25 and 0.75. Then h = x again.
TEST(Choco, TwoStepsComputedByHand) {
  const Json options = {{"compression", "top_k"}, {"share", 1}, {"error_feedback", false}, {"consensus_rate", 0.5}};
  const auto values = moved(options, 2, 1);
  EXPECT_THAT(values[0], testing::ElementsAre(0.25, 0.75));
  EXPECT_THAT(values[1], testing::ElementsAre(0.375, 0.625));
}

TEST(Choco, AtTheRateOneWithoutCompressionItIsGossip) {
  const Json options = {{"compression", "top_k"}, {"share", 1}, {"error_feedback", false}, {"consensus_rate", 1}};
  const auto values = moved(options, 4, 3);
  std::vector<double> expected = {0, 1, 2, 3};
  for (const std::vector<double>& round : values) {
    std::vector<double> next;
    for (size_t rank = 0; rank < 4; ++rank) {
      next.push_back((expected[(rank + 3) % 4] + expected[rank] + expected[(rank + 1) % 4]) / 3);
    }
    expected = next;
    for (size_t rank = 0; rank < 4; ++rank) EXPECT_NEAR(round[rank], expected[rank], 1e-5);
  }
}

// The mean stays, and ranks come together though only one element of four travels at a time.
TEST(Choco, RanksAgreeInTheEndOnTheMean) {
  const Json options = {{"compression", "top_k"}, {"share", 0.25}, {"error_feedback", false}, {"consensus_rate", 0.3}};
  const auto values = moved(options, 4, 120);
  for (const std::vector<double>& round : values) {
    EXPECT_NEAR((round[0] + round[1] + round[2] + round[3]) / 4, 1.5, 1e-4);
  }
  for (const double value : values.back()) EXPECT_NEAR(value, 1.5, 1e-2);
  EXPECT_GT(values[0][3] - values[0][0], 1) << "not at once";
}

TEST(Choco, RefusesWhatNeighboursCannotDecode) {
  expect_refusal(named("choco_sgd", {{"compression", "ef_sign"}}), "compression 'ef_sign' with the pattern choco");
  expect_refusal(named("choco_sgd", {{"coding", "elias"}}), "compression 'qsgd' with the pattern choco");
  expect_refusal(named("choco_sgd", {{"compression", "top_k"}}), "error_feedback=false");
  expect_refusal(named("choco_sgd", {{"topology", "exponential"}}), "whose neighbours are always the same");
}

// ---- sharded --------------------------------------------------------------------------------------------------------

// Each rank has the state of its own part, and all have the weights that one rank has with the whole.
TEST(Sharded, ComputesWhatCentralizedDoesWithAPartOfTheState) {
  const FlatLayout layout = layout_with_buffer({3, 24, 5});
  for (const char* rule : {"sgd", "adam", "adamw", "lion"}) {
    for (const int size : {2, 3, 5}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks", rule, size));
      std::vector<int64_t> elements(static_cast<size_t>(size));
      on_ranks(size, [&](int rank, comm::Communicator& comm) {
        Json options = {{"rule", rule}};
        if (rule == std::string("sgd")) options["momentum"] = 0.9;
        const auto centralized = make_optimizer(named("centralized_sgd", options), layout, comm);
        options["pattern"] = "sharded";
        const auto sharded = make_optimizer(named("centralized_sgd", options), layout, comm);
        FlatTensors expected{at::ones({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
        FlatTensors tensors{expected.parameters.clone(), expected.gradients.clone()};
        for (int step = 0; step < 5; ++step) {
          for (FlatTensors* one : {&expected, &tensors}) {
            one->gradients.zero_();
            for (const FlatRange& range : layout.ranges) {
              if (range.trainable) {
                one->gradients.narrow(0, range.offset, range.count)
                    .copy_(at::arange(range.count) * 0.25 - rank - step);  // sums are exact in any order
              }
            }
            step_with(one == &expected ? *centralized : *sharded, *one, one->gradients, {step, 0.125, 1.0 / size});
          }
          EXPECT_TRUE(at::equal(tensors.parameters, expected.parameters)) << "rank " << rank << ", step " << step;
        }
        NamedState shared, own;
        sharded->export_state(shared);
        sharded->export_own_state(own);
        EXPECT_TRUE(shared.tensors.empty());
        for (const auto& [name, tensor] : own.tensors) elements[static_cast<size_t>(rank)] += tensor.shape.at(0);
      });
      const int64_t states = rule == std::string("adam") || rule == std::string("adamw") ? 2 : 1;
      EXPECT_EQ(std::accumulate(elements.begin(), elements.end(), int64_t{0}), states * layout.parameter_count());
    }
  }
}

TEST(Sharded, RefusesWhatNeedsTheWholeGradient) {
  const auto refused = [](const std::string& name, Json options) {
    options["pattern"] = "sharded";
    on_ranks(2, [&](int, comm::Communicator& comm) {
      EXPECT_THAT([&] { make_optimizer(named(name, options), layout_with_buffer({3}), comm); },
                  ThrowsMessage<UserError>(HasSubstr("have a part of the gradient each")));
    });
  };
  refused("lars", Json::object());
  refused("muon", Json::object());
  refused("dion", Json::object());
  refused("schedule_free_sgd", Json::object());
  refused("centralized_sgd", {{"clip_norm", 1}});
  refused("centralized_sgd", {{"averaging_patience", 1}});
  refused("centralized_sgd", {{"loss_scale", 4}});
  expect_refusal(named("centralized_sgd", {{"pattern", "sharded"}, {"compression", "half"}}),
                 "compression 'half' with the pattern sharded");
}

// ---- every row ------------------------------------------------------------------------------------------------------

struct Algorithm {
  std::string name;
  Json options;
  double lr = 0.02;
  bool on_path = false;  // on the custom graph 0-1-2-...
};

std::vector<Algorithm> algorithms() {
  std::vector<Algorithm> all;
  for (const Json& row : list_optimizers()) all.push_back({row["name"], Json::object()});
  for (Algorithm& one : all) {
    if (one.name == "lars") one = {"lars", {{"trust_coefficient", 0.1}}, 0.05};
    if (one.name == "lion") one = {"lion", {{"betas", {0.9, 0.9}}}, 0.002};
    if (one.name == "sign_sgd") one.lr = 0.002;
    if (one.name == "schedule_free_sgd") one.lr = 0.1;
    if (one.name == "sparse_loco") one.options = {{"every", 4}, {"share", 0.3}, {"error_decay", 0.95}};
  }
  all.push_back({"sparse_loco", {{"every", 4}, {"share", 0.3}, {"error_decay", 0.95}, {"chunk", 4}, {"bits", 2}}});
  all.push_back({"local_sgd", {{"every", 3}, {"start_step", 4}, {"momentum", 0.5}}});
  all.push_back({"diloco", {{"every", 4}, {"outer_lr", 0.7}, {"outer_momentum", 0.5}, {"outer_nesterov", true}}});
  all.push_back({"local_sgd", {{"every", 4}, {"compression", "top_k"}, {"share", 0.3}}});
  all.push_back({"streaming_diloco", {{"rule", "sgd"}, {"compression", "none"}, {"delay", 3}, {"overlap", true}}});
  all.push_back({"streaming_diloco", {{"every", 4}, {"fragments", 2}, {"compression", "top_k"}, {"share", 0.3}}});
  all.push_back({"local_sgd", {{"every", 4}, {"compression", "power_sgd"}, {"min_compression", 1}}});
  all.push_back({"adamw", {{"pattern", "sharded"}}});
  all.push_back({"muon", {{"orthogonalise", "owner"}}});
  all.push_back({"muon", {{"pattern", "sharded"}, {"orthogonalise", "gather"}}});
  all.push_back({"muon", {{"pattern", "sharded"}, {"orthogonalise", "all_to_all"}}});
  all.push_back({"centralized_sgd", {{"pattern", "sharded"}, {"momentum", 0.5}}});
  all.push_back({"centralized_sgd", {{"pattern", "server"}, {"momentum", 0.5}}});
  all.push_back({"adamw", {{"pattern", "server"}, {"servers", 2}}});
  all.push_back({"centralized_sgd", {{"pattern", "async_server"}, {"momentum", 0.5}}});
  all.push_back({"adamw", {{"pattern", "async_server"}, {"staleness", 1}}});
  all.push_back({"adamw", {{"compression", "power_sgd"}, {"min_compression", 1}}});
  all.push_back({"centralized_sgd", {{"compression", "power_sgd"}, {"batched", true}}});
  all.push_back({"acp_sgd", {{"min_compression", 1}}});
  for (const char* coder : {"int8", "fp8", "fp4", "ef_sign", "one_bit", "natural", "qsgd"}) {
    all.push_back({"centralized_sgd", {{"pattern", "quantised"}, {"compression", coder}}});
  }
  all.push_back({"local_sgd", {{"every", 4}, {"compression", "acp_sgd"}, {"min_compression", 1}}});
  all.push_back({"qsgd", {{"coding", "elias"}}});
  all.push_back({"decentralized_sgd", {{"topology", "complete"}, {"every", 2}}});
  all.push_back({"decentralized_sgd", Json::object(), 0.02, true});
  all.push_back({"choco_sgd", Json::object(), 0.02, true});
  all.push_back({"stochastic_gradient_push", {{"momentum", 0.5}, {"every", 2}}, 0.01, true});
  for (const Json& row : compress::list_coders()) {
    const std::string coder = row["name"];
    if (coder == "sign_vote") continue;
    all.push_back({"centralized_sgd", {{"compression", coder}}});
    if (coder == "ef21") all.back().options["share"] = 0.3;
    if (coder == "terngrad") all.back().options["clip_sigma"] = 0;  // these gradients differ little beside their mean
    if (coder == "deep_gradient") all.back() = {"centralized_sgd", {{"compression", coder}, {"share", 0.3}}, 0.005};
  }
  return all;
}

spec::OptimizerSpec spec_of(const Algorithm& algorithm, int size) {
  Json options = algorithm.options;
  if (algorithm.on_path) {
    options["topology"] = "custom";
    options["weights"] = "1";
  }
  if (algorithm.on_path && size > 1) {
    std::string edges;
    for (int rank = 1; rank < size; ++rank) edges += fmt::format("{}{}-{}", rank > 1 ? "," : "", rank - 1, rank);
    options.erase("weights");
    options["edges"] = edges;
  }
  return named(algorithm.name, options);
}

class EveryAlgorithm : public testing::TestWithParam<std::tuple<Algorithm, int>> {};

// "1,2,3", or what the variable MLBENCH_TEST_RANKS says.
std::vector<int> rank_counts() {
  std::vector<int> counts;
  std::istringstream words(environment_variable("MLBENCH_TEST_RANKS").value_or("1,2,3"));
  for (std::string word; std::getline(words, word, ',');) counts.push_back(std::stoi(word));
  return counts;
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryAlgorithm,
                         testing::Combine(testing::ValuesIn(algorithms()), testing::ValuesIn(rank_counts())),
                         [](const auto& info) {
                           return fmt::format("{}_{}", std::get<0>(info.param).name, info.index);
                         });

FlatTensors ones(const FlatLayout& layout) {
  FlatTensors tensors{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
  for (const FlatRange& range : layout.ranges) {
    if (range.trainable) tensors.parameters.narrow(0, range.offset, range.count).fill_(1);
  }
  return tensors;
}

FlatLayout layout_with_matrix() {
  FlatLayout layout = layout_with_buffer({3, 24, 5});
  layout.ranges[1].shape = {4, 6};
  for (const size_t vector : {size_t{0}, size_t{2}}) layout.ranges[vector].use = TensorUse::kVector;
  return layout;
}

// f = mean over ranks of sum of c_i (p_i - t_ri)^2 / 2, where t_r differ a little: the ranks' own optima.
at::Tensor own_gradient(const FlatTensors& tensors, const FlatLayout& layout, int rank) {
  at::Tensor gradient = at::zeros({layout.parameter_elements});
  const at::Tensor curvature = at::linspace(0.5, 2, layout.parameter_elements);
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    const auto part = [&](const at::Tensor& flat) { return flat.narrow(0, range.offset, range.count); };
    part(gradient).copy_(part(curvature) * (part(tensors.parameters) - 0.01 * rank));
  }
  return gradient;
}

void step(Optimizer& optimizer, FlatTensors& tensors, const FlatLayout& layout, comm::Communicator& comm, int number,
          double lr) {
  const double share = 1.0 / comm.size();
  const at::Tensor gradient = own_gradient(tensors, layout, comm.rank()) * share;
  const uint64_t bytes = step_with(optimizer, tensors, gradient, {number, lr, share});
  EXPECT_EQ(bytes, optimizer.promise().bytes_per_step.value_or(bytes)) << "step " << number;
}

// From ones it comes near the optimum; ranks hold the same bits where they are to.
TEST_P(EveryAlgorithm, DescendsOnAQuadraticOfSeveralRanks) {
  const auto& [algorithm, size] = GetParam();
  const FlatLayout layout = layout_with_matrix();
  std::vector<at::Tensor> results(static_cast<size_t>(size));
  bool replicated = false;
  on_ranks(size, [&, &algorithm = algorithm, size = size](int rank, comm::Communicator& comm) {
    const auto optimizer = make_optimizer(spec_of(algorithm, size), layout, comm);
    FlatTensors tensors = ones(layout);
    for (int number = 0; number < 600; ++number) step(*optimizer, tensors, layout, comm, number, algorithm.lr);
    optimizer->settle(tensors);
    results[static_cast<size_t>(rank)] = tensors.parameters;
    if (rank == 0) replicated = optimizer->promise().replicated;
  });
  for (const at::Tensor& result : results) {
    if (replicated) {
      EXPECT_TRUE(same_bits(result, results.front()));
    }
    for (const FlatRange& range : layout.ranges) {
      if (!range.trainable) continue;
      const double farthest = result.narrow(0, range.offset, range.count).abs().max().item<double>();
      EXPECT_LT(farthest, 0.12) << range.name << " of " << algorithm.name << " " << algorithm.options.dump();
    }
  }
}

TEST_P(EveryAlgorithm, ResumesIdentically) {
  const auto& [algorithm, size] = GetParam();
  const FlatLayout layout = layout_with_matrix();
  on_ranks(size, [&, &algorithm = algorithm, size = size](int rank, comm::Communicator& comm) {
    const auto make = [&] { return make_optimizer(spec_of(algorithm, size), layout, comm); };
    const auto whole = make();
    if (!whole->promise().deterministic) return;
    auto parts = make();
    FlatTensors expected = ones(layout), resumed = ones(layout);
    for (int number = 0; number < 12; ++number) {
      if (number == 0 || number == 3 || number == 5) {
        NamedState shared, own;
        parts->swap_average(resumed);
        parts->export_state(shared);
        parts->export_own_state(own);
        parts = make();
        parts->import_state(shared);
        parts->import_own_state(own);
        parts->swap_average(resumed);
      }
      step(*whole, expected, layout, comm, number, algorithm.lr);
      step(*parts, resumed, layout, comm, number, algorithm.lr);
      for (const FlatRange& range : layout.ranges) {
        if (!range.trainable) continue;
        EXPECT_TRUE(same_bits(resumed.parameters.narrow(0, range.offset, range.count),
                              expected.parameters.narrow(0, range.offset, range.count)))
            << "rank " << rank << ", step " << number << ", " << range.name;
      }
    }
  });
}

}  // namespace
}  // namespace mlbench::optim
