// The all-reduce of coded parts: steps computed by hand, bytes, bounds, what is kept, and what is refused.

#include "mlbench/optim/exchange/quantised.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "mlbench/base/random.h"
#include "mlbench/optim/exchange/part_coders.h"
#include "mlbench/optim/exchange/steps_test.h"

namespace mlbench::optim {
namespace {

using ::testing::ElementsAre;

spec::OptimizerSpec quantised(const std::string& coder, Json options = Json::object()) {
  options["pattern"] = "quantised";
  options["compression"] = coder;
  return named("centralized_sgd", options);
}

// A vector, a matrix of 7 rows of 5, and a vector: some part cuts a row whatever the number of ranks.
FlatLayout layout_with_rows() {
  FlatLayout layout = layout_with_buffer({3, 35, 20});
  layout.ranges[1].shape = {7, 5};
  return layout;
}

at::Tensor drawn_share(const FlatLayout& layout, int rank, int step) {
  RandomSequence random(static_cast<uint64_t>(1000 * rank + step));
  at::Tensor gradient = at::zeros({layout.parameter_elements});
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    for (int64_t i = 0; i < range.count; ++i) gradient[range.offset + i] = random.normal();
  }
  return gradient;
}

// The sum that a step leaves in the gradients; also the bytes.
std::pair<at::Tensor, uint64_t> summed(Optimizer& optimizer, const at::Tensor& share, int size, int step) {
  FlatTensors tensors{at::zeros_like(share), share.clone()};
  optimizer.begin({step, 1, 1.0 / size}, tensors);
  const uint64_t bytes = optimizer.finish();
  return {tensors.gradients, bytes};
}

// Two tensors of two elements, the parts of two ranks. Scales are 1 on rank 0 and 3 on rank 1, so that rank 0 rounds
// 11.4 to 11 and keeps 0.4. Rank 1's 6 is exact. The scale of the sum is 254 / 127 = 2:
//   17 / 2 = 8.5 -> 8: 16 comes out, 1 is kept
//   11.4 + 0.4 -> 12, 18 + 1 = 19, 9.5 -> 10: 20 comes out, -1 is kept
//   11.4 - 0.2 -> 11, 17 - 1 = 16: it comes out
TEST(Quantised, ThreeStepsComputedByHand) {
  const FlatLayout layout = layout_of({2, 2});
  on_ranks(2, [&](int rank, comm::Communicator& comm) {
    const auto optimizer = make_optimizer(quantised("int8"), layout, comm);
    at::Tensor share = at::zeros({layout.parameter_elements});
    for (const int64_t tensor : {0, 16}) {
      share[tensor] = rank == 0 ? 127.0 : -381.0;
      share[tensor + 1] = rank == 0 ? 11.4 : 6.0;
    }
    std::vector<float> first, second;
    for (int step = 0; step < 3; ++step) {
      const auto [sum, bytes] = summed(*optimizer, share, 2, step);
      EXPECT_EQ(bytes, 3U * (4 + 2)) << "a scale and two elements: of each part, and of the sum";
      EXPECT_EQ(sum[0].item<float>(), -254);
      EXPECT_EQ(sum[16].item<float>(), -254);
      first.push_back(sum[1].item<float>());
      second.push_back(sum[17].item<float>());
    }
    EXPECT_THAT(first, ElementsAre(16, 20, 16));
    EXPECT_THAT(second, ElementsAre(16, 20, 16));
  });
}

// Elements, and 4 bytes per row of each part, counted here one element at a time.
TEST(Quantised, SendsItsPartsAndTheSumOfOneOfThem) {
  const FlatLayout layout = layout_with_rows();
  for (const int size : {1, 2, 3, 4, 5}) {
    const int64_t part_elements = (layout.parameter_elements + size - 1) / size;
    std::vector<uint64_t> part_bytes(static_cast<size_t>(size));
    std::set<std::tuple<int64_t, size_t, int64_t>> rows;  // part, tensor, row
    for (size_t tensor = 0; tensor < layout.ranges.size(); ++tensor) {
      const FlatRange& range = layout.ranges[tensor];
      if (!range.trainable) continue;
      for (int64_t i = 0; i < range.count; ++i) {
        const int64_t part = (range.offset + i) / part_elements;
        ++part_bytes[static_cast<size_t>(part)];
        if (rows.insert({part, tensor, range.shape.size() > 1 ? i / 5 : 0}).second) {
          part_bytes[static_cast<size_t>(part)] += sizeof(float);
        }
      }
    }
    uint64_t all = 0;
    for (const uint64_t bytes : part_bytes) all += bytes;
    if (size > 1) {
      EXPECT_GE(all, 58U + 9 * sizeof(float)) << "each row has a scale in each part that has some of it";
    }
    on_ranks(size, [&](int rank, comm::Communicator& comm) {
      for (const char* coder : {"int8", "fp8"}) {
        const auto optimizer = make_optimizer(quantised(coder), layout, comm);
        const uint64_t expected = size == 1 ? 0 : all + part_bytes[static_cast<size_t>(rank)];
        EXPECT_EQ(optimizer->promise().bytes_per_step, expected) << coder << ", rank " << rank << " of " << size;
        const int64_t before = comm.board().read().sequence;
        EXPECT_EQ(summed(*optimizer, drawn_share(layout, rank, 0), size, 0).second, expected);
        EXPECT_EQ(comm.board().read().sequence - before, size == 1 ? 0 : 2) << "an all-to-all and an all-gather";
      }
    });
  }
}

// An element is off by at most half a step of its row in each share, and half a step of the sum's row. A step of int8
// is m / 127, and the largest magnitude of all elements is a bound for those of rows. e4m3 has 3 bits behind the
// leading one, so an element is off by a sixteenth of itself, or by half of the smallest step, m / 448 / 512.
TEST(Quantised, ErrorsStayWithinTheBound) {
  const FlatLayout layout = layout_with_rows();
  for (const char* coder : {"int8", "fp8"}) {
    const auto bound = [&](const at::Tensor& values) {
      const at::Tensor most = values.abs().max();
      if (coder == std::string("int8")) return at::Tensor(at::ones_like(values) * most / 254);
      return at::Tensor(at::maximum(values.abs() / 16, most / 448 / 1024));
    };
    for (const int size : {1, 2, 3, 5}) {
      std::vector<at::Tensor> results(static_cast<size_t>(size));
      at::Tensor exact = at::zeros({layout.parameter_elements}), allowed = exact.clone();
      for (int rank = 0; rank < size; ++rank) {
        const at::Tensor share = drawn_share(layout, rank, 3);
        exact += share;
        allowed += bound(share);
      }
      on_ranks(size, [&](int rank, comm::Communicator& comm) {
        const auto optimizer = make_optimizer(quantised(coder, {{"error_feedback", false}}), layout, comm);
        results[static_cast<size_t>(rank)] = summed(*optimizer, drawn_share(layout, rank, 3), size, 3).first;
      });
      allowed = allowed + bound(exact.abs() + allowed);
      for (const at::Tensor& result : results) {
        EXPECT_TRUE(same_bits(result, results.front()));
        EXPECT_TRUE(((result - exact).abs() <= allowed * (1 + 1e-5)).all().item<bool>()) << coder << " " << size;
        EXPECT_GT((result - exact).abs().max().item<float>(), 0) << "it is coded";
      }
    }
  }
}

// What came out so far, and what all ranks keep, of their own gradients and of their sums, are the gradients so far.
TEST(Quantised, LosesNothingWithErrorFeedback) {
  const FlatLayout layout = layout_with_rows();
  for (const char* coder : {"int8", "fp8", "ef_sign", "one_bit"}) {
    for (const int size : {1, 2, 3}) {
      std::vector<at::Tensor> kept(static_cast<size_t>(size)), received(static_cast<size_t>(size));
      at::Tensor given = at::zeros({layout.parameter_elements});
      on_ranks(size, [&](int rank, comm::Communicator& comm) {
        const auto number = static_cast<size_t>(rank);
        const auto optimizer = make_optimizer(quantised(coder), layout, comm);
        received[number] = at::zeros({layout.parameter_elements});
        kept[number] = at::zeros({layout.parameter_elements});
        for (int step = 0; step < 8; ++step) {
          received[number] += summed(*optimizer, drawn_share(layout, rank, step), size, step).first;
        }
        NamedState state;
        optimizer->export_own_state(state);
        const int64_t part_elements = (layout.parameter_elements + size - 1) / size;
        const auto keep = [&](const std::string& key, int64_t part) {
          const auto& stored = state.tensor(key + "coder/error");
          at::Tensor error = at::empty(stored.shape);
          std::memcpy(error.data_ptr(), stored.bytes.data(), stored.bytes.size());
          kept[number].narrow(0, part * part_elements, error.numel()) += error;
        };
        for (int part = 0; part < size; ++part) keep(fmt::format("exchange/part{}/", part), part);
        keep("exchange/sum/", rank);
      });
      at::Tensor missing = at::zeros({layout.parameter_elements});
      for (int rank = 0; rank < size; ++rank) {
        for (int step = 0; step < 8; ++step) given += drawn_share(layout, rank, step);
        missing += kept[static_cast<size_t>(rank)];
      }
      EXPECT_GT(missing.abs().max().item<float>(), 0);
      EXPECT_LT((given - received.front() - missing).abs().max().item<float>(),
                1e-5 * (1 + given.abs().max().item<float>()))
          << coder << ", " << size << " ranks";
    }
  }
}

// Coding the sum draws other numbers than coding the shares: the mean of many draws is the sum.
TEST(Quantised, CodersThatDrawHaveNoBias) {
  const FlatLayout layout = layout_of({20});
  constexpr int kDraws = 10000;
  for (const char* coder : {"qsgd", "natural"}) {
    on_ranks(2, [&](int rank, comm::Communicator& comm) {
      const Json options = coder == std::string("qsgd") ? Json{{"bits", 3}} : Json::object();
      const auto optimizer = make_optimizer(quantised(coder, options), layout, comm);
      at::Tensor mean = at::zeros({layout.parameter_elements}, at::kDouble), squares = mean.clone();
      for (int draw = 0; draw < kDraws; ++draw) {
        const at::Tensor sum = summed(*optimizer, drawn_share(layout, rank, 0), 2, draw).first.to(at::kDouble);
        mean += sum / kDraws;
        squares += sum.square() / kDraws;
      }
      const at::Tensor exact = drawn_share(layout, 0, 0) + drawn_share(layout, 1, 0);
      const at::Tensor deviation = (squares - mean.square()).clamp_min(0).sqrt();
      const at::Tensor allowed = deviation * 4 / std::sqrt(static_cast<double>(kDraws)) + 1e-6;
      EXPECT_TRUE(((mean - exact).abs() <= allowed).all().item<bool>()) << coder << (mean - exact).abs() / allowed;
    });
  }
}

// There and back, once in each step, whatever the number of ranks; the sums are those of the host's memory.
TEST(Quantised, GradientsInSeparateMemoryGoThroughTheHosts) {
  const FlatLayout layout = layout_with_rows();
  for (const int size : {1, 3}) {
    on_ranks(size, [&](int rank, comm::Communicator& comm) {
      SeparateMemory memory;
      const auto staged = make_optimizer(quantised("int8"), layout, comm, {.memory = &memory});
      const auto plain = make_optimizer(quantised("int8"), layout, comm);
      EXPECT_EQ(staged->effective().at("staged"), true);
      EXPECT_FALSE(plain->effective().contains("staged"));
      for (int step = 0; step < 2; ++step) {
        const at::Tensor share = drawn_share(layout, rank, step);
        EXPECT_TRUE(same_bits(summed(*staged, share, size, step).first, summed(*plain, share, size, step).first));
      }
      EXPECT_EQ(memory.flat_bytes, 2 * 2 * static_cast<uint64_t>(layout.parameter_elements) * sizeof(float));
    });
  }
}

TEST(Quantised, RefusesWhatRanksCannotAddUp) {
  for (const char* coder : {"none", "half", "top_k", "threshold", "sign_vote", "power_sgd", "ef21"}) {
    expect_refusal(quantised(coder), fmt::format("compression '{}' with the pattern quantised", coder));
  }
  expect_refusal(quantised("qsgd", {{"coding", "elias"}}), "qsgd with coding=\"fixed\"");
}

TEST(LayoutOfPart, KeepsRowsThatAreWhole) {
  const FlatLayout layout = layout_with_rows();  // tensors at 0, 16 and 64
  const auto shapes = [&](int64_t offset, int64_t count) {
    std::vector<std::pair<int64_t, std::vector<int64_t>>> found;
    for (const FlatRange& range : layout_of_part(layout, {offset, count}).ranges) {
      found.emplace_back(range.offset, range.shape);
      int64_t elements = 1;
      for (const int64_t extent : range.shape) elements *= extent;
      EXPECT_EQ(elements, range.count);
    }
    return found;
  };
  using Shape = std::vector<int64_t>;
  using Found = std::pair<int64_t, Shape>;
  EXPECT_THAT(shapes(0, layout.parameter_elements), ElementsAre(Found{0, {3}}, Found{16, {7, 5}}, Found{64, {20}}));
  EXPECT_THAT(shapes(2, 26), ElementsAre(Found{0, {1}}, Found{14, {2, 5}}, Found{24, {2}}));
  EXPECT_THAT(shapes(18, 16), ElementsAre(Found{0, {3}}, Found{3, {2, 5}}, Found{13, {3}}));
  EXPECT_THAT(shapes(18, 3), ElementsAre(Found{0, {3}})) << "the end of a row";
  EXPECT_THAT(shapes(22, 2), ElementsAre(Found{0, {2}})) << "within a row";
  EXPECT_THAT(shapes(24, 4), ElementsAre(Found{0, {2}}, Found{2, {2}})) << "of two rows";
  EXPECT_THAT(shapes(52, 10), ElementsAre()) << "padding";
}

}  // namespace
}  // namespace mlbench::optim
