#include "mlbench/optim/optimizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/compress/toy_coders_test.h"
#include "mlbench/optim/exchange/buckets.h"
#include "mlbench/optim/exchange/centralized.h"
#include "mlbench/optim/exchange/toy_exchanges_test.h"
#include "mlbench/optim/factory.h"
#include "mlbench/optim/rules/adam_kernel.h"
#include "mlbench/optim/rules/sgd.h"
#include "mlbench/optim/rules/sgd_kernel.h"
#include "mlbench/optim/test_ranks.h"
#include "mlbench/spec/algorithm.h"

namespace mlbench::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using ::testing::ThrowsMessage;

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

spec::OptimizerSpec sgd(const Json& options) { return named("centralized_sgd", options); }
spec::OptimizerSpec adam(const Json& options) { return named("centralized_adam", options); }

// All of a step but the rule, of a gradient that is there already. Returns the bytes.
uint64_t aggregate(Optimizer& optimizer, FlatTensors& tensors, int64_t step) {
  optimizer.begin({step}, tensors);
  optimizer.ready(0, tensors.gradients.numel());
  return optimizer.finish();
}

// Parameter after each of three steps with gradients 1, 2, -1, from 1, at the given rates.
std::vector<float> three_steps(const spec::OptimizerSpec& spec, std::array<double, 3> lr = {0.5, 0.5, 0.5}) {
  const auto comm = one_rank();
  const auto optimizer = make_optimizer(spec, kLayout, *comm);
  FlatTensors tensors = tensors_of(1, 0);
  std::vector<float> values;
  const float gradients[] = {1, 2, -1};
  for (size_t i = 0; i < 3; ++i) {
    tensors.gradients = tensors_of(0, gradients[i]).gradients;
    EXPECT_EQ(aggregate(*optimizer, tensors, static_cast<int64_t>(i)), 0U);
    optimizer->step(tensors, lr[i]);
    values.push_back(tensors.parameters[16].item<float>());
    EXPECT_EQ(tensors.parameters[30].item<float>(), values.back());
    EXPECT_EQ(tensors.parameters[31].item<float>(), 0) << "padding";
  }
  return values;
}

TEST(CentralizedSgd, ThreeStepsComputedByHand) {
  EXPECT_THAT(three_steps(sgd({})), ElementsAre(0.5F, -0.5F, 0.0F));
  // The rate is applied outside of the buffer.
  EXPECT_THAT(three_steps(sgd({}), {1, 0.25, 0.5}), ElementsAre(0.0F, -0.5F, 0.0F));
  // buffers 1, 0.5 + 2 = 2.5, 1.25 - 1 = 0.25
  EXPECT_THAT(three_steps(sgd({{"momentum", 0.5}})), ElementsAre(0.5F, -0.75F, -0.875F));
  // The first buffer is the whole gradient: 1, 0.5 + 0.25 * 2 = 1, 0.5 - 0.25 = 0.25
  EXPECT_THAT(three_steps(sgd({{"momentum", 0.5}, {"dampening", 0.75}})), ElementsAre(0.5F, 0.0F, -0.125F));
  // d + 0.5 * buffer: 1.5, 3.25, -0.875
  EXPECT_THAT(three_steps(sgd({{"momentum", 0.5}, {"nesterov", true}})), ElementsAre(0.25F, -1.375F, -0.9375F));
  // d = g + 0.5 p: 1.5, 2.125, -1.40625
  EXPECT_THAT(three_steps(sgd({{"weight_decay", 0.5}})), ElementsAre(0.25F, -0.8125F, -0.109375F));
  // buffers 1.5, 0.75 + 2.125 = 2.875, 1.4375 - 1.59375 = -0.15625
  EXPECT_THAT(three_steps(sgd({{"weight_decay", 0.5}, {"momentum", 0.5}})), ElementsAre(0.25F, -1.1875F, -1.109375F));
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

TEST(CentralizedAdam, ThreeStepsComputedByHand) {
  const auto near = [](const std::vector<float>& values) { return Pointwise(FloatNear(1e-6F), values); };
  const auto with = [](Json betas, Json more = {}) {
    Json options = {{"betas", std::move(betas)}, {"eps", 1}};
    options.update(more.is_null() ? Json::object() : more);
    return adam(options);
  };
  // Moments without memory: g / (|g| + 1) = 1/2, 2/3, -1/2
  EXPECT_THAT(three_steps(with({0, 0})), near({0.75F, 0.4166667F, 0.6666667F}));
  // m = 0.5, 1.25, 0.125; over 0.5, 0.75, 0.875
  EXPECT_THAT(three_steps(with({0.5, 0})), near({0.75F, 0.4722222F, 0.4365079F}));
  // v = 0.5, 2.25, 1.625; over 0.5, 0.75, 0.875; roots 1, 1.7320508, 1.3627703
  EXPECT_THAT(three_steps(with({0, 0.5})), near({0.75F, 0.3839746F, 0.5955906F}));
  // The third root is that of the second's 4: -1/3
  EXPECT_THAT(three_steps(with({0, 0}, {{"amsgrad", true}})), near({0.75F, 0.4166667F, 0.5833333F}));
  // d = g + 0.5 p: 1.5, 2.35, -0.8253731
  EXPECT_THAT(three_steps(with({0, 0}, {{"weight_decay", 0.5}})), near({0.7F, 0.3492537F, 0.5753371F}));
  // By default eps hardly counts: the first step is lr * sign(g).
  EXPECT_THAT(three_steps(adam({}), {0.25, 0, 0}), near({0.75F, 0.75F, 0.75F}));
}

TEST(AdamKernel, EqualsItsReferenceToTheBit) {
  RandomSequence random(4);
  constexpr size_t kCount = 100003;
  std::vector<float> start, gradients;
  std::array<std::vector<float>, 3> moments;
  for (auto* values : {&start, &gradients, &moments[0], &moments[1], &moments[2]}) {
    for (size_t i = 0; i < kCount; ++i) values->push_back(static_cast<float>(random.normal()));
  }
  for (size_t second : {1, 2}) {
    for (float& value : moments[second]) value *= value;
  }
  for (const float weight_decay : {0.0F, 1e-4F}) {
    for (const bool amsgrad : {false, true}) {
      const AdamCoefficients c{0.01F, 0.9F, 0.1F, 0.999F, 0.001F, 0.3F, 1e-8F, weight_decay};
      std::vector<float> fast = start, plain = start;
      auto fast_moments = moments, plain_moments = moments;
      const auto view = [&](std::array<std::vector<float>, 3>& m) {
        return AdamMoments{m[0].data(), m[1].data(), amsgrad ? m[2].data() : nullptr};
      };
      adam_update(fast.data(), gradients.data(), view(fast_moments), kCount, c);
      adam_update_reference(plain.data(), gradients.data(), view(plain_moments), kCount, c);
      EXPECT_EQ(std::memcmp(fast.data(), plain.data(), kCount * 4), 0) << weight_decay << " " << amsgrad;
      EXPECT_NE(std::memcmp(fast.data(), start.data(), kCount * 4), 0);
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(std::memcmp(fast_moments[i].data(), plain_moments[i].data(), kCount * 4), 0) << i;
      }
    }
  }
}

// ---- what holds for every row of the table --------------------------------------------------------------------------

struct Case {
  spec::OptimizerSpec spec;
  double lr;                               // at which it descends
  std::vector<std::string> state_tensors;  // one per parameter each
  double reached = 1e-8;                   // of the value at the start; a rule of signs ends in steps around the goal
};

class EveryOptimizer : public testing::TestWithParam<Case> {};

std::vector<Case> cases() {
  return {{sgd({{"momentum", 0.9}, {"nesterov", true}}), 0.05, {"momentum"}},
          {sgd({{"momentum", 0.9}, {"dampening", 0.5}, {"weight_decay", 1e-6}}), 0.05, {"momentum"}},
          {sgd({{"momentum", 0.9}, {"clip_norm", 0.5}, {"averaging_patience", 5}}), 0.05, {"momentum"}},
          {adam({}), 0.02, {"exp_avg", "exp_avg_sq"}},
          {adam({{"betas", {0.8, 0.9}}, {"weight_decay", 1e-6}, {"amsgrad", true}}),
           0.02,
           {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}},
          {named("adamw", {{"weight_decay", 1e-3}}), 0.02, {"exp_avg", "exp_avg_sq"}},
          {named("lars", {{"trust_coefficient", 0.1}, {"weight_decay", 1e-6}}), 0.05, {"momentum"}},
          {named("lamb", {{"weight_decay", 1e-6}}), 0.02, {"exp_avg", "exp_avg_sq"}, 1e-3},
          {named("lion", {{"weight_decay", 1e-3}}), 0.002, {"exp_avg"}, 1e-3},
          {named("schedule_free_sgd", {{"weight_decay", 1e-6}}), 0.2, {"y", "z"}, 1e-4},
          {named("schedule_free_adamw", Json::object()), 0.02, {"exp_avg_sq", "y", "z"}, 1e-3}};
}

INSTANTIATE_TEST_SUITE_P(Table, EveryOptimizer, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.spec.name + "_" + std::to_string(info.index); });

TEST(Factory, EveryRowHasACase) {
  std::set<std::string> tested;
  for (const Case& c : cases()) tested.insert(c.spec.name);
  // Those whose ranks or gradients differ from the sum have tests of their own (exchange/patterns_test.cpp). So have
  // Muon and Dion, which treat tensors differently (rules/rules_test.cpp).
  const auto comm = one_rank();
  for (const Json& row : list_optimizers()) {
    const std::string name = row["name"];
    const spec::OptimizerSpec optimizer = named(name, Json::object());
    const bool centralized = spec::algorithm_of(optimizer).pattern == "centralized";
    const bool of_matrices = name == "muon" || name == "dion";
    if (centralized && !of_matrices && make_optimizer(optimizer, kLayout, *comm)->promise().exact) {
      EXPECT_TRUE(tested.contains(name)) << name;
    }
  }
}

TEST_P(EveryOptimizer, DescendsOnAQuadratic) {
  // f = sum of c_i p_i^2 / 2 from p = 1
  const at::Tensor curvature = at::linspace(0.5, 4, 32);
  const auto comm = one_rank();
  const auto optimizer = make_optimizer(GetParam().spec, kLayout, *comm);
  FlatTensors tensors = tensors_of(1, 0);
  const auto value = [&] { return (curvature * tensors.parameters.square()).sum().item<double>() / 2; };
  const double before = value();
  for (int i = 0; i < 1000; ++i) {
    tensors.gradients.copy_(curvature * tensors.parameters);
    aggregate(*optimizer, tensors, i);
    optimizer->step(tensors, GetParam().lr);
    optimizer->after_update(tensors);
  }
  EXPECT_LT(value(), before * GetParam().reached);
}

TEST_P(EveryOptimizer, ResumesIdentically) {
  const auto comm = one_rank();
  const auto run = [](Optimizer& optimizer, FlatTensors& tensors, int first, int last) {
    for (int i = first; i < last; ++i) {
      tensors.gradients.copy_(at::arange(32, at::kFloat) * 0.1 - i);
      aggregate(optimizer, tensors, i);
      optimizer.step(tensors, 0.1);
      optimizer.after_update(tensors);
    }
  };
  const auto whole = make_optimizer(GetParam().spec, kLayout, *comm);
  FlatTensors expected = tensors_of(1, 0);
  run(*whole, expected, 0, 7);

  for (const int at : {0, 3}) {  // before the first step, too: it differs from the others
    const auto first = make_optimizer(GetParam().spec, kLayout, *comm);
    FlatTensors tensors = tensors_of(1, 0);
    run(*first, tensors, 0, at);
    NamedState state;
    first->swap_average(tensors);
    first->export_state(state);
    EXPECT_EQ(state.tensors.size(), 2 * GetParam().state_tensors.size());
    for (const std::string& name : GetParam().state_tensors) {
      EXPECT_EQ(state.tensor("optimizer/" + name + "/b").shape, (std::vector<int64_t>{3, 5}));
      EXPECT_EQ(state.tensor("optimizer/" + name + "/b").bytes.size(), 60U);
      EXPECT_EQ(state.tensors.count("optimizer/" + name + "/mean"), 0U);
    }
    const auto second = make_optimizer(GetParam().spec, kLayout, *comm);
    second->import_state(state);
    second->swap_average(tensors);
    run(*second, tensors, at, 7);
    for (const auto& [offset, count] : {std::pair{0, 2}, {16, 15}}) {
      EXPECT_TRUE(at::equal(tensors.parameters.narrow(0, offset, count), expected.parameters.narrow(0, offset, count)));
    }
  }

  whole->swap_average(expected);
  for (const std::string& name : GetParam().state_tensors) {
    const std::string key = "optimizer/" + name + "/b";
    NamedState wrong;
    whole->export_state(wrong);
    wrong.tensors[key].shape = {15};
    EXPECT_THAT([&] { whole->import_state(wrong); }, ThrowsMessage<UserError>(HasSubstr("'" + key + "'")));
    wrong.tensors.erase(key);
    EXPECT_THAT([&] { whole->import_state(wrong); }, ThrowsMessage<UserError>(HasSubstr(key)));
  }
}

TEST_P(EveryOptimizer, SameOnOneAndManyRanksAndCountsBytesWithoutPadding) {
  // Gradients are small integers over a power of two, so that sums are exact in any order.
  const auto gradient_of = [](int step, int part) {
    FlatTensors tensors = tensors_of(0, static_cast<float>((step + 1) * (part % 4 - 1)) / 4);
    return tensors.gradients;
  };
  struct Division {
    Json options;
    int64_t buckets;
  };
  // Two tensors; buckets of 10 bytes hold one of them, buckets of 1 MiB both.
  const Division divisions[] = {{Json::object(), 1},
                                {{{"by_layer", true}}, 2},
                                {{{"bucket_mb", 1e-5}}, 2},
                                {{{"bucket_mb", 1}, {"by_layer", false}}, 1},
                                {{{"by_layer", true}, {"overlap", true}}, 2}};
  for (const Division& division : divisions) {
    SCOPED_TRACE(division.options.dump());
    spec::OptimizerSpec spec = GetParam().spec;
    spec.options.update(division.options);
    const auto comm = one_rank();
    const auto single = make_optimizer(spec, kLayout, *comm);
    const bool overlap = division.options.value("overlap", false);
    EXPECT_EQ(single->effective(), (Json{{"overlap", overlap},
                                         {"buckets", division.buckets},
                                         {"by_layer", division.options.value("by_layer", false)},
                                         {"one_collective", !overlap && division.buckets == 1}}));
    FlatTensors expected = tensors_of(1, 0);
    for (int step = 0; step < 4; ++step) {
      expected.gradients.zero_();
      for (int part = 0; part < 4; ++part) expected.gradients += gradient_of(step, part);
      EXPECT_EQ(aggregate(*single, expected, step), 0U);
      single->step(expected, 0.125);
    }
    EXPECT_EQ(comm->board().read().sequence, 0);
    for (const int size : {2, 4}) {
      std::vector<at::Tensor> results(static_cast<size_t>(size));
      on_ranks(size, [&](int rank, comm::Communicator& ranks) {
        const auto optimizer = make_optimizer(spec, kLayout, ranks);
        const Promise promise = optimizer->promise();
        EXPECT_TRUE(promise.exact && promise.replicated);
        EXPECT_EQ(promise.bytes_per_step, 17 * 4U);
        FlatTensors tensors = tensors_of(1, 0);
        for (int step = 0; step < 4; ++step) {
          tensors.gradients.zero_();
          for (int part = rank; part < 4; part += size) tensors.gradients += gradient_of(step, part);
          EXPECT_EQ(aggregate(*optimizer, tensors, step), 17 * 4U);
          optimizer->step(tensors, 0.125);
        }
        const int64_t order = division.options.value("overlap", false) ? 1 : 0;  // told once
        EXPECT_EQ(ranks.board().read().sequence, 4 * division.buckets + order) << "one collective per bucket and step";
        results[static_cast<size_t>(rank)] = tensors.parameters;
      });
      for (const at::Tensor& result : results) EXPECT_TRUE(at::equal(result, expected.parameters)) << size;
    }
  }
}

// Makes an optimizer of a rule, a coder and an exchange that each have a state.
std::unique_ptr<Optimizer> toy(comm::Communicator& comm, bool replicated) {
  auto coder = std::make_unique<compress::ErrorMemoryCoder>(compress::CoderContext{kLayout, 42, comm.rank()});
  const ExchangeContext context{comm, *coder, kLayout};
  std::unique_ptr<Exchange> exchange;
  if (replicated) {
    exchange = std::make_unique<CentralizedExchange>(context, CentralizedOptions());
  } else {
    exchange = std::make_unique<NeighbourAveraging>(context, 2);
  }
  SgdOptions options;
  options.momentum = 0.5;
  return std::make_unique<Optimizer>(std::make_unique<SgdRule>(options, kLayout), std::move(coder),
                                     std::move(exchange));
}

std::vector<std::string> names_in(const NamedState& state) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state.tensors) names.push_back(name);
  for (const auto& [name, scalar] : state.scalars) names.push_back(name);
  return names;
}

TEST(Optimizer, StateThatRanksDoNotShareIsTheRanksOwn) {
  on_ranks(2, [](int rank, comm::Communicator& comm) {
    NamedState shared, own;
    const auto with_memory = toy(comm, true);
    EXPECT_FALSE(with_memory->effective().contains("replicated"));
    with_memory->export_state(shared);
    with_memory->export_own_state(own);
    EXPECT_THAT(names_in(shared),
                ElementsAre("optimizer/momentum/a", "optimizer/momentum/b", "optimizer/momentum_steps"));
    EXPECT_THAT(names_in(own), ElementsAre("coder/error", "coder/name"));

    shared = own = {};
    const auto averaging = toy(comm, false);
    EXPECT_EQ(averaging->effective()["replicated"], false);
    averaging->export_state(shared);
    averaging->export_own_state(own);
    EXPECT_THAT(names_in(shared), ElementsAre());
    EXPECT_THAT(names_in(own), ElementsAre("coder/error", "optimizer/momentum/a", "optimizer/momentum/b", "coder/name",
                                           "exchange/updates", "optimizer/momentum_steps"));

    const auto plain = make_optimizer(sgd({{"momentum", 0.5}}), kLayout, comm);
    own = {};
    plain->export_own_state(own);
    EXPECT_THAT(names_in(own), ElementsAre()) << "rank " << rank;
  });
}

TEST(Optimizer, ResumesIdenticallyFromWhatIsSharedAndWhatIsOwn) {
  for (const bool replicated : {true, false}) {
    on_ranks(3, [&](int rank, comm::Communicator& comm) {
      const auto whole = toy(comm, replicated);
      auto parts = toy(comm, replicated);
      FlatTensors expected = tensors_of(1, 0), resumed = tensors_of(1, 0);
      const auto step = [&](Optimizer& optimizer, FlatTensors& tensors, int number) {
        tensors.gradients.copy_(tensors_of(0, 0.05F * static_cast<float>((rank + 1) * (number + 2))).gradients);
        aggregate(optimizer, tensors, number);
        optimizer.step(tensors, 0.1);
        optimizer.after_update(tensors);
      };
      for (int number = 0; number < 8; ++number) {
        if (number == 3) {
          NamedState shared, own;
          parts->export_state(shared);
          parts->export_own_state(own);
          parts = toy(comm, replicated);
          parts->import_state(shared);
          parts->import_own_state(own);
        }
        step(*whole, expected, number);
        step(*parts, resumed, number);
        EXPECT_TRUE(at::equal(resumed.parameters, expected.parameters)) << "rank " << rank << ", step " << number;
      }
    });
  }
}

TEST(Buckets, AreClosedByTheTensorThatFillsThem) {
  // Sizes 4, 8, 12, 40 and 20 bytes, each on a line of its own.
  FlatLayout layout;
  for (const int64_t count : {1, 2, 3, 10, 5}) {
    const auto index = static_cast<int64_t>(layout.ranges.size());
    layout.ranges.push_back({fmt::format("t{}", index), {count}, 16 * index, count, true});
  }
  layout.ranges.push_back({"mean", {7}, 0, 7, false});
  EXPECT_THAT(tensor_buckets(layout),
              ElementsAre(Bucket{64, 5}, Bucket{48, 10}, Bucket{32, 3}, Bucket{16, 2}, Bucket{0, 1}));
  EXPECT_THAT(sized_buckets(layout, 1000, 1000), ElementsAre(Bucket{0, 69}));
  // From the last tensor on: 20 | 40 | 12 + 8 | 4
  EXPECT_THAT(sized_buckets(layout, 20, 20), ElementsAre(Bucket{64, 5}, Bucket{48, 10}, Bucket{16, 19}, Bucket{0, 1}));
  // The first is closed earlier than the others: 20 | 40 + 12 | 8 + 4
  EXPECT_THAT(sized_buckets(layout, 1, 41), ElementsAre(Bucket{64, 5}, Bucket{32, 26}, Bucket{0, 18}));
  // ... and never divides a tensor: 20 + 40 | 12 + 8 + 4
  EXPECT_THAT(sized_buckets(layout, 21, 1000), ElementsAre(Bucket{48, 21}, Bucket{0, 35}));
  EXPECT_TRUE(sized_buckets({}, 1, 1).empty());
}

TEST(Factory, MakesWhatNamesElsewhereStandFor) {
  const auto comm = one_rank();
  for (const spec::NameElsewhere& row : spec::names_elsewhere()) {
    SCOPED_TRACE(row.name);
    spec::OptimizerSpec optimizer = named("centralized_sgd", Json::object());
    if (row.chooses == "name") {
      optimizer.name = row.name;
    } else {
      optimizer.options[row.chooses] = row.name;
    }
    const spec::OptimizerSpec ours = spec::with_names_of_ours(optimizer);
    for (const auto& [key, value] : row.options.items()) EXPECT_EQ(ours.options.at(key), value);
    EXPECT_NO_THROW(make_optimizer(ours, kLayout, *comm));
  }
}

TEST(Factory, RefusesWhatItDoesNotKnow) {
  const auto comm = one_rank();
  const auto with = [&](const std::string& name, const Json& options) {
    return [&comm, name, options] { make_optimizer(named(name, options), kLayout, *comm); };
  };
  EXPECT_THAT(with("adam", {}),
              ThrowsMessage<UserError>(HasSubstr(
                  "unknown optimizer 'adam': did you mean 'adamw'? valid: centralized_sgd, centralized_adam, ")));
  EXPECT_THAT(with("centralized_sgd", {{"momentun", 0.9}}),
              ThrowsMessage<UserError>(HasSubstr(
                  "no option 'momentun': did you mean 'momentum'? valid: rule, momentum, dampening, nesterov")));
  EXPECT_THAT(with("centralized_sgd", {{"momentum", "much"}}),
              ThrowsMessage<UserError>(HasSubstr("is \"much\"; expected a number")));
  EXPECT_THAT(with("centralized_sgd", {{"momentum", -1}}),
              ThrowsMessage<UserError>(HasSubstr("is -1; expected a number from 0")));
  EXPECT_THAT(with("centralized_sgd", {{"nesterov", true}}), ThrowsMessage<UserError>(HasSubstr("nesterov needs")));
  EXPECT_THAT(with("centralized_sgd", {{"compression", "zip"}}), ThrowsMessage<UserError>(HasSubstr("valid: none")));
  EXPECT_THAT(with("centralized_sgd", {{"compression", "deep_gradient"}, {"momentum", 0.9}}),
              ThrowsMessage<UserError>(HasSubstr("has the momentum itself")));
  EXPECT_THAT(with("centralized_sgd", {{"bucket_mb", -1}}),
              ThrowsMessage<UserError>(
                  HasSubstr("'bucket_mb' of optimizer 'centralized_sgd' is -1; expected a number from 0 to 1048576")));
  EXPECT_THAT(with("centralized_sgd", {{"bucket_mb", 25}, {"by_layer", true}}),
              ThrowsMessage<UserError>(HasSubstr("by_layer is true with bucket_mb 25")));
  EXPECT_THAT(
      with("centralized_adam", {{"momentum", 0.9}}),
      ThrowsMessage<UserError>(HasSubstr("no option 'momentum'; valid: rule, betas, eps, amsgrad, weight_decay, "
                                         "clip_norm, reduce, denominator, averaging_patience, loss_scale, ")));
  EXPECT_THAT(with("centralized_adam", {{"momentum", 0.9}}),
              ThrowsMessage<UserError>(HasSubstr("pattern, by_layer, bucket_mb, overlap, compression")));
  EXPECT_THAT(with("centralized_adam", {{"betas", 0.9}}), ThrowsMessage<UserError>(HasSubstr("a list of 2 numbers")));
  EXPECT_THAT(with("centralized_adam", {{"betas", {1, 0.9}}}),
              ThrowsMessage<UserError>(HasSubstr("first of betas is 1; expected 0 or more and less than 1")));
  EXPECT_THAT(with("centralized_adam", {{"betas", {0, -0.1}}}),
              ThrowsMessage<UserError>(HasSubstr("is [0,-0.1]; expected a list of 2 numbers from 0 to 1")));
  EXPECT_THAT(with("centralized_adam", {{"eps", 0}}), ThrowsMessage<UserError>(HasSubstr("eps is 0; expected more")));
  EXPECT_THAT(with("centralized_adam", {{"weight_decay", -1}}),
              ThrowsMessage<UserError>(HasSubstr("is -1; expected a number from 0")));
}

}  // namespace
}  // namespace mlbench::optim
