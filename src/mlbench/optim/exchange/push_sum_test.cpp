// Stochastic gradient push: steps computed by hand, what stays the same, and resumption.

#include "mlbench/optim/exchange/push_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/optim/exchange/steps_test.h"

namespace mlbench::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::Pointwise;

const Json kOneWay = {{"topology", "custom"}, {"edges", "0>1, 0>2, 1-2, 2>0"}};
const Json kUneven = {{"topology", "custom"}, {"weights", "0.5 0.25; 0.5 0.75"}};

double push_sum_weight(const Optimizer& optimizer) {
  NamedState state;
  optimizer.export_own_state(state);
  return state.real("exchange/push_sum_weight");
}

// What ranks have behind each step with the gradient z - target of their rank, from 0; and the weights w at the end.
struct Course {
  std::vector<std::vector<float>> values;
  std::vector<double> weights;
};
Course course_of(const Json& options, const std::vector<double>& targets, int steps, double lr) {
  Course course;
  course.values.resize(targets.size());
  course.weights.resize(targets.size());
  const FlatLayout layout = layout_with_buffer({1});
  const auto size = static_cast<int>(targets.size());
  on_ranks(size, [&](int rank, comm::Communicator& comm) {
    const auto number = static_cast<size_t>(rank);
    const auto optimizer = make_optimizer(named("stochastic_gradient_push", options), layout, comm);
    FlatTensors tensors{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
    for (int step = 0; step < steps; ++step) {
      tensors.gradients.zero_();
      tensors.gradients[0] = (tensors.parameters[0].item<float>() - targets[number]) / size;
      step_with(*optimizer, tensors, tensors.gradients, {step, lr, 1.0 / size});
      course.values[number].push_back(tensors.parameters[0].item<float>());
    }
    course.weights[number] = push_sum_weight(*optimizer);
  });
  return course;
}

TEST(PushSum, StepsOfOnePeerComputedByHand) {
  const auto two = weights_behind_steps(named("stochastic_gradient_push", Json::object()), 2, 3);
  for (const auto& weights : two) EXPECT_THAT(weights, ElementsAre(-1.5, -3, -4.5));
  // Rank i takes from i - 1, then from i - 2, then from i - 1 again.
  const auto three = weights_behind_steps(named("stochastic_gradient_push", Json::object()), 3, 3);
  EXPECT_THAT(three[0], ElementsAre(-2, -3.25, -5.75)) << "-(1 + 3) / 2, -(3 + 3.5) / 2, -(4.25 + 7.25) / 2";
  EXPECT_THAT(three[1], ElementsAre(-1.5, -4.5, -5.375)) << "-(2 + 1) / 2, -(3.5 + 5.5) / 2, -(6.5 + 4.25) / 2";
  EXPECT_THAT(three[2], ElementsAre(-2.5, -4.25, -6.875)) << "-(3 + 2) / 2, -(5.5 + 3) / 2, -(7.25 + 6.5) / 2";
}

// P = (2 0 2; 2 3 2; 2 3 2) / 6. Behind the steps rank 0 has x = -8/6, -46/18, -406/108 and w = 4/6, 11/18, 130/216;
// ranks 1 and 2 have -14/6, -85/18, -769/108 and 7/6, 43/36, 259/216.
TEST(PushSum, StepsOnADirectedGraphComputedByHand) {
  const auto weights = weights_behind_steps(named("stochastic_gradient_push", kOneWay), 3, 3);
  EXPECT_THAT(weights[0], Pointwise(FloatEq(), {-2.0F, -46 / 11.0F, -812 / 130.0F}));
  for (const size_t rank : {size_t{1}, size_t{2}}) {
    EXPECT_THAT(weights[rank], Pointwise(FloatEq(), {-2.0F, -170 / 43.0F, -1538 / 259.0F}));
  }
}

// Gradients are those at z, not at x: at x the second step would begin with 0.25 - 2 where it has 1/3 - 2. With the
// rate 0.5 and P = (2 1; 2 3) / 4:
//   step   x + u                    x                       w                    z
//   1      1          -1            0.25       -0.25        0.75      1.25       1/3        -0.2
//   2      1.0833333  -1.15         0.2541667  -0.3208333   0.6875    1.3125     0.3696970  -0.2444444
//   3      1.0693182  -1.1986111    0.2350063  -0.3642992   0.671875  1.328125   0.3497768  -0.2742959
TEST(PushSum, GradientsAreComputedAtWhatIsWithoutBias) {
  const Course course = course_of(kUneven, {2, -2}, 3, 0.5);
  EXPECT_THAT(course.values[0], Pointwise(testing::FloatNear(1e-6F), {1 / 3.0F, 0.3696970F, 0.3497768F}));
  EXPECT_THAT(course.values[1], Pointwise(testing::FloatNear(1e-6F), {-0.2F, -0.2444444F, -0.2742959F}));
  EXPECT_THAT(course.weights, ElementsAre(0.671875, 1.328125));
}

// A step without a message takes 1 or 2 from x, so that z goes by 1 / w of that.
TEST(PushSum, StepsWithoutAMessageMoveX) {
  Json options = kUneven;
  options["every"] = 2;
  const auto weights = weights_behind_steps(named("stochastic_gradient_push", options), 2, 3);
  // The second step's message leaves x = -2, -4 as they are, with w = 0.75, 1.25. The third step makes x = -3, -6.
  EXPECT_THAT(weights[0], Pointwise(FloatEq(), {-1.0F, -2 / 0.75F, -3 / 0.75F}));
  EXPECT_THAT(weights[1], Pointwise(FloatEq(), {-2.0F, -4 / 1.25F, -6 / 1.25F}));
}

// Without gradients: the sums of w and of w z stay, and all z become the mean though rows do not sum to 1.
TEST(PushSum, SumsStayAndRanksAgreeOnTheMean) {
  const std::map<int, Json> graphs = {{2, kUneven}, {3, kOneWay}, {4, {{"topology", "torus"}}}, {5, Json::object()}};
  for (const auto& [ranks, options] : graphs) {
    const int size = ranks;
    const spec::OptimizerSpec spec = named("stochastic_gradient_push", options);
    std::vector<double> values(static_cast<size_t>(size)), weights(static_cast<size_t>(size));
    on_ranks(size, [&](int rank, comm::Communicator& comm) {
      const auto number = static_cast<size_t>(rank);
      const FlatLayout layout = layout_with_buffer({1});
      const auto optimizer = make_optimizer(spec, layout, comm);
      FlatTensors tensors{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
      tensors.parameters[0] = std::pow(rank, 2);
      for (int round = 0; round < 100; ++round) {
        optimizer->begin({round, 1, 1.0 / size}, tensors);
        optimizer->finish();
        optimizer->after_update(tensors);
        values[number] = tensors.parameters[0].item<float>();
        weights[number] = push_sum_weight(*optimizer);
        comm.barrier();
        double sum = 0, weighted = 0, all = 0;
        for (int other = 0; other < size; ++other) {
          sum += weights[static_cast<size_t>(other)];
          weighted += weights[static_cast<size_t>(other)] * values[static_cast<size_t>(other)];
          all += std::pow(other, 2);
        }
        EXPECT_NEAR(sum, size, 1e-12) << size << " ranks, round " << round;
        EXPECT_NEAR(weighted, all, all * 1e-5) << size << " ranks, round " << round;
        comm.barrier();
      }
      double mean = 0;
      for (int other = 0; other < size; ++other) mean += std::pow(other, 2) / size;
      EXPECT_NEAR(values[number], mean, 1e-4) << size << " ranks, rank " << rank;
    });
  }
}

TEST(PushSum, BytesAreThoseOfWeightsAndTheirWeight) {
  const FlatLayout layout = layout_with_buffer({3, 5});
  on_ranks(3, [&](int rank, comm::Communicator& comm) {
    const auto optimizer = make_optimizer(named("stochastic_gradient_push", kOneWay), layout, comm);
    FlatTensors tensors{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
    optimizer->begin({0, 1, 1 / 3.0}, tensors);
    optimizer->finish();
    const uint64_t bytes = (rank == 1 ? 1U : 2U) * (8 * sizeof(float) + 8);
    EXPECT_EQ(optimizer->after_update(tensors), bytes);
    EXPECT_EQ(optimizer->promise().bytes_per_step, bytes);
  });
}

TEST(PushSum, ResumesIdenticallyWithUnevenWeights) {
  const FlatLayout layout = layout_with_buffer({3, 24});
  on_ranks(3, [&](int rank, comm::Communicator& comm) {
    Json options = kOneWay;
    options["every"] = 2;
    options["momentum"] = 0.5;
    const auto make = [&] { return make_optimizer(named("stochastic_gradient_push", options), layout, comm); };
    const auto whole = make();
    auto parts = make();
    FlatTensors expected{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
    FlatTensors resumed{expected.parameters.clone(), expected.gradients.clone()};
    for (int number = 0; number < 8; ++number) {
      if (number == 3 || number == 4) {
        NamedState own;
        parts->export_own_state(own);
        parts = make();
        parts->import_own_state(own);
      }
      for (FlatTensors* tensors : {&expected, &resumed}) {
        Optimizer& optimizer = tensors == &expected ? *whole : *parts;
        step_with(optimizer, *tensors, (tensors->parameters - rank) * 0.3, {number, 0.1, 1 / 3.0});
      }
      EXPECT_TRUE(same_bits(resumed.parameters.narrow(0, 0, 3), expected.parameters.narrow(0, 0, 3))) << number;
      EXPECT_TRUE(same_bits(resumed.parameters.narrow(0, 16, 24), expected.parameters.narrow(0, 16, 24))) << number;
    }
    if (rank == 0) {
      EXPECT_LT(push_sum_weight(*whole), 0.7) << "weights are uneven";
    }
  });
}

TEST(PushSum, RefusesCodersAndRowsThatLoseValues) {
  expect_refusal(named("stochastic_gradient_push", {{"compression", "qsgd"}}),
                 "compression 'qsgd' with the pattern push_sum");
  expect_refusal(named("stochastic_gradient_push", {{"topology", "custom"}, {"weights", "0.5"}}),
                 "column 0 of weights sums to 0.5; expected 1");
}

}  // namespace
}  // namespace mlbench::optim
