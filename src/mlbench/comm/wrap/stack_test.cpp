// Wrappers around wrappers.

#include <utility>

#include "mlbench/comm/wrap/test_stack.h"

namespace mlbench::comm {
namespace {

BackEnd stack(const std::string& name, const WrapTransport& wrap, const Float32Precision& precision) {
  BackEnd back_end = wrapped_in_process(name, wrap);
  back_end.float32 = precision;
  return back_end;
}

constexpr Float32Precision kFull;

// Three ranks stand for all; the set `long` has them all.
std::vector<ContractCase> few_cases(const BackEnd& back_end) {
  return every_combination() ? contract_cases(back_end) : std::vector<ContractCase>{{back_end, 3}};
}

const BackEnd kCheckCast = stack(
    "check(cast[bfloat16](in-process))", [](auto inner) { return make_check(in_bfloat16(std::move(inner))); },
    kBFloat16Precision);
const BackEnd kCheckNetem = stack(
    "check(netem(ring(in-process)))", [](auto inner) { return make_check(over_links(std::move(inner))); }, kFull);
const BackEnd kCastNetem = stack(
    "cast[bfloat16](netem(ring(in-process)))", [](auto inner) { return in_bfloat16(over_links(std::move(inner))); },
    kBFloat16Precision);
const BackEnd kAll = stack(full_stack_of("in-process"), in_full_stack, kBFloat16Precision);

INSTANTIATE_TEST_SUITE_P(CheckCast, ContractTest, testing::ValuesIn(few_cases(kCheckCast)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(CheckNetem, ContractTest, testing::ValuesIn(few_cases(kCheckNetem)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(CastNetem, ContractTest, testing::ValuesIn(few_cases(kCastNetem)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(CheckCastNetem, ContractTest, testing::ValuesIn(few_cases(kAll)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(CheckCastNetem, LostPeerContractTest, testing::ValuesIn(few_cases(kAll)), contract_case_name);

}  // namespace
}  // namespace mlbench::comm
