#include "mlbench/comm/wrap/cast.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/comm/contract_test.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/comm/wrapper.h"

namespace mlbench::comm {
namespace {

BackEnd cast_to(DType wire, const Float32Precision& precision) {
  BackEnd back_end = wrapped_in_process(fmt::format("cast[{}](in-process)", name_of(wire)),
                                        [wire](auto inner) { return make_cast(std::move(inner), wire); });
  back_end.float32 = precision;
  return back_end;
}

// Each operand and each sum is rounded to half a unit: over k ranks 2k - 1 times, of which the contract counts k - 1.
const BackEnd kBFloat16Cast = cast_to(DType::kBFloat16, {.rounding = 0x1.1p-7});
// The span keeps the values far from infinity; below 2^-14, float16 has steps of 2^-24.
const BackEnd kFloat16Cast = cast_to(DType::kFloat16, {.rounding = 0x1.1p-10, .smallest = 0x1p-23, .exponents = 8});

INSTANTIATE_TEST_SUITE_P(BFloat16Cast, ContractTest, testing::ValuesIn(contract_cases(kBFloat16Cast)),
                         contract_case_name);
INSTANTIATE_TEST_SUITE_P(BFloat16Cast, LostPeerContractTest, testing::ValuesIn(contract_cases(kBFloat16Cast)),
                         contract_case_name);
INSTANTIATE_TEST_SUITE_P(Float16Cast, ContractTest, testing::ValuesIn(contract_cases(kFloat16Cast)),
                         contract_case_name);

// What comes to the wrapped transport.
class Observed final : public Wrapper {
 public:
  using Wrapper::Wrapper;
  std::string description() const override { return "observed"; }
  void broadcast(BufferView buffer, int root) override {
    note(buffer);
    inner().broadcast(buffer, root);
  }
  void all_reduce(BufferView buffer, ReduceOp op) override {
    note(buffer);
    inner().all_reduce(buffer, op);
  }
  void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) override {
    note(input);
    inner().all_gather_v(input, output, counts);
  }
  void reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op) override {
    note(input);
    inner().reduce_scatter(input, output, op);
  }
  void reduce(BufferView buffer, ReduceOp op, int root) override {
    note(buffer);
    inner().reduce(buffer, op, root);
  }
  std::unique_ptr<Transport> split(int, int) override { return nullptr; }
  std::vector<std::string> seen;

 private:
  void note(const ConstBufferView& buffer) {
    seen.push_back(fmt::format("{} {}", buffer.count, name_of(buffer.dtype)));
  }
};

void on_two_ranks(DType wire, const std::function<void(Communicator&, std::vector<std::string>& seen)>& body) {
  auto transports = make_in_process_transports(2, kPatience);
  std::vector<std::thread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&, own = std::move(transport)]() mutable {
      auto observed = std::make_unique<Observed>(std::move(own));
      std::vector<std::string>& seen = observed->seen;
      Communicator comm(make_cast(std::move(observed), wire));
      body(comm, seen);
      comm.barrier();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Cast, FloatsOfFourOperationsTravelInSixteenBits) {
  on_two_ranks(DType::kBFloat16, [](Communicator& comm, std::vector<std::string>& seen) {
    std::vector<float> values(10), others(10);
    const BufferView whole = view_of(std::span(values));
    const BufferView half = view_of(std::span(others)).slice(0, 5);
    comm.broadcast(whole, 0);
    comm.all_reduce(whole, ReduceOp::kMax);
    comm.all_gather(half, whole);
    comm.reduce_scatter(whole, half, ReduceOp::kSum);
    comm.reduce(whole, ReduceOp::kSum, 0);  // not one of the four
    std::vector<double> wide(3);
    comm.all_reduce(view_of(std::span(wide)), ReduceOp::kSum);
    EXPECT_THAT(seen, testing::ElementsAre("10 bfloat16", "10 bfloat16", "5 bfloat16", "10 bfloat16", "10 float32",
                                           "3 float64"));
  });
}

// The root keeps no more than the others get.
TEST(Cast, AllRanksEndWithTheSameRoundedValues) {
  on_two_ranks(DType::kBFloat16, [](Communicator& comm, std::vector<std::string>&) {
    float value = 1.0F + 0x1p-7F + 0x1p-9F;  // between two of them, nearer to the lower
    comm.broadcast(view_of(std::span(&value, 1)), 0);
    EXPECT_EQ(value, 1.0F + 0x1p-7F);
    float own = comm.rank() == 0 ? 3.0F : -1.0F - 0x1p-8F;  // in the middle: to the even one
    std::vector<float> all(2);
    comm.all_gather(view_of(std::span(&own, 1)), view_of(std::span(all)));
    EXPECT_THAT(all, testing::ElementsAre(3.0F, -1.0F));
  });
}

TEST(Cast, WhatFloat16CannotHoldBecomesInfinite) {
  on_two_ranks(DType::kFloat16, [](Communicator& comm, std::vector<std::string>&) {
    std::vector<float> values = {40000.0F, 70000.0F, 1.0F, std::nanf("")};
    comm.all_reduce(view_of(std::span(values)), ReduceOp::kSum);
    EXPECT_EQ(values[0], std::numeric_limits<float>::infinity());
    EXPECT_EQ(values[1], std::numeric_limits<float>::infinity());
    EXPECT_EQ(values[2], 2.0F);
    EXPECT_TRUE(std::isnan(values[3]));
  });
}

TEST(Cast, IsToSixteenBits) {
  for (const DType dtype : {DType::kFloat32, DType::kInt8}) {
    EXPECT_THROW(make_cast(std::move(make_in_process_transports(1, kPatience).front()), dtype), InternalError);
  }
}

}  // namespace
}  // namespace mlbench::comm
