#include "mlbench/comm/in_process.h"

#include "mlbench/comm/contract_test.h"

namespace mlbench::comm {
namespace {

const BackEnd kInProcess = {
    "in-process", [](int size, std::chrono::milliseconds timeout) -> MakeRank {
      auto ranks = std::make_shared<std::vector<std::unique_ptr<Communicator>>>(make_in_process_group(size, timeout));
      return [ranks](int rank) { return std::move((*ranks)[static_cast<size_t>(rank)]); };
    }};

INSTANTIATE_TEST_SUITE_P(InProcess, ContractTest, testing::ValuesIn(contract_cases(kInProcess)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(InProcess, LostPeerContractTest, testing::ValuesIn(contract_cases(kInProcess)),
                         contract_case_name);

// Sums are made in the order of ranks: ((1 + 2^24) - 2^24) is 0 in float32, (1 + (2^24 - 2^24)) would be 1.
TEST(InProcess, SumsInTheOrderOfRanks) {
  auto ranks =
      std::make_shared<std::vector<std::unique_ptr<Communicator>>>(make_in_process_group(3, std::chrono::seconds(60)));
  const auto errors = run_ranks([&](int rank) { return std::move((*ranks)[static_cast<size_t>(rank)]); }, 3,
                                [](Communicator& comm) {
                                  const float values[] = {1.0F, 0x1p24F, -0x1p24F};
                                  float sum = values[comm.rank()];
                                  comm.all_reduce(view_of(std::span(&sum, 1)), ReduceOp::kSum);
                                  EXPECT_EQ(sum, 0.0F);
                                });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr);
}

}  // namespace
}  // namespace mlbench::comm
