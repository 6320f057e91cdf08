// What holds for every row of the table of exchanges, in each of its forms: an exchange that is added gets these tests
// by a case.

#include "mlbench/optim/exchange/exchange.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/comm/in_process.h"

namespace mlbench::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::chrono::seconds kTimeout{20};

// Tensors of so many elements, each at a multiple of 64 bytes, and a buffer that is none of the gradient's business.
FlatLayout layout_of(const std::vector<int64_t>& counts) {
  FlatLayout layout;
  for (const int64_t count : counts) {
    layout.ranges.push_back(
        {fmt::format("t{}", layout.ranges.size()), {count}, layout.parameter_elements, count, true});
    layout.parameter_elements += (count + 15) / 16 * 16;
  }
  layout.ranges.push_back({"mean", {7}, 0, 7, false});
  layout.buffer_elements = 16;
  return layout;
}

const std::vector<std::vector<int64_t>> kLayouts = {{1}, {16, 32}, {3, 1, 17, 100003}};

int64_t count_tensors(const FlatLayout& layout) { return std::ssize(layout.ranges) - 1; }
int64_t one(const FlatLayout&) { return 1; }

struct Case {
  std::string exchange;
  Json options;
  int64_t (*buckets)(const FlatLayout& layout);  // in which the gradient goes
};

std::vector<Case> cases() {
  return {{"centralized", Json::object(), one},
          {"centralized", {{"by_layer", true}}, count_tensors},
          {"centralized", {{"bucket_mb", 1e-6}}, count_tensors},  // filled by any tensor
          {"centralized", {{"bucket_mb", 1}, {"by_layer", false}}, one}};
}

class EveryExchange : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Table, EveryExchange, testing::ValuesIn(cases()),
                         [](const auto& info) { return fmt::format("{}_{}", info.param.exchange, info.index); });

TEST(Exchanges, EveryRowHasACase) {
  std::set<std::string> tested;
  for (const Case& test : cases()) tested.insert(test.exchange);
  for (const std::string& name : exchange_names()) EXPECT_EQ(tested.count(name), 1U) << name;
}

at::Tensor gradient_of(const FlatLayout& layout, int rank, int step) {
  RandomSequence random(static_cast<uint64_t>(100 * rank + step));
  at::Tensor gradient = at::zeros({layout.parameter_elements});
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    for (int64_t i = 0; i < range.count; ++i) {
      gradient.data_ptr<float>()[range.offset + i] = static_cast<float>(random.normal());
    }
  }
  return gradient;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == b.numel() &&
         std::memcmp(a.data_ptr<float>(), b.data_ptr<float>(), static_cast<size_t>(a.numel()) * sizeof(float)) == 0;
}

void on_ranks(int size, const std::function<void(int, comm::Communicator&)>& body) {
  auto group = comm::make_in_process_group(size, kTimeout);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] { body(rank, *group[static_cast<size_t>(rank)]); });
  }
  for (std::thread& thread : threads) thread.join();
}

std::unique_ptr<Exchange> make(const Case& test, const FlatLayout& layout, comm::Communicator& comm,
                               compress::GradientCoder& coder) {
  OptionReader options("exchange", test.options);
  const MakeExchange make_exchange = read_exchange(test.exchange, options);
  options.finish();
  return make_exchange(comm, coder, layout);
}

// The communicator adds in the order of ranks, and so does the expected sum: equal to the bit, in all forms.
TEST_P(EveryExchange, GivesEveryRankThePlainSumAndCountsItsBytes) {
  constexpr int kSteps = 2;
  for (const auto& counts : kLayouts) {
    const FlatLayout layout = layout_of(counts);
    const int64_t buckets = GetParam().buckets(layout);
    for (const int size : {1, 2, 3, 4}) {
      SCOPED_TRACE(fmt::format("{} tensors, {} ranks", counts.size(), size));
      on_ranks(size, [&](int rank, comm::Communicator& comm) {
        const auto coder = compress::make_coder("none", layout);
        const auto exchange = make(GetParam(), layout, comm, *coder);
        EXPECT_EQ(exchange->effective(), (Json{{"overlap", false},
                                               {"buckets", buckets},
                                               {"by_layer", GetParam().options.value("by_layer", false)}}));
        for (int step = 0; step < kSteps; ++step) {
          FlatTensors tensors{at::ones({layout.parameter_elements}), gradient_of(layout, rank, step)};
          const auto bytes = exchange->aggregate(tensors);
          EXPECT_EQ(bytes, size == 1 ? 0 : static_cast<uint64_t>(layout.parameter_count()) * sizeof(float));
          at::Tensor sum = gradient_of(layout, 0, step);
          for (int peer = 1; peer < size; ++peer) sum += gradient_of(layout, peer, step);
          EXPECT_TRUE(same_bits(tensors.gradients, sum)) << "rank " << rank << ", step " << step;
          EXPECT_TRUE(at::equal(tensors.parameters, at::ones({layout.parameter_elements})));
        }
        EXPECT_EQ(comm.board().read().sequence, size == 1 ? 0 : kSteps * buckets) << "one collective per bucket";
      });
    }
  }
}

// A payload that is gathered, in two rounds: the first half, then the second.
class GatheringCoder final : public compress::GradientCoder {
 public:
  std::string name() const override { return "halves"; }
  int rounds() const override { return 2; }
  compress::Payload encode(int round, const at::Tensor& gradient) override {
    const at::Tensor half = half_of(gradient, round).clone();
    return {compress::PayloadKind::kGather, half, static_cast<uint64_t>(half.numel()) * sizeof(float)};
  }
  void absorb(int round, const at::Tensor& result, at::Tensor& gradient) override {
    at::Tensor half = half_of(gradient, round);
    half.copy_(result[0]);
    for (int64_t rank = 1; rank < result.size(0); ++rank) half += result[rank];
  }
  void export_state(NamedState&) const override {}
  void import_state(const NamedState&) override {}

 private:
  static at::Tensor half_of(const at::Tensor& gradient, int round) {
    return gradient.narrow(0, round * gradient.numel() / 2, gradient.numel() / 2);
  }
};

TEST(CentralizedExchange, GathersWhatACoderWantsGathered) {
  const FlatLayout layout = layout_of({16, 32, 5});
  for (const int size : {1, 2, 3, 4}) {
    on_ranks(size, [&](int rank, comm::Communicator& comm) {
      GatheringCoder coder;
      const auto exchange = make({"centralized", Json::object(), one}, layout, comm, coder);
      FlatTensors tensors{at::ones({layout.parameter_elements}), gradient_of(layout, rank, 0)};
      EXPECT_EQ(exchange->aggregate(tensors), size == 1 ? 0 : 64 * sizeof(float));
      at::Tensor sum = gradient_of(layout, 0, 0);
      for (int peer = 1; peer < size; ++peer) sum += gradient_of(layout, peer, 0);
      EXPECT_TRUE(same_bits(tensors.gradients, sum)) << "rank " << rank << " of " << size;
      EXPECT_EQ(comm.board().read().sequence, size == 1 ? 0 : 2);
    });
  }
}

TEST(CentralizedExchange, DividesNoCompressedGradient) {
  on_ranks(1, [](int, comm::Communicator& comm) {
    GatheringCoder coder;
    const auto with = [&](Json options) {
      return [&comm, &coder, options = std::move(options)] {
        make({"centralized", options, one}, layout_of({3}), comm, coder);
      };
    };
    EXPECT_THAT(with({{"by_layer", true}}),
                ThrowsMessage<UserError>(HasSubstr("by_layer is true with compression 'halves'; expected")));
    EXPECT_THAT(with({{"bucket_mb", 2}}),
                ThrowsMessage<UserError>(HasSubstr("bucket_mb is 2 with compression 'halves'; expected")));
  });
}

}  // namespace
}  // namespace mlbench::optim
