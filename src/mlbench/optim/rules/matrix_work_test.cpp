// Muon with its matrices divided among ranks: the weights of one that is not divided, bytes, owners, state, refusals.

#include "mlbench/optim/rules/matrix_work.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "mlbench/optim/exchange/steps_test.h"
#include "mlbench/optim/rules/hidden_matrices.h"

namespace mlbench::optim {
namespace {

// Matrices of several sizes, one of which is a convolution, between a vector and an embedding.
FlatLayout layout_of_model() {
  FlatLayout layout = layout_with_buffer({5, 60, 60, 96, 40, 24, 6});
  const std::vector<std::vector<int64_t>> shapes = {{5}, {6, 10}, {20, 3}, {8, 3, 4}, {10, 4}, {4, 6}, {6}};
  for (size_t i = 0; i < shapes.size(); ++i) layout.ranges[i].shape = shapes[i];
  layout.ranges[0].use = layout.ranges[6].use = TensorUse::kVector;
  layout.ranges[4].use = TensorUse::kEmbedding;
  return layout;
}

const std::map<std::string, Json> kWorks = {
    {"owner", {{"orthogonalise", "owner"}}},
    {"gather", {{"orthogonalise", "gather"}, {"pattern", "sharded"}}},
    {"all_to_all", {{"orthogonalise", "all_to_all"}, {"pattern", "sharded"}}},
};

// The bytes of a step, and what it does to the tensors.
uint64_t muon_step(Optimizer& optimizer, FlatTensors& tensors, const at::Tensor& share, int size, int step) {
  const uint64_t bytes = step_with(optimizer, tensors, share, {step, 0.02, 1.0 / size});
  EXPECT_EQ(bytes, optimizer.promise().bytes_per_step);
  return bytes;
}

FlatTensors begun(const FlatLayout& layout) {
  return {drawn_for(layout, 99, 0), at::zeros({layout.parameter_elements})};
}

TEST(MatrixWork, EachWayGivesTheWeightsOfReplicatedWork) {
  const FlatLayout layout = layout_of_model();
  for (const Json& more : {Json::object(), Json{{"nesterov", false}, {"adjust_lr", "original"}}}) {
    for (const auto& [name, work] : kWorks) {
      for (const int size : {1, 2, 3, 5}) {
        SCOPED_TRACE(fmt::format("{}, {} ranks, {}", name, size, more.dump()));
        std::vector<at::Tensor> results(static_cast<size_t>(size));
        on_ranks(size, [&, &work = work](int rank, comm::Communicator& comm) {
          Json options = more;
          const auto replicated = make_optimizer(named("muon", options), layout, comm);
          options.update(work);
          const auto divided = make_optimizer(named("muon", options), layout, comm);
          EXPECT_EQ(divided->effective()["one_collective"], size == 1);
          FlatTensors expected = begun(layout), tensors = begun(layout);
          for (int step = 0; step < 6; ++step) {
            const at::Tensor share = drawn_for(layout, rank, step) / size;
            muon_step(*replicated, expected, share, size, step);
            muon_step(*divided, tensors, share, size, step);
            EXPECT_LT((tensors.parameters - expected.parameters).abs().max().item<double>(), 5e-7) << "step " << step;
          }
          EXPECT_GT((tensors.parameters - begun(layout).parameters).abs().max().item<double>(), 0.01) << "it moved";
          results[static_cast<size_t>(rank)] = tensors.parameters;
        });
        for (const at::Tensor& result : results) EXPECT_TRUE(same_bits(result, results.front()));
      }
    }
  }
}

// Four matrices of 60, 60, 96 and 24 elements. Costs m m (2 n + m) of 6 x 10, 3 x 20, 8 x 12 and 4 x 6: 936, 387, 2048
// and 256. Of two ranks, the first owns the third (2048), the second one all others. The buffers have 336 elements with
// padding, and parts 168: the first one ends 24 elements into the third matrix, which begins at 144.
TEST(MatrixWork, BytesOfTwoRanksByHand) {
  const FlatLayout layout = layout_of_model();
  ASSERT_EQ(layout.parameter_elements, 336);
  const uint64_t gradient = 4 * (5 + 60 + 60 + 96 + 40 + 24 + 6), half = 4 * 336 + 4 * 168;
  const std::map<std::string, std::vector<uint64_t>> expected = {
      {"owner", {gradient + 4 * 96, gradient + 4 * (60 + 60 + 24)}},
      {"gather", {half + 4 * (60 + 60 + 24), half + 4 * (96 - 24 + 24)}},
      {"all_to_all", {half + 4 * (60 + 60 + 24 + 96), half + 4 * (96 - 24 + 24 + 60 + 60 + 24)}},
  };
  for (const auto& [name, work] : kWorks) {
    on_ranks(2, [&, &name = name, &work = work](int rank, comm::Communicator& comm) {
      const auto optimizer = make_optimizer(named("muon", work), layout, comm);
      FlatTensors tensors = begun(layout);
      EXPECT_EQ(muon_step(*optimizer, tensors, drawn_for(layout, rank, 0), 2, 0),
                expected.at(name)[static_cast<size_t>(rank)])
          << name << ", rank " << rank;
    });
  }
}

TEST(MatrixWork, OwnersHaveAboutAsMuchToDo) {
  FlatLayout layout = layout_of(std::vector<int64_t>(9, 400));
  for (FlatRange& range : layout.ranges) range.shape = {20, 20};
  on_ranks(3, [&](int, comm::Communicator& comm) {
    const DistributedMatrices work(MatrixWork::kOwner, hidden_matrices(layout), std::nullopt, &comm);
    EXPECT_EQ(work.bytes_per_step(), 3 * 400 * sizeof(float)) << "three matrices each";
  });
}

// Ranks with parts have the momenta and moments of these alone, and resume from them.
TEST(MatrixWork, PartsHaveAPartOfTheStateAndResumeFromIt) {
  const FlatLayout layout = layout_of_model();
  for (const auto& [name, work] : kWorks) {
    if (name == "owner") continue;
    for (const int size : {2, 3}) {
      std::vector<int64_t> momenta(static_cast<size_t>(size));
      on_ranks(size, [&, &work = work](int rank, comm::Communicator& comm) {
        const auto whole = make_optimizer(named("muon", work), layout, comm);
        auto parts = make_optimizer(named("muon", work), layout, comm);
        FlatTensors expected = begun(layout), resumed = begun(layout);
        for (int step = 0; step < 5; ++step) {
          NamedState shared, own;
          if (step == 0 || step == 3) {
            parts->export_state(shared);
            parts->export_own_state(own);
            EXPECT_TRUE(shared.tensors.empty());
            parts = make_optimizer(named("muon", work), layout, comm);
            parts->import_state(shared);
            parts->import_own_state(own);
          }
          const at::Tensor share = drawn_for(layout, rank, step) / size;
          muon_step(*whole, expected, share, size, step);
          muon_step(*parts, resumed, share, size, step);
          EXPECT_TRUE(same_bits(resumed.parameters, expected.parameters)) << "step " << step;
          if (step != 3) continue;
          for (const auto& [key, tensor] : own.tensors) {
            if (key.starts_with("optimizer/momentum/")) momenta[static_cast<size_t>(rank)] += tensor.shape.at(0);
          }
        }
      });
      EXPECT_EQ(std::accumulate(momenta.begin(), momenta.end(), int64_t{0}), 60 + 60 + 96 + 24) << name;
    }
  }
}

TEST(MatrixWork, RefusesWhatDoesNotFit) {
  const auto refused = [](const Json& options, const std::string& text) {
    on_ranks(2, [&](int, comm::Communicator& comm) {
      EXPECT_THAT([&] { make_optimizer(named("muon", options), layout_of_model(), comm); },
                  testing::ThrowsMessage<UserError>(testing::HasSubstr(text)));
    });
  };
  refused({{"orthogonalise", "gather"}}, "expected the pattern sharded, or owner");
  refused({{"orthogonalise", "all_to_all"}}, "expected the pattern sharded, or owner");
  refused({{"orthogonalise", "owner"}, {"pattern", "sharded"}}, "expected gather or all_to_all");
  refused({{"orthogonalise", "owner"}, {"pattern", "local"}}, "expected replicated");
  refused({{"orthogonalise", "owner"}, {"pattern", "gossip"}}, "expected replicated");
  refused({{"pattern", "sharded"}}, "muon with orthogonalise gather or all_to_all");
  refused({{"orthogonalise", "all"}}, "has no orthogonalise 'all'");
  SeparateMemory memory;
  const auto comm = one_rank();
  EXPECT_THAT(
      [&] {
        make_optimizer(named("muon", {{"orthogonalise", "owner"}}), layout_of_model(), *comm, {.memory = &memory});
      },
      testing::ThrowsMessage<UserError>(testing::HasSubstr("a GPU's memory")));
}

}  // namespace
}  // namespace mlbench::optim
