#include "mlbench/comm/wrap/check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <utility>

#include "mlbench/comm/contract_test.h"

namespace mlbench::comm {
namespace {

const BackEnd kCheck = wrapped_in_process("check(in-process)", [](auto inner) { return make_check(std::move(inner)); });

INSTANTIATE_TEST_SUITE_P(Check, ContractTest, testing::ValuesIn(contract_cases(kCheck)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(Check, LostPeerContractTest, testing::ValuesIn(contract_cases(kCheck)), contract_case_name);

// Three ranks of which rank 1 does something else; all hear the same of it, and nobody waits.
struct Mismatch {
  const char* name;
  std::function<void(Communicator&, bool other)> call;
  const char* expected;  // behind "rank R of 3: "
};

template <typename T>
BufferView some(std::vector<T>& values, int64_t count) {
  values.resize(64);
  return view_of(std::span(values)).slice(0, count);
}

const std::vector<Mismatch>& mismatches() {
  static const std::vector<Mismatch> all = {
      {"Operation",
       [](Communicator& comm, bool other) {
         std::vector<float> values;
         if (other) {
           comm.broadcast(some(values, 4), 0);
         } else {
           comm.all_reduce(some(values, 4), ReduceOp::kSum);
         }
       },
       "collective 2 differs: ranks 0, 2: all_reduce of 4 float32, sum; rank 1: broadcast of 4 float32 from root 0"},
      {"Count",
       [](Communicator& comm, bool other) {
         std::vector<int64_t> values;
         comm.all_reduce_async(some(values, other ? 5 : 4), ReduceOp::kMax)->wait();
       },
       "collective 2 differs: ranks 0, 2: all_reduce of 4 int64, max; rank 1: all_reduce of 5 int64, max"},
      {"DType",
       [](Communicator& comm, bool other) {
         std::vector<float> reals;
         std::vector<int32_t> whole;
         comm.broadcast(other ? some(whole, 4) : some(reals, 4), 2);
       },
       "collective 2 differs: ranks 0, 2: broadcast of 4 float32 from root 2; rank 1: broadcast of 4 int32 from root "
       "2"},
      {"Root",
       [](Communicator& comm, bool other) {
         std::vector<double> values;
         comm.reduce(some(values, 1), ReduceOp::kProd, other ? 1 : 0);
       },
       "collective 2 differs: ranks 0, 2: reduce of 1 float64, prod to root 0; rank 1: reduce of 1 float64, prod to "
       "root 1"},
      {"Op",
       [](Communicator& comm, bool other) {
         std::vector<uint8_t> values, part;
         comm.reduce_scatter(some(values, 6), some(part, 2), other ? ReduceOp::kMin : ReduceOp::kSum);
       },
       "collective 2 differs: ranks 0, 2: reduce_scatter of 6 uint8, sum; rank 1: reduce_scatter of 6 uint8, min"},
      {"NotANumber",
       [](Communicator& comm, bool other) {
         std::vector<float> values;
         const BufferView buffer = some(values, 4);
         if (other) values[3] = std::nanf("");
         comm.all_reduce(buffer, ReduceOp::kSum);
       },
       "collective 2 differs: ranks 0, 2: all_reduce of 4 float32, sum; rank 1: all_reduce of 4 float32, sum, with "
       "NaN"},
      {"Counts",
       [](Communicator& comm, bool other) {
         std::vector<float> values, all;
         const std::vector<int64_t> counts = {1, 2, other ? 4 : 3};
         comm.all_gather_v(some(values, counts[static_cast<size_t>(comm.rank())]), some(all, other ? 7 : 6), counts);
       },
       "collective 2 differs: ranks 0, 2: all_gather of 1 + 2 + 3 float32; rank 1: all_gather of 1 + 2 + 4 float32"},
      {"GatherForScatter",
       [](Communicator& comm, bool other) {
         std::vector<float> values, all;
         if (other) {
           comm.scatter({}, some(values, 2), 0);
         } else {
           comm.gather(some(values, 2), some(all, 6), 0);
         }
       },
       "collective 2 differs: ranks 0, 2: gather of 2 float32 to root 0; rank 1: scatter of 2 float32 from root 0"},
      {"AllToAllCounts",
       [](Communicator& comm, bool other) {
         std::vector<float> values, all;
         const std::vector<int64_t> out = {1, 1, other ? 2 : 1}, in = {1, 1, 1};
         comm.all_to_all_v(some(values, other ? 4 : 3), some(all, 3), out, in);
       },
       "collective 2 differs: all_to_all_v of float32: rank 1 sends 2 elements to rank 2, which expects 1"},
      {"AllToAll",
       [](Communicator& comm, bool other) {
         std::vector<float> values, all;
         if (other) {
           const std::vector<int64_t> ones(3, 1);
           comm.all_to_all_v(some(values, 3), some(all, 3), ones, ones);
         } else {
           comm.all_to_all(some(values, 3), some(all, 3));
         }
       },
       "collective 2 differs: ranks 0, 2: all_to_all of 3 float32; rank 1: all_to_all_v of float32"},
      {"Split",
       [](Communicator& comm, bool other) {
         if (other) {
           comm.barrier();
         } else {
           comm.split(0, 0);
         }
       },
       "collective 2 differs: ranks 0, 2: split; rank 1: barrier"},
      {"Allocation", [](Communicator& comm, bool other) { comm.allocate(other ? 128 : 64); },
       "collective 2 differs: ranks 0, 2: allocate of 64 bytes; rank 1: allocate of 128 bytes"},
  };
  return all;
}

class CheckMismatch : public testing::TestWithParam<Mismatch> {};

TEST_P(CheckMismatch, IsNamedOnAllRanks) {
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = run_ranks(kCheck.make_group(3, kPatience), 3, [&](Communicator& comm) {
    comm.barrier();
    const std::string error = comm_error_of([&] { GetParam().call(comm, comm.rank() == 1); });
    EXPECT_THAT(error, testing::EndsWith(fmt::format(": rank {} of 3: {}", comm.rank(), GetParam().expected)));
    EXPECT_THAT(comm_error_of([&] { comm.barrier(); }), testing::HasSubstr("failed before"));
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr) << text_of(error);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 2);
}

INSTANTIATE_TEST_SUITE_P(Ranks, CheckMismatch, testing::ValuesIn(mismatches()),
                         [](const auto& info) { return std::string(info.param.name); });

// Agreement is about what all ranks bring: NaN everywhere is one, and a root's own is nobody else's.
TEST(Check, NaNOfAllRanksOrOfTheRootAloneIsAgreement) {
  const auto errors = run_ranks(kCheck.make_group(3, kPatience), 3, [&](Communicator& comm) {
    float value = std::nanf("");
    comm.all_reduce(view_of(std::span(&value, 1)), ReduceOp::kSum);
    EXPECT_TRUE(std::isnan(value));
    if (comm.rank() != 0) value = 1;
    comm.broadcast(view_of(std::span(&value, 1)), 0);
    EXPECT_TRUE(std::isnan(value));
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr) << text_of(error);
}

// The number is the group's own: a part of the ranks may do more.
TEST(Check, PartsCountForThemselves) {
  const auto errors = run_ranks(kCheck.make_group(3, kPatience), 3, [&](Communicator& comm) {
    const auto part = comm.split(comm.rank() == 0 ? 0 : 1, comm.rank());
    if (comm.rank() != 0) {
      for (int i = 0; i < 5; ++i) part->barrier();
    }
    comm.barrier();
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr) << text_of(error);
}

}  // namespace
}  // namespace mlbench::comm
