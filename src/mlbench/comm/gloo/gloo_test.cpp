#include "mlbench/comm/gloo/gloo.h"

#include "mlbench/comm/contract_test.h"

namespace mlbench::comm {
namespace {

// Ranks as threads, for speed; process_test.cpp has them as processes, for truth.
const BackEnd kGloo = {"gloo", [](int size, std::chrono::milliseconds timeout) -> MakeRank {
                         auto store = std::make_shared<MemoryStore>();
                         return [=](int rank) {
                           CommOptions options;
                           options.rank = rank;
                           options.size = size;
                           options.store = store;
                           options.timeout = timeout;
                           return std::make_unique<Communicator>(gloo_backend::make(options));
                         };
                       }};

INSTANTIATE_TEST_SUITE_P(Gloo, ContractTest, testing::ValuesIn(contract_cases(kGloo)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(Gloo, LostPeerContractTest, testing::ValuesIn(contract_cases(kGloo)), contract_case_name);

TEST(Gloo, IsAvailable) {
  EXPECT_TRUE(gloo_backend::available().available);
  EXPECT_EQ(gloo_backend::available().reason, "");
}

}  // namespace
}  // namespace mlbench::comm
