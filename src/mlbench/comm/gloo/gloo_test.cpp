#include "mlbench/comm/gloo/gloo.h"

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/comm/contract_test.h"
#include "mlbench/comm/ring/ring.h"
#include "mlbench/comm/wrap/test_stack.h"

namespace mlbench::comm {
namespace {

// Ranks as threads, for speed; process_test.cpp has them as processes, for truth.
BackEnd wrapped_gloo(const std::string& name, const WrapTransport& wrap, const CommOptions& tuned = {}) {
  return {name, [wrap, tuned](int size, std::chrono::milliseconds timeout) -> MakeRank {
            auto store = std::make_shared<MemoryStore>();
            return [=](int rank) {
              CommOptions options = tuned;
              options.rank = rank;
              options.size = size;
              options.store = store;
              options.timeout = timeout;
              return std::make_unique<Communicator>(wrap(gloo_backend::make(options)));
            };
          }};
}

const BackEnd kGloo = wrapped_gloo("gloo", [](auto transport) { return transport; });
// The ring uses only Gloo's messages.
const BackEnd kRingOverGloo =
    wrapped_gloo("ring(gloo)", [](auto transport) { return make_ring(std::move(transport)); });

const BackEnd kWrappedGloo = [] {
  BackEnd back_end = wrapped_gloo(full_stack_of("gloo"), in_full_stack);
  back_end.float32 = kBFloat16Precision;
  return back_end;
}();

// The buffers hold no block of an all_reduce: when a rank lets go, some blocks are likely to be under way.
const BackEnd kRingOverNarrowGloo = wrapped_gloo(
    "ring(gloo[socket_buffer=16384])", [](auto transport) { return make_ring(std::move(transport)); },
    [] {
      CommOptions tuned;
      tuned.socket_buffer_bytes = 16384;
      return tuned;
    }());

BackEnd tuned_gloo(const std::string& algorithm, int links, int64_t socket_buffer_bytes) {
  CommOptions tuned;
  tuned.algorithm = algorithm;
  tuned.links = links;
  tuned.socket_buffer_bytes = socket_buffer_bytes;
  std::string name = "gloo[" + algorithm;
  if (links > 1) name += fmt::format(",links={}", links);
  if (socket_buffer_bytes > 0) name += fmt::format(",socket_buffer={}", socket_buffer_bytes);
  return wrapped_gloo(
      name + "]", [](auto transport) { return transport; }, tuned);
}

// Cases of four ranks over two links with small buffers, which make many chunks, and of three ranks with the defaults.
std::vector<ContractCase> tuned_cases(const std::string& algorithm) {
  std::vector<ContractCase> cases;
  for (const int size : {3, 4}) {
    const bool narrow = size % 2 == 0;
    cases.push_back({tuned_gloo(algorithm, narrow ? 2 : 1, narrow ? 65536 : 0), size});
  }
  return cases;
}

const BackEnd kLibrary = tuned_gloo("library", 1, 0);

INSTANTIATE_TEST_SUITE_P(Gloo, ContractTest, testing::ValuesIn(contract_cases(kGloo)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(Gloo, LostPeerContractTest, testing::ValuesIn(contract_cases(kGloo)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(GlooRing, ContractTest, testing::ValuesIn(tuned_cases("ring")), contract_case_name);
INSTANTIATE_TEST_SUITE_P(GlooHalvingDoubling, ContractTest, testing::ValuesIn(tuned_cases("halving_doubling")),
                         contract_case_name);
INSTANTIATE_TEST_SUITE_P(GlooBcube, ContractTest, testing::ValuesIn(tuned_cases("bcube")), contract_case_name);
INSTANTIATE_TEST_SUITE_P(GlooLibrary, ContractTest, testing::ValuesIn(contract_cases(kLibrary)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(GlooLibrary, LostPeerContractTest, testing::ValuesIn(contract_cases(kLibrary)),
                         contract_case_name);
INSTANTIATE_TEST_SUITE_P(TunedGloo, LostPeerContractTest, testing::Values(ContractCase{tuned_gloo("bcube", 3, 0), 4}),
                         contract_case_name);
INSTANTIATE_TEST_SUITE_P(RingOverGloo, ContractTest, testing::Values(ContractCase{kRingOverGloo, 2}),
                         contract_case_name);
INSTANTIATE_TEST_SUITE_P(RingOverGloo, LostPeerContractTest, testing::Values(ContractCase{kRingOverGloo, 3}),
                         contract_case_name);
INSTANTIATE_TEST_SUITE_P(RingOverNarrowGloo, LostPeerContractTest,
                         testing::Values(ContractCase{kRingOverNarrowGloo, 5}), contract_case_name);
INSTANTIATE_TEST_SUITE_P(WrappedGloo, ContractTest, testing::Values(ContractCase{kWrappedGloo, 3}), contract_case_name);
INSTANTIATE_TEST_SUITE_P(WrappedGloo, LostPeerContractTest, testing::Values(ContractCase{kWrappedGloo, 3}),
                         contract_case_name);

void expect_no_errors(const std::vector<std::exception_ptr>& errors) {
  for (const auto& error : errors) {
    if (error != nullptr) ADD_FAILURE() << text_of(error);
  }
}

// The bits of these sums depend on the order of additions: with any algorithm all ranks must have the same bits, each
// time. The numbers of ranks include some that groups of two or four do not divide.
TEST(Gloo, EveryAlgorithmGivesAllRanksTheSameBits) {
  for (const std::string_view algorithm : gloo_backend::kAlgorithms) {
    for (const int size : {3, 6, 7, 8}) {
      std::vector<std::vector<float>> results(static_cast<size_t>(2 * size));
      const MakeRank make = tuned_gloo(std::string(algorithm), 1, 0).make_group(size, kPatience);
      const auto errors = run_ranks(make, size, [&](Communicator& comm) {
        for (int again = 0; again < 2; ++again) {
          std::vector<float> values(100'003);
          for (size_t i = 0; i < values.size(); ++i) {
            values[i] = 1.0F / static_cast<float>(1 + (i * 31 + static_cast<size_t>(comm.rank()) * 977) % 8191);
          }
          comm.all_reduce(view_of(std::span(values)), ReduceOp::kSum);
          results[static_cast<size_t>(2 * comm.rank() + again)] = std::move(values);
        }
      });
      expect_no_errors(errors);
      for (const auto& result : results)
        EXPECT_TRUE(result == results.front()) << algorithm << ", " << size << " ranks";
    }
  }
}

TEST(Gloo, SaysWhoseCollectivesRan) {
  for (const auto& [algorithm, whose] : {std::pair("ring", "mlbench"), std::pair("library", "gloo")}) {
    const MakeRank make = tuned_gloo(algorithm, 1, 0).make_group(1, kPatience);
    EXPECT_EQ(make(0)->collectives_by(), whose);
  }
}

TEST(Gloo, SaysHowItIsTuned) {
  const auto errors = run_ranks(tuned_gloo("ring", 2, 65536).make_group(2, kPatience), 2, [](Communicator& comm) {
    EXPECT_EQ(comm.description(), "gloo[ring,links=2,socket_buffer=65536]");
    EXPECT_EQ(comm.split(0, 0)->description(), comm.description());
  });
  expect_no_errors(errors);
}

TEST(Gloo, IsAvailable) {
  EXPECT_TRUE(gloo_backend::available().available);
  EXPECT_EQ(gloo_backend::available().reason, "");
}

}  // namespace
}  // namespace mlbench::comm
