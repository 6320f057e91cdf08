// Tests what can be tested without a GPU, and the contract of ranks that each have one.

#include "mlbench/comm/nccl/nccl.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/comm/contract_test.h"
#include "mlbench/comm/nccl/gpu_memory.h"
#include "mlbench/comm/nccl/gpu_places.h"

namespace mlbench::comm {
// Only the processes that are ranks instantiate these tests.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ContractTest);
}  // namespace mlbench::comm

namespace mlbench::comm::nccl_backend {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(GpuPlaces, RanksOnOneGpuAreRefused) {
  std::vector<GpuPlace> ranks = {{"a", "0000:3B:00.0"}, {"a", "0000:5E:00.0"}, {"b", "0000:3B:00.0"}};
  EXPECT_EQ(why_refused(ranks), "") << "the same number on another host is another GPU";
  ranks.push_back({"a", "0000:5E:00.0"});
  EXPECT_EQ(why_refused(ranks),
            "ranks 1 and 3 are both on GPU 0000:5E:00.0 of host a, and NCCL wants one for each: start at most as many "
            "workers per host as it has GPUs, or choose --backend gloo");
  EXPECT_EQ(why_refused({}), "");
}

TEST(Nccl, WithoutAGpuItSaysSo) {
  const Availability availability = available();
  if (availability.available) GTEST_SKIP() << "missing capability: a host without NVIDIA GPUs";
  EXPECT_THAT(availability.reason, HasSubstr("no NVIDIA GPU"));
  EXPECT_THAT([] { make({}); }, ThrowsMessage<UserError>(HasSubstr("no NVIDIA GPU")));
  EXPECT_THAT([] { make_memory({}); }, ThrowsMessage<UserError>(HasSubstr("no NVIDIA GPU")));
}

TEST(Nccl, RanksOnOneGpuHearWhyTheyAreRefused) {
  if (!available().available) GTEST_SKIP() << "missing capability: an NVIDIA GPU";
  const auto store = std::make_shared<MemoryStore>();
  const auto start = [&](int rank) {
    CommOptions options;
    options.rank = rank;
    options.size = 2;
    options.store = store;
    EXPECT_THAT([&] { make(options); },
                ThrowsMessage<UserError>(AllOf(HasSubstr("backend nccl: ranks 0 and 1 are both on GPU "),
                                               HasSubstr("start at most as many workers per host as it has GPUs"))));
  };
  std::thread other(start, 1);
  start(0);
  other.join();
}

// ---- the contract ---------------------------------------------------------------------------------------------------

// A rank is another process of this program, which finds its rank in the environment. Ranks run the same tests in the
// same order, and so make the same groups and counters.
constexpr const char* kRank = "MLBENCH_TEST_NCCL_RANK";
constexpr const char* kSize = "MLBENCH_TEST_NCCL_SIZE";
constexpr const char* kFolder = "MLBENCH_TEST_NCCL_FOLDER";
constexpr const char* kHost = "MLBENCH_TEST_NCCL_HOST";  // the rank's host, where each has one of its own

// Gives this process another host name. Ranks on such hosts share one GPU, and NCCL connects them over the network.
void become_host(const std::string& name) {
  MLBENCH_CHECK(unshare(CLONE_NEWUTS) == 0 && sethostname(name.data(), name.size()) == 0, "a name of its own");
}

fs::path next_path(const char* what) {
  static int number = 0;
  return fs::path(environment_variable(kFolder).value()) / fmt::format("{}{}", what, number++);
}

std::shared_ptr<std::atomic<int>> make_shared_counter() {
  static_assert(std::atomic<int>::is_always_lock_free);
  const int file = open(next_path("counter").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  MLBENCH_CHECK(file >= 0 && ftruncate(file, sizeof(std::atomic<int>)) == 0, "a counter of all ranks");
  void* memory = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  MLBENCH_CHECK(memory != MAP_FAILED, "a counter of all ranks");
  return {static_cast<std::atomic<int>*>(memory), [](std::atomic<int>* counter) { munmap(counter, sizeof *counter); }};
}

std::vector<ContractCase> own_case() {
  const std::optional<std::string> own = environment_variable(kRank);
  if (!own) return {};
  const int rank = std::stoi(*own), size = std::stoi(environment_variable(kSize).value());
  const std::optional<std::string> host = environment_variable(kHost);
  if (host) become_host(*host);
  const bool alone = host.has_value();
  const auto make_group = [size, alone](int, std::chrono::milliseconds timeout) -> MakeRank {
    CommOptions options;
    options.size = size;
    options.timeout = timeout;
    const fs::path folder = next_path("group");
    fs::create_directories(folder);
    options.store = std::make_shared<FileStore>(folder);
    return [options, alone](int number) {
      CommOptions mine = options;
      mine.rank = number;
      mine.local_rank = alone ? 0 : number;
      return std::make_unique<Communicator>(make(mine));
    };
  };
  return {{{"nccl", make_group, rank, make_shared_counter}, size}};
}

INSTANTIATE_TEST_SUITE_P(Nccl, ContractTest, testing::ValuesIn(own_case()), contract_case_name);

class NcclRanks : public testing::TestWithParam<int> {};

TEST_P(NcclRanks, MeetTheContract) {
  const int size = GetParam();
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) GTEST_SKIP() << "missing capability: an NVIDIA GPU";
  const bool share = gpus < size;
  if (share && geteuid() != 0) {
    GTEST_SKIP() << fmt::format("missing capability: {} NVIDIA GPUs, or root, to give ranks names of hosts", size);
  }
  // Leaves out what NCCL does not have (nccl.h): tags, and receives that go on beside other operations.
  const std::string filter =
      "Nccl/ContractTest.*:-*.TaggedMessages/*:*.MessagesOfOneTagKeepTheirOrder/*:*.DoneWithoutWaiting/*:"
      "*.MessagesAndCollectivesDoNotMeet/*";
  const TemporaryFolder folder;
  std::vector<ChildProcess> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ProcessOptions options;
    options.arguments = {"/proc/self/exe", "--gtest_filter=" + filter};
    options.environment = {
        {kRank, std::to_string(rank)}, {kSize, std::to_string(size)}, {kFolder, folder.path().string()}};
    if (share) {
      const std::string host = fmt::format("host{}", rank);
      options.environment.insert({{kHost, host}, {"NCCL_HOSTID", host}, {"NCCL_SOCKET_IFNAME", "lo"}});
    }
    options.output = folder / fmt::format("rank{}.log", rank);
    options.die_with_parent = true;
    ranks.push_back(ChildProcess::start(options));
  }
  for (int rank = 0; rank < size; ++rank) {
    const auto end = ranks[static_cast<size_t>(rank)].wait(std::chrono::minutes(10));
    if (!end) ranks[static_cast<size_t>(rank)].stop(std::chrono::seconds(5));
    const std::string said = read_file(folder / fmt::format("rank{}.log", rank));
    EXPECT_EQ(end, ProcessEnd{}) << said;
    EXPECT_THAT(said, HasSubstr("[  PASSED  ]")) << "rank " << rank;
    EXPECT_THAT(said, testing::Not(HasSubstr("Running 0 tests"))) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclRanks, testing::Range(1, 6));

}  // namespace
}  // namespace mlbench::comm::nccl_backend
