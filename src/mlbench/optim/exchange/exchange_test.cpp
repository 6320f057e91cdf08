// What holds for every row of the table of exchanges, in each of its forms: an exchange that is added gets these tests
// by a case.

#include "mlbench/optim/exchange/exchange.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/test_layout.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/compress/identity.h"
#include "mlbench/compress/natural.h"
#include "mlbench/compress/rows.h"
#include "mlbench/compress/toy_coders_test.h"
#include "mlbench/optim/exchange/combine.h"
#include "mlbench/optim/exchange/toy_exchanges_test.h"
#include "mlbench/optim/test_ranks.h"

namespace mlbench::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A model without parameters, and a tensor without elements, are nothing special.
const std::vector<std::vector<int64_t>> kLayouts = {{1}, {16, 32}, {3, 1, 17, 100003}, {}, {0}, {3, 0, 17}};

int64_t count_tensors(const FlatLayout& layout) { return std::max<int64_t>(1, std::ssize(layout.ranges) - 1); }
int64_t count_filled(const FlatLayout& layout) {
  return std::max<int64_t>(
      1, std::ranges::count_if(layout.ranges, [](const FlatRange& one) { return one.trainable && one.count > 0; }));
}
int64_t one(const FlatLayout&) { return 1; }
int64_t two_at_most(const FlatLayout& layout) { return std::min<int64_t>(2, count_tensors(layout)); }

struct ExchangeCase {
  std::string exchange;
  Json options;
  int64_t (*buckets)(const FlatLayout& layout);  // in which the gradient goes
  MakeExchange toy = {};                         // what is in no table
  compress::MakeCoder coder = {};                // empty: none
};

MakeExchange averaging(int64_t every) {
  return [every](const ExchangeContext& context) { return std::make_unique<NeighbourAveraging>(context, every); };
}

compress::MakeCoder with_memory() {
  return [](const compress::CoderContext& context) { return std::make_unique<compress::ErrorMemoryCoder>(context); };
}

compress::MakeCoder natural() {
  return [](const compress::CoderContext& context) { return std::make_unique<compress::NaturalCoder>(context); };
}

compress::MakeCoder int8() {
  return [](const compress::CoderContext& context) {
    return std::make_unique<compress::RowCoder>(compress::RowOptions(), context);
  };
}

std::vector<ExchangeCase> exchange_cases() {
  return {{"centralized", Json::object(), one},
          {"centralized", {{"by_layer", true}}, count_tensors},
          {"centralized", {{"bucket_mb", 1e-6}}, count_filled},  // by any tensor with elements
          {"centralized", {{"bucket_mb", 1}, {"by_layer", false}}, one},
          {"centralized", {{"overlap", true}}, one},
          {"centralized", {{"overlap", true}, {"by_layer", true}}, count_tensors},
          {"centralized", {{"overlap", true}, {"bucket_mb", 1e-6}}, count_filled},
          {"centralized", Json::object(), one, {}, with_memory()},
          {"sharded", Json::object(), one},
          {"server", Json::object(), one},
          {"server", {{"servers", 2}}, one},
          {"server", {{"servers", 1000}}, one},  // all ranks
          {"async_server", Json::object(), one},
          {"async_server", {{"staleness", 0}}, one},
          {"quantised", Json::object(), one, {}, natural()},
          {"quantised", Json::object(), one, {}, int8()},
          {"local", {{"every", 1}}, one},
          {"local", {{"every", 3}, {"outer_momentum", 0.5}}, one},
          {"local", {{"every", 2}, {"start_step", 2}}, one, {}, with_memory()},
          {"gossip", Json::object(), one},
          {"gossip", {{"topology", "complete"}, {"every", 2}}, one},
          {"choco", Json::object(), one, {}, natural()},
          {"choco", {{"topology", "complete"}, {"every", 2}}, one, {}, natural()},
          {"push_sum", Json::object(), one},
          {"push_sum", {{"topology", "ring"}, {"every", 2}}, one},
          {"streaming", {{"every", 2}, {"fragments", 2}}, two_at_most},
          {"streaming", {{"every", 3}, {"fragments", 2}, {"delay", 2}, {"overlap", true}}, two_at_most},
          {"streaming", {{"every", 4}, {"fragments", 2}, {"delay", 3}}, two_at_most, {}, with_memory()},
          {"neighbour_averaging", Json::object(), one, averaging(1)},
          {"neighbour_averaging", Json::object(), one, averaging(3)}};
}

class EveryExchange : public testing::TestWithParam<ExchangeCase> {};

INSTANTIATE_TEST_SUITE_P(Table, EveryExchange, testing::ValuesIn(exchange_cases()),
                         [](const auto& info) { return fmt::format("{}_{}", info.param.exchange, info.index); });

TEST(Exchanges, EveryRowHasACase) {
  std::set<std::string> tested;
  for (const ExchangeCase& test : exchange_cases()) tested.insert(test.exchange);
  for (const Json& row : list_exchanges()) EXPECT_EQ(tested.count(row["name"].get<std::string>()), 1U) << row;
}

at::Tensor sum_of_gradients(const FlatLayout& layout, int ranks, int step) {
  at::Tensor sum = drawn_for(layout, 0, step);
  for (int rank = 1; rank < ranks; ++rank) sum += drawn_for(layout, rank, step);
  return sum;
}

compress::MakeCoder coder_of(const ExchangeCase& test) {
  if (test.coder) return test.coder;
  return
      [](const compress::CoderContext& context) { return std::make_unique<compress::IdentityCoder>(context.layout); };
}

// An exchange with its coder.
class Subject {
 public:
  Subject(const ExchangeCase& test, const FlatLayout& layout, comm::Communicator& comm)
      : layout_(layout), coder_(coder_of(test)({layout_, 42, comm.rank()})) {
    const ExchangeContext context{.comm = comm, .coder = *coder_, .layout = layout_, .make_coder = coder_of(test)};
    if (test.toy) {
      exchange_ = test.toy(context);
      return;
    }
    OptionReader options("exchange", test.options);
    const MakeExchange make_exchange = read_exchange(test.exchange, options);
    options.finish();
    exchange_ = make_exchange(context);
  }

  Exchange& operator*() const { return *exchange_; }
  Exchange* operator->() const { return exchange_.get(); }

  // A step with this gradient; the rule takes a hundredth of it. Returns the bytes. `backward` does what happens
  // between begin and finish.
  uint64_t step(
      FlatTensors& tensors, const at::Tensor& gradient, int number,
      const std::function<void(Exchange&)>& backward = [](Exchange&) {}) const {
    exchange_->begin({number}, tensors);
    tensors.gradients.copy_(gradient);
    backward(*exchange_);
    const uint64_t bytes = exchange_->finish();
    tensors.parameters -= tensors.gradients * 0.01;
    return bytes + exchange_->after_update(tensors);
  }

  NamedState state() const {
    NamedState state;
    coder_->export_state(state);
    exchange_->export_state(state);
    return state;
  }
  void take(const NamedState& state) const {
    coder_->import_state(state);
    exchange_->import_state(state);
  }

 private:
  FlatLayout layout_;
  std::unique_ptr<compress::GradientCoder> coder_;
  std::unique_ptr<Exchange> exchange_;
};

// Ones, with zeros in the padding, as a framework has it.
FlatTensors tensors_of(const FlatLayout& layout) {
  FlatTensors tensors{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
  for (const FlatRange& range : layout.ranges) {
    if (range.trainable) tensors.parameters.narrow(0, range.offset, range.count).fill_(1);
  }
  return tensors;
}

// The communicator adds in the order of ranks, and so does the expected sum: equal to the bit, in all forms.
TEST_P(EveryExchange, KeepsWhatItPromises) {
  constexpr int kSteps = 4;
  for (const auto& counts : kLayouts) {
    // A bucket that is sent when all of its gradients are there has some.
    const bool sent_when_ready = GetParam().exchange == "centralized" && GetParam().options.value("overlap", false);
    if (sent_when_ready && (counts.empty() || std::ranges::count(counts, 0) > 0)) continue;
    const FlatLayout layout = layout_with_buffer(counts);
    for (const int size : {1, 2, 3, 4}) {
      SCOPED_TRACE(fmt::format("tensors of [{}], {} ranks", fmt::join(counts, ", "), size));
      std::vector<std::vector<at::Tensor>> parameters(static_cast<size_t>(size));  // [rank][step]
      on_ranks(size, [&](int rank, comm::Communicator& comm) {
        const Subject subject(GetParam(), layout, comm);
        const Promise promise = subject->promise();
        EXPECT_EQ(subject->effective()["buckets"], GetParam().buckets(layout));
        EXPECT_EQ(subject->effective()["by_layer"], GetParam().options.value("by_layer", false));
        EXPECT_EQ(subject->effective()["overlap"], GetParam().options.value("overlap", false));
        EXPECT_TRUE(subject->effective()["one_collective"].is_boolean());
        FlatTensors tensors = tensors_of(layout);
        for (int step = 0; step < kSteps; ++step) {
          const at::Tensor before = tensors.parameters.clone();
          subject->begin({step}, tensors);
          tensors.gradients.copy_(drawn_for(layout, rank, step));
          uint64_t bytes = subject->finish();
          EXPECT_TRUE(same_bits(tensors.parameters, before)) << "they are the rule's to change";
          if (promise.exact) {
            const FlatPart own = subject->own_part().value_or(FlatPart{0, layout.parameter_elements});
            const auto part = [&](const at::Tensor& flat) { return flat.narrow(0, own.offset, own.count); };
            EXPECT_TRUE(same_bits(part(tensors.gradients), part(sum_of_gradients(layout, size, step))))
                << "rank " << rank << ", step " << step;
          }
          tensors.parameters -= tensors.gradients * 0.01;
          bytes += subject->after_update(tensors);
          EXPECT_EQ(bytes, promise.bytes_per_step.value_or(bytes)) << "rank " << rank << ", step " << step;
          parameters[static_cast<size_t>(rank)].push_back(tensors.parameters.clone());
        }
        subject->settle(tensors);
        if (size == 1) {
          EXPECT_EQ(comm.board().read().sequence, 0) << "nobody to talk to";
        }
        if (!promise.replicated) return;
        comm.barrier();
        for (int step = 0; step < kSteps; ++step) {
          EXPECT_TRUE(same_bits(parameters[static_cast<size_t>(rank)][static_cast<size_t>(step)],
                                parameters[0][static_cast<size_t>(step)]))
              << "rank " << rank << ", step " << step;
        }
      });
    }
  }
}

TEST_P(EveryExchange, ResumesIdenticallyFromEachRanksState) {
  const FlatLayout layout = layout_with_buffer({3, 1, 17, 103});
  for (const int size : {1, 2, 3, 4}) {
    on_ranks(size, [&](int rank, comm::Communicator& comm) {
      const Subject whole(GetParam(), layout, comm);
      if (!whole->promise().deterministic) return;
      auto parts = std::make_unique<Subject>(GetParam(), layout, comm);
      FlatTensors expected = tensors_of(layout), resumed = tensors_of(layout);
      for (int step = 0; step < 6; ++step) {
        if (step == 0 || step == 4) {  // before the first step, too
          const NamedState state = parts->state();
          parts = std::make_unique<Subject>(GetParam(), layout, comm);
          parts->take(state);
        }
        const uint64_t bytes = whole.step(expected, drawn_for(layout, rank, step), step);
        EXPECT_EQ(parts->step(resumed, drawn_for(layout, rank, step), step), bytes);
        EXPECT_TRUE(same_bits(resumed.parameters, expected.parameters)) << "rank " << rank << ", step " << step;
      }
    });
  }
}

// Says when it encodes.
class WatchedCoder final : public compress::GradientCoder {
 public:
  WatchedCoder(std::unique_ptr<compress::GradientCoder> coder, bool& encoded)
      : coder_(std::move(coder)), encoded_(encoded) {}
  std::string name() const override { return coder_->name(); }
  int rounds() const override { return coder_->rounds(); }
  bool decodes_alone() const override { return coder_->decodes_alone(); }
  bool adds_payloads() const override { return coder_->adds_payloads(); }
  bool one_collective() const override { return coder_->one_collective(); }
  std::optional<uint64_t> bytes_per_step() const override { return coder_->bytes_per_step(); }
  void begin(const compress::StepContext& step) override { coder_->begin(step); }
  compress::Payload encode(int round, const at::Tensor& gradient) override {
    encoded_ = true;
    return coder_->encode(round, gradient);
  }
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override {
    coder_->absorb(round, results, gradient);
  }

 private:
  std::unique_ptr<compress::GradientCoder> coder_;
  bool& encoded_;
};

// What one rank has behind its steps (or the first of several), and in which of them it encoded.
std::pair<at::Tensor, std::vector<bool>> steps_of(const ExchangeCase& test, int size) {
  const FlatLayout layout = layout_with_buffer({3, 1, 17, 103});
  at::Tensor parameters;
  std::vector<bool> encoded;
  on_ranks(size, [&](int rank, comm::Communicator& comm) {
    bool now = false;
    ExchangeCase watched = test;
    watched.coder = [&](const compress::CoderContext& context) {
      return std::make_unique<WatchedCoder>(coder_of(test)(context), now);
    };
    const Subject subject(test.coder ? watched : test, layout, comm);
    FlatTensors tensors = tensors_of(layout);
    for (int step = 0; step < 8; ++step) {
      now = false;
      subject.step(tensors, drawn_for(layout, rank, step), step);
      if (rank == 0) encoded.push_back(now);
    }
    if (rank == 0) parameters = tensors.parameters;
  });
  return {parameters, encoded};
}

// One rank pays for its coder as each of several does, in time and in what the coder loses.
TEST_P(EveryExchange, EncodesForOneRankToo) {
  if (!GetParam().coder) return;
  const auto [parameters, encoded] = steps_of(GetParam(), 1);
  EXPECT_THAT(encoded, testing::Contains(true));
  EXPECT_EQ(encoded, steps_of(GetParam(), 2).second);
  if (GetParam().exchange == "choco") return;  // one rank mixes its parameters with nobody's
  ExchangeCase plain = GetParam();
  plain.coder = {};
  if (plain.exchange == "quantised") plain.exchange = "centralized";
  EXPECT_FALSE(same_bits(parameters, steps_of(plain, 1).first)) << "nothing was lost";
}

// Ranges one by one, all at once (a rank without samples), or none.
TEST_P(EveryExchange, GivesTheSameHoweverItIsToldWhatIsReady) {
  const FlatLayout layout = layout_with_buffer({3, 1, 17, 103});
  on_ranks(3, [&](int rank, comm::Communicator& comm) {
    const auto tell_all = [&](Exchange& exchange) { exchange.ready(0, layout.parameter_elements); };
    const auto tell_each = [&](Exchange& exchange) {
      for (auto range = layout.ranges.rbegin(); range != layout.ranges.rend(); ++range) {
        if (range->trainable) exchange.ready(range->offset, range->count);
      }
    };
    const Subject silent(GetParam(), layout, comm), told(GetParam(), layout, comm);
    if (!silent->promise().deterministic) return;
    FlatTensors expected = tensors_of(layout), tensors = tensors_of(layout);
    for (int step = 0; step < 6; ++step) {
      const at::Tensor gradient = drawn_for(layout, rank, step);
      silent.step(expected, gradient, step);
      const bool at_once = (step + rank) % 3 == 0;
      told.step(tensors, gradient, step,
                [&](Exchange& exchange) { at_once ? tell_all(exchange) : tell_each(exchange); });
      EXPECT_TRUE(same_bits(tensors.parameters, expected.parameters)) << "rank " << rank << ", step " << step;
    }
  });
}

TEST(CentralizedExchange, HasOneCollectivePerBucket) {
  const FlatLayout layout = layout_with_buffer({3, 1, 17, 103});
  for (const ExchangeCase& test : exchange_cases()) {
    if (test.exchange != "centralized" || test.coder) continue;
    on_ranks(2, [&](int rank, comm::Communicator& comm) {
      const Subject subject(test, layout, comm);
      FlatTensors tensors = tensors_of(layout);
      for (int step = 0; step < 3; ++step) {
        const int64_t before = comm.board().read().sequence;
        subject.step(tensors, drawn_for(layout, rank, step), step);
        // With overlap the order of several buckets is told once.
        const bool order = step == 0 && test.options.value("overlap", false) && test.buckets(layout) > 1;
        EXPECT_EQ(comm.board().read().sequence - before, test.buckets(layout) + (order ? 1 : 0));
      }
    });
  }
}

// Weights 0, 4, 8 and 12, and gradients of nothing. Every second time each takes the average of its own and its
// neighbours'.
TEST(NeighbourAveraging, TwoStepsComputedByHand) {
  const FlatLayout layout = layout_with_buffer({1});
  const float expected[][4] = {{}, {0}, {2, 2}, {4, 4, 4}, {16.0F / 3, 4, 8, 20.0F / 3}};
  for (const int size : {1, 2, 3, 4}) {
    on_ranks(size, [&](int rank, comm::Communicator& comm) {
      const Subject subject({"neighbour_averaging", Json::object(), one, averaging(2)}, layout, comm);
      FlatTensors tensors = tensors_of(layout);
      tensors.parameters.fill_(4 * rank);
      const at::Tensor none = at::zeros({layout.parameter_elements});
      EXPECT_EQ(subject.step(tensors, none, 0), 0U);
      EXPECT_EQ(tensors.parameters[0].item<float>(), static_cast<float>(4 * rank));
      EXPECT_EQ(subject.step(tensors, none, 1), (size == 1 ? 0U : size == 2 ? 1U : 2U) * sizeof(float));
      EXPECT_FLOAT_EQ(tensors.parameters[0].item<float>(), expected[size][rank]);
    });
  }
}

// A payload that is gathered, in two rounds: the first half, then the second.
class GatheringCoder final : public compress::GradientCoder {
 public:
  std::string name() const override { return "halves"; }
  int rounds() const override { return 2; }
  bool exact() const override { return true; }
  std::optional<uint64_t> bytes_per_step() const override { return 64 * sizeof(float); }
  compress::Payload encode(int round, const at::Tensor& gradient) override {
    const at::Tensor half = half_of(gradient, round).clone();
    return {compress::PayloadKind::kGather, half, static_cast<uint64_t>(half.numel()) * sizeof(float)};
  }
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override {
    at::Tensor half = half_of(gradient, round);
    half.copy_(results[0]);
    for (size_t rank = 1; rank < results.size(); ++rank) half += results[rank];
  }

 private:
  static at::Tensor half_of(const at::Tensor& gradient, int round) {
    return gradient.narrow(0, round * gradient.numel() / 2, gradient.numel() / 2);
  }
};

ExchangeCase gathering(Json options) {
  return {"centralized", std::move(options), one, {}, [](const compress::CoderContext&) {
            return std::make_unique<GatheringCoder>();
          }};
}

TEST(CentralizedExchange, GathersWhatACoderWantsGathered) {
  const FlatLayout layout = layout_with_buffer({16, 32, 5});
  for (const int size : {1, 2, 3, 4}) {
    on_ranks(size, [&](int rank, comm::Communicator& comm) {
      const Subject subject(gathering(Json::object()), layout, comm);
      FlatTensors tensors = tensors_of(layout);
      EXPECT_EQ(subject.step(tensors, drawn_for(layout, rank, 0), 0), size == 1 ? 0 : 64 * sizeof(float));
      EXPECT_TRUE(same_bits(tensors.gradients, sum_of_gradients(layout, size, 0))) << "rank " << rank << " of " << size;
      EXPECT_EQ(comm.board().read().sequence, size == 1 ? 0 : 2);
    });
  }
}

// Payloads of every type, whose lengths differ by rank: rank r gives r numbers, then r + 1, ...
TEST(Combine, GathersPayloadsOfAnyTypeAndLength) {
  for (const at::ScalarType type :
       {at::kByte, at::kChar, at::kInt, at::kLong, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    SCOPED_TRACE(at::toString(type));
    for (const int size : {1, 2, 3}) {
      on_ranks(size, [&](int rank, comm::Communicator& comm) {
        for (const int64_t more : {0, 1, 5}) {
          const auto payload_of = [&](int of) { return at::arange(of, 2 * of + more).to(type); };
          compress::Payload payload{compress::PayloadKind::kGather, payload_of(rank)};
          payload.uneven = true;
          const std::vector<at::Tensor> results = combine(comm, payload);
          ASSERT_EQ(results.size(), static_cast<size_t>(size));
          for (int of = 0; of < size; ++of) {
            const at::Tensor& result = results[static_cast<size_t>(of)];
            EXPECT_EQ(result.scalar_type(), type);
            EXPECT_TRUE(at::equal(result.to(at::kDouble), payload_of(of).to(at::kDouble))) << of;
          }
        }
      });
    }
  }
}

TEST(Combine, KeepsTheShapeOfEvenPayloadsAndAddsThoseOfAnyType) {
  on_ranks(2, [&](int rank, comm::Communicator& comm) {
    const compress::Payload gathered{compress::PayloadKind::kGather, at::full({2, 3}, rank, at::kDouble)};
    const std::vector<at::Tensor> results = combine(comm, gathered);
    ASSERT_EQ(results.size(), 2U);
    EXPECT_TRUE(at::equal(results[1], at::ones({2, 3}, at::kDouble)));
    EXPECT_EQ(comm.board().read().sequence, 1) << "their lengths are known";
    const compress::Payload summed{compress::PayloadKind::kSum, at::full({4}, rank + 1, at::kInt)};
    EXPECT_TRUE(at::equal(combine(comm, summed).at(0), at::full({4}, 3, at::kInt)));
  });
}

TEST(CentralizedExchange, DividesAndOverlapsNoCompressedGradient) {
  on_ranks(1, [](int, comm::Communicator& comm) {
    const auto with = [&](Json options) {
      return [&comm, options = std::move(options)] { Subject(gathering(options), layout_with_buffer({3}), comm); };
    };
    EXPECT_THAT(with({{"by_layer", true}}),
                ThrowsMessage<UserError>(HasSubstr("by_layer is true with compression 'halves'; expected")));
    EXPECT_THAT(with({{"bucket_mb", 2}}),
                ThrowsMessage<UserError>(HasSubstr("bucket_mb is 2 with compression 'halves'; expected")));
    EXPECT_THAT(with({{"overlap", true}}),
                ThrowsMessage<UserError>(HasSubstr("overlap is true with compression 'halves'; expected")));
  });
}

}  // namespace
}  // namespace mlbench::optim
