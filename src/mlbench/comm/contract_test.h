#pragma once

// The contract of Communicator as tests, which run for every back end. A back end's own test file says
//
//   INSTANTIATE_TEST_SUITE_P(Gloo, ContractTest, testing::ValuesIn(contract_cases(back_end)), contract_case_name);
//
// and its CMakeLists.txt compiles ${contract_tests} with it.
//
// With MLBENCH_CONTRACT=all in the environment (set `long`), operations get every combination of their arguments;
// without it, every pair.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mlbench/comm/communicator.h"
#include "mlbench/comm/test_stores.h"
#include "mlbench/comm/test_values.h"

namespace mlbench::comm {

// Makes one rank's communicator, on the rank's thread.
using MakeRank = std::function<std::unique_ptr<Communicator>(int rank)>;

// How exactly float32 values arrive. Small whole numbers arrive exactly.
struct Float32Precision {
  double rounding = 0x1p-24;  // relative error of a sum for each operand after the first
  double smallest = 0;        // absolute error of a sum for each operand after the first
  int exponents = 40;         // powers of two that the values may span
};

// One row of the table of back ends.
struct BackEnd {
  std::string name;
  std::function<MakeRank(int size, std::chrono::milliseconds timeout)> make_group;
  // The rank of this process, where ranks are processes that each run these tests. Empty: ranks are threads.
  std::optional<int> own_rank = std::nullopt;
  // Makes a counter at zero that all ranks share. Every process makes the same counters in the same order.
  std::function<std::shared_ptr<std::atomic<int>>()> make_counter = [] {
    return std::make_shared<std::atomic<int>>(0);
  };
  Float32Precision float32 = {};
};

struct ContractCase {
  BackEnd back_end;
  int size = 1;
};

// The in-process back end, with each rank's transport wrapped by `wrap`.
using WrapTransport = std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)>;
BackEnd wrapped_in_process(const std::string& name, const WrapTransport& wrap);

class ContractTest : public testing::TestWithParam<ContractCase> {};
// For back ends whose operations throw when a peer is lost or late. With the others, the worker's watchdog ends the
// rank.
class LostPeerContractTest : public testing::TestWithParam<ContractCase> {};

std::vector<ContractCase> contract_cases(const BackEnd& back_end);  // 1 to 5 ranks
std::string contract_case_name(const testing::TestParamInfo<ContractCase>& info);

// Runs `body` on `size` threads, each with a communicator that is destroyed when its body ends. Returns what each
// thread threw (null: nothing).
std::vector<std::exception_ptr> run_ranks(const MakeRank& make_rank, int size,
                                          const std::function<void(Communicator&)>& body);

// Runs `body` on all ranks of a group and expects none to throw.
inline constexpr std::chrono::milliseconds kPatience{60000};
void run_case(const ContractCase& row, const std::function<void(Communicator&)>& body,
              std::chrono::milliseconds timeout = kPatience);

// The command that repeats the running test.
std::string repeat_command();

// Expects that both are equal. Called on the rank's thread.
void expect_values(Communicator& comm, const Values& actual, const Values& expected, const std::string& what);

std::string text_of(const std::exception_ptr& error);

// The text of the CommError that `call` throws; "" if it throws none.
template <typename Call>
std::string comm_error_of(Call call) {
  try {
    call();
  } catch (const CommError& error) {
    return error.what();
  }
  return "";
}

inline constexpr DType kAllTypes[] = {DType::kUInt8,   DType::kInt8,     DType::kInt32,   DType::kInt64,
                                      DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
inline constexpr ReduceOp kAllOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAvg};

// Whether the environment has MLBENCH_CONTRACT=all.
bool every_combination();

}  // namespace mlbench::comm
