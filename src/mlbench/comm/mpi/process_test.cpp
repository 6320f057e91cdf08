// Tests what happens to the whole process when MPI fails: this program starts itself under mpirun, as ranks that break.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/comm/mpi/mpi.h"

namespace mlbench::comm {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

CommOptions options(int rank, int size) {
  CommOptions options;
  options.rank = rank;
  options.size = size;
  options.passive_wait = true;
  return options;
}

std::unique_ptr<Communicator> make_communicator(int rank, int size) {
  return std::make_unique<Communicator>(mpi_backend::make(options(rank, size)));
}

int own_rank() { return std::stoi(environment_variable("OMPI_COMM_WORLD_RANK").value_or("0")); }

// ---- the ranks: what they do, by name; what they return is the exit code -------------------------------------------

int receive_too_little() {
  const auto comm = make_communicator(own_rank(), 2);
  std::vector<float> values(10);
  if (comm->rank() == 1) {
    comm->send(view_of(std::span(values)), 0, 7);
    comm->barrier();  // never ends: rank 0 makes no MPI call any more
    return 0;
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      comm->recv(view_of(std::span(values)).slice(0, 5), 1, 7);
    } catch (const CommError& error) {
      fmt::print(stderr, "error: {}\n", error.what());
    }
  }
  try {
    mpi_backend::make(options(0, 2));
  } catch (const CommError& error) {
    fmt::print(stderr, "again: {}\n", error.what());
  }
  return 33;
}

int receive_too_much() {
  const auto comm = make_communicator(own_rank(), 2);
  std::vector<float> values(10);
  if (comm->rank() == 1) {
    comm->send(view_of(std::span(values)).slice(0, 4), 0, 7);
    return 0;
  }
  try {
    comm->recv_async(view_of(std::span(values)), 1, 7)->wait();
  } catch (const CommError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
  }
  return 33;
}

int throw_beside_a_waiting_peer() {
  try {
    const auto comm = make_communicator(own_rank(), 2);
    if (comm->rank() == 1) throw std::runtime_error("disk full");
    comm->barrier();
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
  }
  return 44;
}

int end_in_order() {
  auto comm = make_communicator(own_rank(), 2);
  auto part = comm->split(0, 0);
  comm.reset();
  part->barrier();  // MPI is there as long as one communicator is
  part.reset();
  try {
    mpi_backend::make(options(own_rank(), 2));
  } catch (const CommError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
  }
  return 0;
}

int disagree() {
  try {
    mpi_backend::make(options(1, 3));
  } catch (const UserError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
  return 0;
}

struct Part {
  const char* name;
  int (*body)();
};
constexpr Part kParts[] = {
    {"receive_too_little", receive_too_little},
    {"receive_too_much", receive_too_much},
    {"throw_beside_a_waiting_peer", throw_beside_a_waiting_peer},
    {"end_in_order", end_in_order},
    {"disagree", disagree},
};

// ---- the tests -----------------------------------------------------------------------------------------------------

ProcessOutput play(const std::string& part, int ranks) {
  ProcessOptions process;
  if (ranks > 0) {
    const std::string mpirun = environment_variable("MLBENCH_TEST_MPIRUN").value_or("mpirun");
    process.arguments = {mpirun,      "-n",   std::to_string(ranks), "--host", fmt::format("localhost:{}", ranks),
                         "--bind-to", "none", "--tag-output"};
  }
  process.arguments.insert(process.arguments.end(), {program_path().string(), part});
  process.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  return run_process(process, seconds(60));
}

TEST(MpiProcess, AnErrorIsThrownWithItsTextAndIsTheLastCall) {
  const ProcessOutput output = play("receive_too_little", 2);
  EXPECT_NE(output.end.code, 0) << "mpirun ends the other rank";
  EXPECT_THAT(output.standard_error, HasSubstr("error: recv: rank 0 of 2: MPI_Irecv: MPI_ERR_TRUNCATE"));
  EXPECT_THAT(output.standard_error, HasSubstr("this communicator has failed before"));
  EXPECT_THAT(output.standard_error, HasSubstr("again: MPI has failed in this process before"));
}

TEST(MpiProcess, AShortMessageIsAnError) {
  const ProcessOutput output = play("receive_too_much", 2);
  EXPECT_NE(output.end.code, 0);
  EXPECT_THAT(output.standard_error,
              HasSubstr("error: recv: rank 0 of 2: MPI_Irecv: rank 1 sent 4 elements under tag 7, "
                        "10 were expected"));
}

TEST(MpiProcess, AnExceptionDoesNotWaitForPeers) {
  const ProcessOutput output = play("throw_beside_a_waiting_peer", 2);
  EXPECT_EQ(output.end.code, 44) << output.standard_error;
  EXPECT_THAT(output.standard_error, HasSubstr("error: disk full"));
}

TEST(MpiProcess, EndsWithItsLastCommunicator) {
  const ProcessOutput output = play("end_in_order", 2);
  EXPECT_EQ(output.end.code, 0) << output.standard_error;
  EXPECT_THAT(output.standard_error, HasSubstr("error: MPI was finalised in this process"));
}

TEST(MpiProcess, RanksOfNoMpiLauncherAreToldSo) {
  const ProcessOutput output = play("disagree", 0);
  EXPECT_EQ(output.end.code, 2) << output.standard_error;
  EXPECT_THAT(output.standard_error,
              HasSubstr("the environment says rank 1 of 3, MPI says rank 0 of 1: start the ranks "
                        "with `mlbench run`, with mpirun"));
}

}  // namespace
}  // namespace mlbench::comm

int main(int argc, char** argv) {
  for (const auto& part : mlbench::comm::kParts) {
    if (argc > 1 && std::string_view(argv[1]) == part.name) return part.body();
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
