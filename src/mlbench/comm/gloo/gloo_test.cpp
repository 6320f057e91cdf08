#include "mlbench/comm/gloo/gloo.h"

#include <utility>

#include "mlbench/comm/contract_test.h"
#include "mlbench/comm/ring/ring.h"

namespace mlbench::comm {
namespace {

// Ranks as threads, for speed; process_test.cpp has them as processes, for truth.
BackEnd wrapped_gloo(const std::string& name, const WrapTransport& wrap) {
  return {name, [wrap](int size, std::chrono::milliseconds timeout) -> MakeRank {
            auto store = std::make_shared<MemoryStore>();
            return [=](int rank) {
              CommOptions options;
              options.rank = rank;
              options.size = size;
              options.store = store;
              options.timeout = timeout;
              return std::make_unique<Communicator>(wrap(gloo_backend::make(options)));
            };
          }};
}

const BackEnd kGloo = wrapped_gloo("gloo", [](auto transport) { return transport; });
// Its messages alone.
const BackEnd kRingOverGloo =
    wrapped_gloo("ring(gloo)", [](auto transport) { return make_ring(std::move(transport)); });

INSTANTIATE_TEST_SUITE_P(Gloo, ContractTest, testing::ValuesIn(contract_cases(kGloo)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(Gloo, LostPeerContractTest, testing::ValuesIn(contract_cases(kGloo)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(RingOverGloo, ContractTest, testing::Values(ContractCase{kRingOverGloo, 2}),
                         contract_case_name);
INSTANTIATE_TEST_SUITE_P(RingOverGloo, LostPeerContractTest, testing::Values(ContractCase{kRingOverGloo, 3}),
                         contract_case_name);

TEST(Gloo, IsAvailable) {
  EXPECT_TRUE(gloo_backend::available().available);
  EXPECT_EQ(gloo_backend::available().reason, "");
}

}  // namespace
}  // namespace mlbench::comm
