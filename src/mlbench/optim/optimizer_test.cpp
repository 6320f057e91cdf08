#include "mlbench/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/optim/factory.h"
#include "mlbench/optim/rules/sgd_kernel.h"

namespace mlbench::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::chrono::seconds kTimeout{20};

// Two tensors with padding between them.
const FlatLayout kLayout{.ranges = {{"a", {2}, 0, 2, true}, {"b", {3, 5}, 16, 15, true}, {"mean", {4}, 0, 4, false}},
                         .parameter_elements = 32,
                         .buffer_elements = 16};

FlatTensors tensors_of(float parameter, float gradient) {
  FlatTensors tensors{at::zeros({32}), at::zeros({32})};
  for (const auto& [offset, count] : {std::pair{0, 2}, {16, 15}}) {
    tensors.parameters.narrow(0, offset, count).fill_(parameter);
    tensors.gradients.narrow(0, offset, count).fill_(gradient);
  }
  return tensors;
}

spec::OptimizerSpec sgd(Json options) {
  spec::OptimizerSpec spec;
  spec.name = "centralized_sgd";
  spec.options = std::move(options);
  return spec;
}

std::unique_ptr<comm::Communicator> alone() { return std::move(comm::make_in_process_group(1, kTimeout).front()); }

// Parameter after each of three steps with gradients 1, 2, -1, from 1, at the given rates.
std::vector<float> three_steps(const Json& options, std::array<double, 3> lr = {0.5, 0.5, 0.5}) {
  const auto comm = alone();
  const auto optimizer = make_optimizer(sgd(options), kLayout, *comm);
  FlatTensors tensors = tensors_of(1, 0);
  std::vector<float> values;
  const float gradients[] = {1, 2, -1};
  for (size_t i = 0; i < 3; ++i) {
    tensors.gradients = tensors_of(0, gradients[i]).gradients;
    EXPECT_EQ(optimizer->aggregate(tensors), 0U);
    optimizer->step(tensors, lr[i]);
    values.push_back(tensors.parameters[16].item<float>());
    EXPECT_EQ(tensors.parameters[30].item<float>(), values.back());
    EXPECT_EQ(tensors.parameters[31].item<float>(), 0) << "padding";
  }
  return values;
}

TEST(CentralizedSgd, ThreeStepsComputedByHand) {
  EXPECT_THAT(three_steps({}), ElementsAre(0.5F, -0.5F, 0.0F));
  // The rate is applied outside of the buffer.
  EXPECT_THAT(three_steps({}, {1, 0.25, 0.5}), ElementsAre(0.0F, -0.5F, 0.0F));
  // buffers 1, 0.5 + 2 = 2.5, 1.25 - 1 = 0.25
  EXPECT_THAT(three_steps({{"momentum", 0.5}}), ElementsAre(0.5F, -0.75F, -0.875F));
  // The first buffer is the whole gradient: 1, 0.5 + 0.25 * 2 = 1, 0.5 - 0.25 = 0.25
  EXPECT_THAT(three_steps({{"momentum", 0.5}, {"dampening", 0.75}}), ElementsAre(0.5F, 0.0F, -0.125F));
  // d + 0.5 * buffer: 1.5, 3.25, -0.875
  EXPECT_THAT(three_steps({{"momentum", 0.5}, {"nesterov", true}}), ElementsAre(0.25F, -1.375F, -0.9375F));
  // d = g + 0.5 p: 1.5, 2.125, -1.40625
  EXPECT_THAT(three_steps({{"weight_decay", 0.5}}), ElementsAre(0.25F, -0.8125F, -0.109375F));
  // buffers 1.5, 0.75 + 2.125 = 2.875, 1.4375 - 1.59375 = -0.15625
  EXPECT_THAT(three_steps({{"weight_decay", 0.5}, {"momentum", 0.5}}), ElementsAre(0.25F, -1.1875F, -1.109375F));
}

TEST(SgdKernel, EqualsItsReferenceToTheBit) {
  RandomSequence random(3);
  constexpr size_t kCount = 100003;
  std::vector<float> start(kCount), gradients(kCount), buffer(kCount);
  for (auto* values : {&start, &gradients, &buffer}) {
    for (float& value : *values) value = static_cast<float>(random.normal());
  }
  for (const float momentum : {0.0F, 0.9F}) {
    for (const float keep : {1.0F, 0.3F}) {
      for (const float weight_decay : {0.0F, 1e-4F}) {
        for (const bool nesterov : {false, true}) {
          for (const bool first : {false, true}) {
            const SgdCoefficients c{0.05F, momentum, keep, weight_decay, nesterov, first};
            std::vector<float> fast = start, plain = start, fast_buffer = buffer, plain_buffer = buffer;
            sgd_update(fast.data(), gradients.data(), fast_buffer.data(), kCount, c);
            sgd_update_reference(plain.data(), gradients.data(), plain_buffer.data(), kCount, c);
            EXPECT_EQ(std::memcmp(fast.data(), plain.data(), kCount * 4), 0)
                << momentum << " " << keep << " " << weight_decay << " " << nesterov << " " << first;
            EXPECT_EQ(std::memcmp(fast_buffer.data(), plain_buffer.data(), kCount * 4), 0);
          }
        }
      }
    }
  }
}

TEST(CentralizedSgd, DescendsOnAQuadratic) {
  // f = sum of c_i p_i^2 / 2; with momentum 0.9 and lr 0.05 every curvature up to 4 contracts.
  const at::Tensor curvature = at::linspace(0.5, 4, 32);
  const auto comm = alone();
  const auto optimizer = make_optimizer(sgd({{"momentum", 0.9}, {"nesterov", true}}), kLayout, *comm);
  FlatTensors tensors{at::ones({32}), at::zeros({32})};
  const auto value = [&] { return (curvature * tensors.parameters.square()).sum().item<double>() / 2; };
  const double before = value();
  for (int i = 0; i < 300; ++i) {
    tensors.gradients.copy_(curvature * tensors.parameters);
    optimizer->aggregate(tensors);
    optimizer->step(tensors, 0.05);
  }
  EXPECT_LT(value(), before * 1e-8);
}

TEST(CentralizedSgd, ResumesIdentically) {
  const Json options = {{"momentum", 0.9}, {"dampening", 0.5}, {"weight_decay", 0.01}};
  const auto comm = alone();
  const auto run = [](Optimizer& optimizer, FlatTensors& tensors, int first, int last) {
    for (int i = first; i < last; ++i) {
      tensors.gradients.copy_(at::arange(32, at::kFloat) * 0.1 - i);
      optimizer.aggregate(tensors);
      optimizer.step(tensors, 0.1);
    }
  };
  const auto whole = make_optimizer(sgd(options), kLayout, *comm);
  FlatTensors expected = tensors_of(1, 0);
  run(*whole, expected, 0, 7);

  for (const int at : {0, 3}) {  // before the first step, too: dampening must not touch the first buffer
    const auto first = make_optimizer(sgd(options), kLayout, *comm);
    FlatTensors tensors = tensors_of(1, 0);
    run(*first, tensors, 0, at);
    NamedState state;
    first->export_state(state);
    EXPECT_EQ(state.tensor("optimizer/momentum/b").shape, (std::vector<int64_t>{3, 5}));
    EXPECT_EQ(state.tensor("optimizer/momentum/b").bytes.size(), 60U);
    EXPECT_EQ(state.tensors.count("optimizer/momentum/mean"), 0U);
    const auto second = make_optimizer(sgd(options), kLayout, *comm);
    second->import_state(state);
    run(*second, tensors, at, 7);
    for (const auto& [offset, count] : {std::pair{0, 2}, {16, 15}}) {
      EXPECT_TRUE(at::equal(tensors.parameters.narrow(0, offset, count), expected.parameters.narrow(0, offset, count)));
    }
  }

  NamedState wrong;
  whole->export_state(wrong);
  wrong.tensors["optimizer/momentum/b"].shape = {15};
  EXPECT_THAT([&] { whole->import_state(wrong); }, ThrowsMessage<UserError>(HasSubstr("'optimizer/momentum/b'")));
}

// Runs `body(rank, communicator)` on ranks that are threads.
void on_ranks(int size, const std::function<void(int, comm::Communicator&)>& body) {
  auto group = comm::make_in_process_group(size, kTimeout);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] { body(rank, *group[static_cast<size_t>(rank)]); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CentralizedSgd, SameOnOneAndManyRanksAndCountsBytesWithoutPadding) {
  // Gradients are small integers over a power of two, so that sums are exact in any order.
  const auto gradient_of = [](int step, int part) {
    FlatTensors tensors = tensors_of(0, static_cast<float>((step + 1) * (part % 4 - 1)) / 4);
    return tensors.gradients;
  };
  for (const bool by_layer : {false, true}) {
    const Json options = {{"momentum", 0.5}, {"by_layer", by_layer}};
    const auto comm = alone();
    const auto single = make_optimizer(sgd(options), kLayout, *comm);
    FlatTensors expected = tensors_of(1, 0);
    for (int step = 0; step < 4; ++step) {
      expected.gradients.zero_();
      for (int part = 0; part < 4; ++part) expected.gradients += gradient_of(step, part);
      EXPECT_EQ(single->aggregate(expected), 0U);
      single->step(expected, 0.125);
    }
    for (const int size : {2, 4}) {
      std::vector<at::Tensor> results(static_cast<size_t>(size));
      on_ranks(size, [&](int rank, comm::Communicator& ranks) {
        const auto optimizer = make_optimizer(sgd(options), kLayout, ranks);
        FlatTensors tensors = tensors_of(1, 0);
        for (int step = 0; step < 4; ++step) {
          tensors.gradients.zero_();
          for (int part = rank; part < 4; part += size) tensors.gradients += gradient_of(step, part);
          EXPECT_EQ(optimizer->aggregate(tensors), 17 * 4U);
          optimizer->step(tensors, 0.125);
        }
        results[static_cast<size_t>(rank)] = tensors.parameters;
      });
      for (const at::Tensor& result : results) EXPECT_TRUE(at::equal(result, expected.parameters)) << size;
    }
  }
}

TEST(Factory, RefusesWhatItDoesNotKnow) {
  const auto comm = alone();
  const auto with = [&](const std::string& name, const Json& options) {
    return [&comm, name, options] {
      spec::OptimizerSpec spec = sgd(options);
      spec.name = name;
      make_optimizer(spec, kLayout, *comm);
    };
  };
  EXPECT_THAT(with("adam", {}),
              ThrowsMessage<UserError>(HasSubstr("unknown optimizer 'adam'; valid: centralized_sgd")));
  EXPECT_THAT(with("centralized_sgd", {{"momentun", 0.9}}),
              ThrowsMessage<UserError>(HasSubstr("no option 'momentun'; valid: momentum, dampening, nesterov")));
  EXPECT_THAT(with("centralized_sgd", {{"momentum", "much"}}),
              ThrowsMessage<UserError>(HasSubstr("is \"much\"; expected a number")));
  EXPECT_THAT(with("centralized_sgd", {{"momentum", -1}}), ThrowsMessage<UserError>(HasSubstr("momentum is -1")));
  EXPECT_THAT(with("centralized_sgd", {{"nesterov", true}}), ThrowsMessage<UserError>(HasSubstr("nesterov needs")));
  EXPECT_THAT(with("centralized_sgd", {{"compression", "zip"}}), ThrowsMessage<UserError>(HasSubstr("valid: none")));
}

}  // namespace
}  // namespace mlbench::optim
