#pragma once

// The contract of Communicator as tests, run for every back end. A back end's own test file says
//
//   INSTANTIATE_TEST_SUITE_P(Gloo, ContractTest, testing::ValuesIn(contract_cases(back_end)), contract_case_name);
//
// and compiles contract_test.cpp with it.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/comm/communicator.h"

namespace mlbench::comm {

// Makes the communicator of one rank; called on the rank's thread.
using MakeRank = std::function<std::unique_ptr<Communicator>(int rank)>;

// One row of the table of back ends.
struct BackEnd {
  std::string name;
  std::function<MakeRank(int size, std::chrono::milliseconds timeout)> make_group;
  // Where ranks are processes, each of which runs these tests: the rank of this one. Else they are threads.
  std::optional<int> own_rank = std::nullopt;
  // A counter at zero that all ranks share; every process makes the same ones in the same order.
  std::function<std::shared_ptr<std::atomic<int>>()> make_counter = [] {
    return std::make_shared<std::atomic<int>>(0);
  };
};

struct ContractCase {
  BackEnd back_end;
  int size = 1;
};

class ContractTest : public testing::TestWithParam<ContractCase> {};
// For back ends whose operations throw when a peer is lost or late; with others the worker's watchdog ends the rank.
class LostPeerContractTest : public testing::TestWithParam<ContractCase> {};

std::vector<ContractCase> contract_cases(const BackEnd& back_end);  // 1 to 5 ranks
std::string contract_case_name(const testing::TestParamInfo<ContractCase>& info);

// Runs `body` on `size` threads, each with its communicator, which is destroyed when its body ends. Returns what each
// threw (null: nothing).
std::vector<std::exception_ptr> run_ranks(const MakeRank& make_rank, int size,
                                          const std::function<void(Communicator&)>& body);

// The command that repeats the running test.
std::string repeat_command();

// A store in memory.
class MemoryStore final : public RendezvousStore {
 public:
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace mlbench::comm
