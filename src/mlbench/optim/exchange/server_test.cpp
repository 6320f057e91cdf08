// The synchronous parameter server: steps computed by hand, the weights of an all-reduce, bytes as the transport sees
// them, state, a lost rank, and what is refused.

#include "mlbench/optim/exchange/server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "mlbench/optim/exchange/steps_test.h"

namespace mlbench::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

spec::OptimizerSpec served(Json options = Json::object()) {
  options["pattern"] = "server";
  return named("centralized_sgd", options);
}

FlatTensors zeros_of(const FlatLayout& layout) {
  return {at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
}

// Ranks with 1/2, 1/4 and 1/4 of the batch. The means of their gradients are
//   2/2 + 4/4 - 4/4 = 1;   0/2 + 8/4 + 0/4 = 2;   -4/2 + 0/4 + 8/4 = 0
// and twice that for the second parameter, which lies in the second server's part. With momentum 0.5 the buffers are 1,
// 2.5 and 1.25.
TEST(Server, ThreeStepsComputedByHand) {
  const FlatLayout layout = layout_of({1, 1});
  const double gradients[3][3] = {{2, 0, -4}, {4, 8, 0}, {-4, 0, 8}}, shares[] = {0.5, 0.25, 0.25};
  for (const int servers : {1, 2, 3}) {
    on_ranks(3, [&](int rank, comm::Communicator& comm) {
      const auto optimizer = make_optimizer(served({{"servers", servers}, {"momentum", 0.5}}), layout, comm);
      FlatTensors tensors = zeros_of(layout);
      std::vector<float> first, second;
      for (int step = 0; step < 3; ++step) {
        at::Tensor gradient = at::zeros({layout.parameter_elements});
        gradient[0] = shares[rank] * gradients[rank][step];
        gradient[16] = 2 * gradient[0];
        step_with(*optimizer, tensors, gradient, {step, 1, 1});
        first.push_back(tensors.parameters[0].item<float>());
        second.push_back(tensors.parameters[16].item<float>());
      }
      EXPECT_THAT(first, ElementsAre(-1, -3.5, -4.75)) << "rank " << rank << ", servers " << servers;
      EXPECT_THAT(second, ElementsAre(-2, -7, -9.5)) << "rank " << rank << ", servers " << servers;
    });
  }
}

// The all-reduce of the ranks in this process adds in their order, as servers do: the weights are the same to the bit.
TEST(Server, ComputesWhatCentralizedDoesWithStateOnServersAlone) {
  const FlatLayout layout = layout_with_buffer({3, 24, 5});
  for (const char* rule : {"sgd", "adam", "adamw", "lion"}) {
    for (const int size : {1, 2, 3, 5}) {
      for (const int servers : {1, 2, 5}) {
        SCOPED_TRACE(fmt::format("{}, {} ranks, {} servers", rule, size, servers));
        on_ranks(size, [&](int rank, comm::Communicator& comm) {
          Json options = {{"rule", rule}};
          if (rule == std::string("sgd")) options["momentum"] = 0.9;
          const auto centralized = make_optimizer(named("centralized_sgd", options), layout, comm);
          options["servers"] = servers;
          const auto server = make_optimizer(served(options), layout, comm);
          EXPECT_TRUE(server->promise().exact && server->promise().replicated);
          FlatTensors expected = zeros_of(layout), tensors = zeros_of(layout);
          for (int step = 0; step < 20; ++step) {
            const at::Tensor gradient = drawn_for(layout, rank, step) / size;
            step_with(*centralized, expected, gradient, {step, 0.05, 1});
            step_with(*server, tensors, gradient, {step, 0.05, 1});
            EXPECT_TRUE(same_bits(tensors.parameters, expected.parameters)) << "rank " << rank << ", step " << step;
          }
          NamedState shared, own;
          server->export_state(shared);
          server->export_own_state(own);
          EXPECT_EQ(shared.tensors.empty(), size > 1);
          if (rank >= servers) {
            EXPECT_TRUE(own.tensors.empty()) << "rank " << rank << " is no server";
          }
        });
      }
    }
  }
}

// The tensors lie side by side, so that no padding is sent.
FlatLayout packed(const std::vector<int64_t>& counts) {
  FlatLayout layout;
  for (const int64_t count : counts) {
    layout.ranges.push_back(
        {fmt::format("t{}", layout.ranges.size()), {count}, layout.parameter_elements, count, true});
    layout.parameter_elements += count;
  }
  return layout;
}

class SentBytes final : public comm::OperationObserver {
 public:
  void begin(const comm::Operation& operation) noexcept override {
    if (operation.name == "send") bytes += operation.bytes;
  }
  void end(const comm::Operation&) noexcept override {}

  uint64_t bytes = 0;
};

// What a rank gives to the transport is what it promises and returns. Counted here one parameter at a time: its server
// sends it to the other ranks, and each of the others sends its gradient.
TEST(Server, BytesAreThoseOfTheFormula) {
  for (const std::vector<int64_t>& counts : std::vector<std::vector<int64_t>>{{}, {1}, {3, 1, 17, 103}}) {
    const FlatLayout layout = packed(counts);
    for (const int size : {1, 2, 3, 4, 5}) {
      for (const int servers : {1, 2, 1000}) {
        SCOPED_TRACE(fmt::format("{} parameters, {} ranks, {} servers", layout.parameter_count(), size, servers));
        on_ranks(size, [&](int rank, comm::Communicator& comm) {
          const int64_t used = std::min(servers, size), longest = (layout.parameter_elements + used - 1) / used;
          uint64_t expected = 0;
          for (int64_t i = 0; i < layout.parameter_elements; ++i) {
            const bool serves = i / longest == rank;
            expected += sizeof(float) * (serves ? static_cast<uint64_t>(size - 1) : 1);
          }
          const auto optimizer = make_optimizer(served({{"servers", servers}}), layout, comm);
          EXPECT_EQ(optimizer->promise().bytes_per_step, expected) << "rank " << rank;
          SentBytes sent;
          comm.board().attach(sent);
          FlatTensors tensors = zeros_of(layout);
          EXPECT_EQ(step_with(*optimizer, tensors, drawn_for(layout, rank, 0), {0, 0.1, 1}), expected);
          comm.board().detach(sent);
          EXPECT_EQ(sent.bytes, expected) << "rank " << rank;
        });
      }
    }
  }
}

TEST(Server, PaddingIsNotCounted) {
  const FlatLayout layout = layout_with_buffer({3, 5});
  on_ranks(3, [&](int rank, comm::Communicator& comm) {
    const auto one = make_optimizer(served(), layout, comm),
               two = make_optimizer(served({{"servers", 2}}), layout, comm);
    EXPECT_EQ(one->promise().bytes_per_step, 8 * sizeof(float) * (rank == 0 ? 2 : 1));
    const uint64_t of_two[] = {5 + 2 * 3, 3 + 2 * 5, 8};
    EXPECT_EQ(two->promise().bytes_per_step, sizeof(float) * of_two[rank]);
  });
}

// Whoever waits for the lost rank says which it is. A worker that waits for the server hears that the server has left.
TEST(Server, ALostRankIsNamedAndNobodyHangs) {
  const FlatLayout layout = layout_of({100});
  for (const int lost : {0, 1, 2}) {
    on_ranks(3, [&](int rank, comm::Communicator& comm) {
      const auto optimizer = make_optimizer(served(), layout, comm);
      FlatTensors tensors = zeros_of(layout);
      step_with(*optimizer, tensors, drawn_for(layout, rank, 0), {0, 0.1, 1});
      if (rank == lost) return;  // lets go of its communicator
      const int named = rank == 0 ? lost : 0;
      EXPECT_THAT(
          [&] {
            step_with(*optimizer, tensors, drawn_for(layout, rank, 1), {1, 0.1, 1});
          },
          ThrowsMessage<CommError>(HasSubstr(fmt::format("rank {} has left", named))))
          << "rank " << rank << ", lost " << lost;
    });
  }
}

// Muon on parts takes those of the pattern sharded, which servers on all ranks have, too.
TEST(Server, MuonOnPartsNeedsAServerOnEachRank) {
  FlatLayout layout = layout_with_buffer({24, 6});
  layout.ranges[0].shape = {4, 6};
  layout.ranges[1].use = TensorUse::kVector;
  on_ranks(2, [&](int rank, comm::Communicator& comm) {
    const auto make = [&](const Json& pattern) {
      Json options = {{"rule", "muon"}, {"orthogonalise", "gather"}};
      options.update(pattern);
      return make_optimizer(named("centralized_sgd", options), layout, comm);
    };
    const auto sharded = make({{"pattern", "sharded"}}), server = make({{"pattern", "server"}, {"servers", 2}});
    FlatTensors expected = zeros_of(layout), tensors = zeros_of(layout);
    for (int step = 0; step < 3; ++step) {
      const at::Tensor gradient = drawn_for(layout, rank, step) / 2;
      step_with(*sharded, expected, gradient, {step, 0.02, 1});
      step_with(*server, tensors, gradient, {step, 0.02, 1});
      EXPECT_TRUE(same_bits(tensors.parameters, expected.parameters)) << "rank " << rank << ", step " << step;
    }
    EXPECT_THAT(
        [&] {
          make({{"pattern", "server"}});
        },
        ThrowsMessage<UserError>(HasSubstr("server with as many servers as ranks")));
  });
}

TEST(Server, RefusesWhatNeedsTheWholeGradientOrAnotherMemory) {
  const FlatLayout layout = layout_of({3});
  on_ranks(2, [&](int, comm::Communicator& comm) {
    for (const Json& whole : {Json{{"clip_norm", 1}}, Json{{"loss_scale", 4}}, Json{{"rule", "lars"}}}) {
      EXPECT_THAT([&] { make_optimizer(served(whole), layout, comm); },
                  ThrowsMessage<UserError>(HasSubstr("have a part of the gradient each")));
    }
    SeparateMemory memory;
    EXPECT_THAT([&] { make_optimizer(served(), layout, comm, {.memory = &memory}); },
                ThrowsMessage<UserError>(HasSubstr("the pattern server sends parameters from the host's memory")));
  });
  expect_refusal(served({{"compression", "half"}}), "compression 'half' with the pattern server");
  expect_refusal(served({{"servers", 0}}), "'servers' of optimizer 'centralized_sgd' is 0; expected");
}

}  // namespace
}  // namespace mlbench::optim
