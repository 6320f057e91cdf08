// Wrappers around wrappers.

#include <utility>

#include "mlbench/comm/contract_test.h"
#include "mlbench/comm/wrap/cast.h"
#include "mlbench/comm/wrap/check.h"
#include "mlbench/comm/wrap/netem.h"

namespace mlbench::comm {
namespace {

std::unique_ptr<Transport> cast(std::unique_ptr<Transport> inner) {
  return make_cast(std::move(inner), DType::kBFloat16);
}
std::unique_ptr<Transport> netem(std::unique_ptr<Transport> inner) {
  return make_netem(std::move(inner), {.all = {.latency = std::chrono::microseconds(5), .bytes_per_second = 20e9}});
}

BackEnd stack(const std::string& name, const WrapTransport& wrap, const Float32Precision& precision) {
  BackEnd back_end = wrapped_in_process(name, wrap);
  back_end.float32 = precision;
  return back_end;
}

constexpr Float32Precision kFull;
constexpr Float32Precision kNarrow{.rounding = 0x1.1p-7};

// Three ranks stand for all; the set `long` has them all.
std::vector<ContractCase> few_cases(const BackEnd& back_end) {
  return every_combination() ? contract_cases(back_end) : std::vector<ContractCase>{{back_end, 3}};
}

const BackEnd kCheckCast = stack(
    "check(cast[bfloat16](in-process))", [](auto inner) { return make_check(cast(std::move(inner))); }, kNarrow);
const BackEnd kCheckNetem = stack(
    "check(netem(ring(in-process)))", [](auto inner) { return make_check(netem(std::move(inner))); }, kFull);
const BackEnd kCastNetem = stack(
    "cast[bfloat16](netem(ring(in-process)))", [](auto inner) { return cast(netem(std::move(inner))); }, kNarrow);
const BackEnd kAll = stack(
    "check(cast[bfloat16](netem(ring(in-process))))",
    [](auto inner) { return make_check(cast(netem(std::move(inner)))); }, kNarrow);

INSTANTIATE_TEST_SUITE_P(CheckCast, ContractTest, testing::ValuesIn(few_cases(kCheckCast)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(CheckNetem, ContractTest, testing::ValuesIn(few_cases(kCheckNetem)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(CastNetem, ContractTest, testing::ValuesIn(few_cases(kCastNetem)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(CheckCastNetem, ContractTest, testing::ValuesIn(few_cases(kAll)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(CheckCastNetem, LostPeerContractTest, testing::ValuesIn(few_cases(kAll)), contract_case_name);

}  // namespace
}  // namespace mlbench::comm
