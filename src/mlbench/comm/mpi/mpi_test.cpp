// The contract under a real MPI. Ranks are processes, and each of them runs all tests, in the same order: run this
// program under `mpirun -n N` for N ranks, without mpirun for one.

#include "mlbench/comm/mpi/mpi.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <mpi.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <system_error>

#include "mlbench/base/errors.h"
#include "mlbench/base/paths.h"
#include "mlbench/comm/contract_test.h"
#include "mlbench/comm/mpi/parameters.h"
#include "mlbench/comm/wrap/test_stack.h"
#include "mlbench/net/launch.h"

namespace mlbench::comm {
namespace {

const net::LaunchInfo& launch() {
  static const net::LaunchInfo info = net::detect_launch(environment_variable);
  return info;
}

CommOptions options_of(int rank) {
  CommOptions options;
  options.rank = rank;
  options.size = launch().size;
  options.passive_wait = true;  // more ranks than cores, as like as not
  const std::string tuned = environment_variable("MLBENCH_TEST_MPI").value_or("auto");
  if (tuned == "tcp") {
    options.socket_buffer_bytes = 1 << 20;
    options.bind_address = "127.0.0.1";
  } else {
    options.algorithm = tuned;
  }
  return options;
}

// A counter in memory that all ranks map.
std::shared_ptr<std::atomic<int>> make_shared_counter() {
  static_assert(std::atomic<int>::is_always_lock_free);
  MPI_Win window = MPI_WIN_NULL;
  void* own = nullptr;
  const MPI_Aint bytes = launch().rank == 0 ? sizeof(std::atomic<int>) : 0;
  MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, static_cast<void*>(&own), &window);
  MPI_Aint size = 0;
  int unit = 0;
  void* first = nullptr;
  MPI_Win_shared_query(window, 0, &size, &unit, static_cast<void*>(&first));
  if (launch().rank == 0) new (first) std::atomic<int>(0);
  MPI_Barrier(MPI_COMM_WORLD);
  return {static_cast<std::atomic<int>*>(first), [window](std::atomic<int>*) mutable { MPI_Win_free(&window); }};
}

// The thread level is the one that the back end asks for; this MPI gives just that.
const std::string kDescription = fmt::format("mpi[serialized{}]", mpi_backend::tuning_of(options_of(0)));

const BackEnd kMpi = {kDescription,
                      [](int, std::chrono::milliseconds) -> MakeRank {
                        return [](int rank) {
                          return std::make_unique<Communicator>(mpi_backend::make(options_of(rank)));
                        };
                      },
                      launch().rank, make_shared_counter};

// A back end for which MPI counts only up to ten thousand.
const BackEnd kMpiInParts = {
    kDescription,
    [](int, std::chrono::milliseconds) -> MakeRank {
      return
          [](int rank) { return std::make_unique<Communicator>(mpi_backend::make_in_parts(options_of(rank), 10007)); };
    },
    launch().rank, make_shared_counter};

const BackEnd kWrappedMpi = {
    full_stack_of(kDescription),
    [](int, std::chrono::milliseconds) -> MakeRank {
      return
          [](int rank) { return std::make_unique<Communicator>(in_full_stack(mpi_backend::make(options_of(rank)))); };
    },
    launch().rank, make_shared_counter, kBFloat16Precision};

std::vector<ContractCase> case_of(const BackEnd& back_end) { return {{back_end, launch().size}}; }

INSTANTIATE_TEST_SUITE_P(Mpi, ContractTest, testing::ValuesIn(case_of(kMpi)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(MpiInParts, ContractTest, testing::ValuesIn(case_of(kMpiInParts)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(WrappedMpi, ContractTest, testing::ValuesIn(case_of(kWrappedMpi)), contract_case_name);

TEST(MpiParameters, AreThoseThatWereAskedFor) {
  using mpi_backend::parameters_of;
  using Parameters = std::map<std::string, std::string>;
  CommOptions options;
  EXPECT_EQ(parameters_of(options), Parameters());
  EXPECT_EQ(mpi_backend::tuning_of(options), "");
  options.algorithm = "halving_doubling";
  options.passive_wait = true;
  EXPECT_EQ(parameters_of(options), (Parameters{{"mpi_yield_when_idle", "1"},
                                                {"coll_tuned_use_dynamic_rules", "1"},
                                                {"coll_tuned_allreduce_algorithm", "6"}}));
  options = {};
  options.socket_buffer_bytes = 65536;
  EXPECT_EQ(parameters_of(options).at("btl_tcp_if_include"), "lo");
  options.bind_address = "127.0.0.1";
  EXPECT_EQ(parameters_of(options), (Parameters{{"btl", "self,tcp"},
                                                {"btl_tcp_if_include", "lo"},
                                                {"btl_tcp_sndbuf", "65536"},
                                                {"btl_tcp_rcvbuf", "65536"}}));
  EXPECT_EQ(mpi_backend::tuning_of(options), ",tcp,socket_buffer=65536,interface=127.0.0.1");
  options.bind_address = "192.0.2.1";  // of no host (RFC 5737)
  EXPECT_THROW(parameters_of(options), UserError);
}

TEST(Mpi, IsAvailable) {
  EXPECT_TRUE(mpi_backend::available().available);
  EXPECT_EQ(mpi_backend::available().reason, "");
}

TEST(Mpi, SaysWhichLibraryIsLoaded) {
  const std::string version = mpi_backend::make(options_of(launch().rank))->versions().at("mpi");
  EXPECT_THAT(version, testing::ContainsRegex("[0-9]+\\.[0-9]+"));
  EXPECT_THAT(version, testing::Not(testing::ContainsRegex("[,\n]")));
}

TEST(Mpi, ColoursMayBeNegative) {
  const auto comm = mpi_backend::make(options_of(launch().rank));
  const auto part = comm->split(-1 - comm->rank() % 2, 0);
  EXPECT_EQ(part->size(), (comm->size() + 1 - comm->rank() % 2) / 2);
  EXPECT_EQ(part->rank(), comm->rank() / 2);
}

// Established TCP connections of this process.
int tcp_connections() {
  std::set<std::string> own;  // "socket:[12345]"
  for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed_meanwhile;
    own.insert(std::filesystem::read_symlink(descriptor, closed_meanwhile).string());
  }
  int count = 0;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::vector<std::string> column{std::istream_iterator<std::string>(words), {}};
      constexpr size_t kState = 3, kInode = 9;
      if (column.size() <= kInode || column[kState] != "01") continue;
      count += static_cast<int>(own.count("socket:[" + column[kInode] + "]"));
    }
  }
  return count;
}

TEST(Mpi, RanksOfOneHostShareMemoryUnlessTcpIsAskedFor) {
  const CommOptions options = options_of(launch().rank);
  Communicator comm(mpi_backend::make(options));
  std::vector<float> values(1 << 20, 1);
  comm.all_reduce(view_of(std::span(values)), ReduceOp::kSum);
  const int to_mpirun = 1;
  if (options.bind_address.empty() || comm.size() == 1) {
    EXPECT_LE(tcp_connections(), to_mpirun);
  } else {
    EXPECT_GT(tcp_connections(), to_mpirun);
  }
  comm.barrier();
}

// Prints only failures, for the ranks other than rank 0.
class FailuresOnly final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", launch().rank, result.file_name(), result.line_number(),
                 result.message());
  }
};

}  // namespace
}  // namespace mlbench::comm

int main(int argc, char** argv) {
  namespace comm = mlbench::comm;
  testing::InitGoogleMock(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (comm::launch().rank != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new comm::FailuresOnly);
  }
  // MPI lives from the first transport to the last: this one keeps it through all tests.
  const auto all = comm::mpi_backend::make(comm::options_of(comm::launch().rank));
  return RUN_ALL_TESTS();
}
