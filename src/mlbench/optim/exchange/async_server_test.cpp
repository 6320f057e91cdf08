// The asynchronous parameter server: what it promises, with ranks of any pace. Staleness stays within its bound, every
// update is applied once, bytes are as the transport sees them, a lost rank is named, and views are settled.

#include "mlbench/optim/exchange/async_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/optim/exchange/steps_test.h"

namespace mlbench::optim {
namespace {

using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

spec::OptimizerSpec unsynchronised(int64_t staleness, Json options = Json::object()) {
  options["pattern"] = "async_server";
  options["staleness"] = staleness;
  return named("centralized_sgd", options);
}

FlatTensors all_zero(const FlatLayout& layout) {
  return {at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
}

// How long the backward pass of a rank takes in a step, in milliseconds.
using Pace = std::function<int(int rank, int step)>;

// Takes a step as step_with() does, but in the time of the pace, during which gradients become final bit by bit.
uint64_t paced_step(Optimizer& optimizer, FlatTensors& tensors, const at::Tensor& gradient,
                    const compress::StepContext& step, int time) {
  optimizer.begin(step, tensors);
  tensors.gradients.copy_(gradient);
  for (int passed = 0; passed < time; ++passed) {
    std::this_thread::sleep_for(milliseconds(1));
    optimizer.ready(0, 0);
  }
  const uint64_t bytes = optimizer.finish();
  optimizer.step(tensors, step.lr);
  return bytes + optimizer.after_update(tensors);
}

int no_time(int, int) { return 0; }
Pace slow(int of) {
  return [of](int rank, int) { return rank == of ? 3 : 0; };
}
int uneven(int rank, int step) { return (7 * step + 3 * rank) % 5; }

int64_t sum_of(const std::vector<int64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

// In step c rank r adds one bit that is its own: 2^(c k + r). So weights say which updates they have, and how often.
struct Seen {
  std::vector<std::vector<int64_t>> views;       // of each rank, the bits with which each step began
  std::vector<std::vector<int64_t>> histograms;  // of each rank
  std::vector<int64_t> settled;                  // of each rank, in the end
};

Seen add_bits(int size, int steps, int64_t staleness, const Pace& pace) {
  const auto ranks = static_cast<size_t>(size);
  Seen seen{std::vector<std::vector<int64_t>>(ranks), std::vector<std::vector<int64_t>>(ranks),
            std::vector<int64_t>(ranks)};
  const FlatLayout layout = layout_with_buffer({1});
  on_ranks(size, [&](int rank, comm::Communicator& comm) {
    const auto self = static_cast<size_t>(rank);
    const auto optimizer = make_optimizer(unsynchronised(staleness), layout, comm);
    FlatTensors tensors = all_zero(layout);
    for (int step = 0; step < steps; ++step) {
      seen.views[self].push_back(static_cast<int64_t>(tensors.parameters[0].item<float>()));
      at::Tensor gradient = at::zeros({layout.parameter_elements});
      gradient[0] = static_cast<double>(int64_t{1} << (step * size + rank));
      paced_step(*optimizer, tensors, gradient, {step, -1, 1}, pace(rank, step));
    }
    optimizer->settle(tensors);
    seen.histograms[self] = optimizer->staleness();
    seen.settled[self] = static_cast<int64_t>(tensors.parameters[0].item<float>());
  });
  return seen;
}

// 24 bits are as many as a float holds.
constexpr int kBits = 24;

TEST(AsyncServer, EachUpdateIsAppliedOnceAndNoViewIsStalerThanTheBound) {
  const std::vector<Pace> paces = {no_time, slow(0), slow(1), uneven};
  for (const int size : {2, 3, 4}) {
    const int steps = kBits / size;
    for (const int64_t bound : {0, 1, 3}) {
      for (size_t pace = 0; pace < paces.size(); ++pace) {
        SCOPED_TRACE(fmt::format("{} ranks, bound {}, pace {}", size, bound, pace));
        const Seen seen = add_bits(size, steps, bound, paces[pace]);
        EXPECT_THAT(seen.settled, Each((int64_t{1} << (steps * size)) - 1)) << "each bit once";
        for (const auto& views : seen.views) {
          for (int step = 0; step < steps; ++step) {
            const int64_t known = (int64_t{1} << (std::max<int64_t>(step - bound, 0) * size)) - 1;
            EXPECT_EQ(views[static_cast<size_t>(step)] & known, known) << "step " << step;
          }
        }
        for (const auto& histogram : seen.histograms) {
          EXPECT_EQ(std::ssize(histogram), bound + 1);
          EXPECT_EQ(sum_of(histogram), steps);
        }
      }
    }
  }
}

// A rank sees its own updates at once, whoever is slow.
TEST(AsyncServer, AViewHasTheRanksOwnUpdates) {
  constexpr int kSize = 3;
  const Seen seen = add_bits(kSize, kBits / kSize, 3, slow(2));
  for (int rank = 0; rank < kSize; ++rank) {
    int64_t own = 0;
    for (int step = 0; step < kBits / kSize; ++step) {
      EXPECT_EQ(seen.views[static_cast<size_t>(rank)][static_cast<size_t>(step)] & own, own) << "rank " << rank;
      own |= int64_t{1} << (step * kSize + rank);
    }
  }
}

// The others run ahead of a slow rank as far as the bound lets them, and no farther.
TEST(AsyncServer, RanksRunAheadOfASlowOneUpToTheBound) {
  constexpr int kSteps = 12;
  const Pace one_is_slow = [](int rank, int) { return rank == 1 ? 30 : 0; };
  const Seen seen = add_bits(2, kSteps, 2, one_is_slow);
  EXPECT_GE(seen.histograms[0][2], kSteps / 2) << "rank 0 is mostly as far ahead as it may be";
  const Seen together = add_bits(2, kSteps, 0, one_is_slow);
  for (const auto& histogram : together.histograms) EXPECT_THAT(histogram, ElementsAre(kSteps));
}

// A server that is slow holds no other rank back within the bound: rank 1 makes two steps while rank 0 is in its first.
// The answer to the first of them then has both, and the second is not added to it again.
TEST(AsyncServer, AnUpdateIsNotWaitedFor) {
  const FlatLayout layout = layout_with_buffer({1});
  std::atomic<int> steps_of_rank_1 = 0;
  on_ranks(2, [&](int rank, comm::Communicator& comm) {
    const auto optimizer = make_optimizer(unsynchronised(2), layout, comm);
    FlatTensors tensors = all_zero(layout);
    const int64_t all_of_rank_1 = 7;
    for (int step = 0; step < 3; ++step) {
      optimizer->begin({step, -1, 1}, tensors);
      tensors.gradients[0] = static_cast<double>(int64_t{1} << (rank == 1 ? step : 8 + step));
      if (rank == 0 && step == 0) {
        const auto limit = std::chrono::steady_clock::now() + kPatience;
        while (steps_of_rank_1 < 2 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
        EXPECT_EQ(steps_of_rank_1, 2) << "the bound lets it make two";
      }
      optimizer->finish();
      optimizer->step(tensors, -1);
      optimizer->after_update(tensors);
      if (rank == 1) ++steps_of_rank_1;
    }
    if (rank == 1) {
      EXPECT_EQ(static_cast<int64_t>(tensors.parameters[0].item<float>()) & 255, all_of_rank_1);
    }
    optimizer->settle(tensors);
    EXPECT_EQ(tensors.parameters[0].item<float>(), static_cast<float>(all_of_rank_1 * 257));
  });
}

// With a barrier in each step SGD computes what it does with the sum of gradients, momentum included. Ranks have 1/2,
// 1/4 and 1/4 of the batch, whose mean gradients are 1, 2 and 0; the buffers are 1, 2.5 and 1.25.
TEST(AsyncServer, ThreeStepsComputedByHand) {
  const FlatLayout layout = layout_with_buffer({1});
  const double gradients[3][3] = {{2, 0, -4}, {4, 8, 0}, {-4, 0, 8}}, shares[] = {0.5, 0.25, 0.25};
  on_ranks(3, [&](int rank, comm::Communicator& comm) {
    const auto optimizer = make_optimizer(unsynchronised(0, {{"momentum", 0.5}}), layout, comm);
    FlatTensors tensors = all_zero(layout);
    std::vector<float> weights;
    for (int step = 0; step < 3; ++step) {
      at::Tensor gradient = at::zeros({layout.parameter_elements});
      gradient[0] = shares[rank] * gradients[rank][step];
      step_with(*optimizer, tensors, gradient, {step, 1, shares[rank]});
      weights.push_back(tensors.parameters[0].item<float>());
    }
    EXPECT_THAT(weights, ElementsAre(-1, -3.5, -4.75)) << "rank " << rank;
    optimizer->settle(tensors);
  });
}

class SentInStepsAndSettle final : public comm::OperationObserver {
 public:
  void begin(const comm::Operation& operation) noexcept override {
    if (operation.name == "send") bytes += operation.bytes;
    EXPECT_TRUE(operation.name == "send" || operation.name == "recv") << operation.name;
  }
  void end(const comm::Operation&) noexcept override {}

  uint64_t bytes = 0;
};

// The tensors lie side by side, so that no padding is sent.
FlatLayout side_by_side(const std::vector<int64_t>& counts) {
  FlatLayout layout;
  for (const int64_t count : counts) {
    layout.ranges.push_back(
        {fmt::format("t{}", layout.ranges.size()), {count}, layout.parameter_elements, count, true});
    layout.parameter_elements += count;
  }
  return layout;
}

TEST(AsyncServer, BytesAreThoseOfTheFormula) {
  constexpr int kSteps = 5;
  for (const std::vector<int64_t>& counts : std::vector<std::vector<int64_t>>{{}, {1}, {3, 1, 17, 103}}) {
    const FlatLayout layout = side_by_side(counts);
    const auto n = static_cast<uint64_t>(layout.parameter_elements);
    for (const int size : {1, 2, 3, 4, 5}) {
      for (const int64_t bound : {0, 2}) {
        SCOPED_TRACE(fmt::format("{} parameters, {} ranks, bound {}", n, size, bound));
        on_ranks(size, [&](int rank, comm::Communicator& comm) {
          const auto others = static_cast<uint64_t>(size - 1);
          const uint64_t of_step = rank == 0 ? others * (4 * n + 16) : 4 * n;
          const auto optimizer = make_optimizer(unsynchronised(bound), layout, comm);
          EXPECT_EQ(optimizer->promise().bytes_per_step, of_step) << "rank " << rank;
          SentInStepsAndSettle sent;
          comm.board().attach(sent);
          FlatTensors tensors = all_zero(layout);
          for (int step = 0; step < kSteps; ++step) {
            const uint64_t bytes = paced_step(*optimizer, tensors, drawn_for(layout, rank, step),
                                              {step, 0.1, 1.0 / size}, uneven(rank, step));
            EXPECT_EQ(bytes, of_step) << "rank " << rank << ", step " << step;
          }
          const uint64_t of_settling = rank == 0 ? others * 4 * n : 0;
          EXPECT_EQ(optimizer->settle(tensors), of_settling);
          EXPECT_EQ(optimizer->settle(tensors), 0U) << "nothing is left to do";
          comm.board().detach(sent);
          EXPECT_EQ(sent.bytes, kSteps * of_step + of_settling) << "rank " << rank;
        });
      }
    }
  }
}

// f = sum over ranks of c (p - t_r)^2 / (2 k): the least is at the mean of t_r.
TEST(AsyncServer, DescendsOnAQuadraticWithRanksOfAnyPace) {
  const FlatLayout layout = layout_with_buffer({3, 24, 5});
  for (const int size : {2, 3}) {
    for (const int64_t bound : {0, 3}) {
      for (const double momentum : {0.0, 0.5}) {
        SCOPED_TRACE(fmt::format("{} ranks, bound {}, momentum {}", size, bound, momentum));
        on_ranks(size, [&](int rank, comm::Communicator& comm) {
          const auto optimizer = make_optimizer(unsynchronised(bound, {{"momentum", momentum}}), layout, comm);
          FlatTensors tensors{at::full({layout.parameter_elements}, 4.0F), at::zeros({layout.parameter_elements})};
          const at::Tensor curvature = at::linspace(0.5, 2, layout.parameter_elements);
          for (int step = 0; step < 1000; ++step) {
            const at::Tensor gradient = curvature * (tensors.parameters - rank) / size;
            paced_step(*optimizer, tensors, gradient, {step, 0.02, 1.0 / size}, step % 100 == 0 ? uneven(rank, 1) : 0);
          }
          optimizer->settle(tensors);
          const at::Tensor distance = tensors.parameters - (size - 1) / 2.0;
          // A rank may be as many steps as the bound ahead when the last ones are made.
          EXPECT_LT(distance.abs().max().item<double>(), bound == 0 ? 1e-3 : 0.2) << "rank " << rank;
        });
      }
    }
  }
}

// After settle() all ranks hold the same weights, and the exchange has no state: a new one goes on from there.
TEST(AsyncServer, SettledRanksHoldTheSameWeightsAndGoOnFromThem) {
  const FlatLayout layout = layout_with_buffer({3, 17});
  constexpr int kSize = 3, kSteps = 9;
  std::vector<std::vector<at::Tensor>> settled(kSize);
  on_ranks(kSize, [&](int rank, comm::Communicator& comm) {
    const auto make = [&] { return make_optimizer(unsynchronised(2, {{"momentum", 0.5}}), layout, comm); };
    auto optimizer = make();
    FlatTensors tensors = all_zero(layout);
    for (int step = 0; step < kSteps; ++step) {
      paced_step(*optimizer, tensors, drawn_for(layout, rank, step) / kSize, {step, 0.1, 1.0 / kSize},
                 uneven(rank, step));
      if (step % 3 != 2) continue;
      optimizer->settle(tensors);
      settled[static_cast<size_t>(rank)].push_back(tensors.parameters.clone());
      NamedState shared, own;
      optimizer->export_state(shared);
      optimizer->export_own_state(own);
      EXPECT_TRUE(shared.tensors.empty()) << "the rule's state is each rank's own";
      if (step != 5) continue;
      optimizer = make();
      optimizer->import_own_state(own);
    }
  });
  for (const auto& weights : settled) {
    ASSERT_EQ(weights.size(), 3U);
    for (size_t i = 0; i < weights.size(); ++i) EXPECT_TRUE(same_bits(weights[i], settled[0][i])) << i;
  }
  EXPECT_FALSE(same_bits(settled[0][0], settled[0][2]));
}

// Rank 0 says which rank has left. Others that wait for rank 0 hear that it has left.
TEST(AsyncServer, ALostRankIsNamedAndNobodyHangs) {
  const FlatLayout layout = layout_of({100});
  for (const int64_t bound : {0, 2}) {
    for (const int lost : {0, 1, 2}) {
      on_ranks(3, [&](int rank, comm::Communicator& comm) {
        const auto optimizer = make_optimizer(unsynchronised(bound), layout, comm);
        FlatTensors tensors = all_zero(layout);
        step_with(*optimizer, tensors, drawn_for(layout, rank, 0), {0, 0.1, 1});
        optimizer->settle(tensors);
        if (rank == lost) return;  // lets go of its communicator
        const int named = rank == 0 ? lost : 0;
        const auto train_on = [&] {
          for (int step = 1; step < 10; ++step) {
            step_with(*optimizer, tensors, drawn_for(layout, rank, step), {step, 0.1, 1});
          }
        };
        EXPECT_THAT(train_on, ThrowsMessage<CommError>(HasSubstr(fmt::format("rank {} has left", named))))
            << "rank " << rank << ", lost " << lost;
        optimizer->abandon();
      });
    }
  }
}

TEST(AsyncServer, RefusesWhatNeedsExactSumsACoderOrAnotherMemory) {
  const FlatLayout layout = layout_of({3});
  on_ranks(2, [&](int, comm::Communicator& comm) {
    EXPECT_THAT(
        [&] {
          make_optimizer(unsynchronised(1, {{"loss_scale", 4}}), layout, comm);
        },
        ThrowsMessage<UserError>(HasSubstr("not summed exactly")));
    SeparateMemory memory;
    EXPECT_THAT(
        [&] { make_optimizer(unsynchronised(1), layout, comm, {.memory = &memory}); },
        ThrowsMessage<UserError>(HasSubstr("the pattern async_server sends parameters from the host's memory")));
  });
  expect_refusal(unsynchronised(1, {{"compression", "half"}}), "compression 'half' with the pattern async_server");
  expect_refusal(unsynchronised(-1), "'staleness' of optimizer 'centralized_sgd' is -1; expected");
}

}  // namespace
}  // namespace mlbench::optim
