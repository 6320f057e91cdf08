#include "mlbench/catalog/programs/programs.h"

#include <gtest/gtest.h>

namespace mlbench::catalog {
namespace {

TEST(Programs, AFrameworkHasAProgramOfItsOwnOrSharesTheFirst) {
  EXPECT_EQ(program_with("torch").name, "mlbench-worker");
  EXPECT_EQ(program_with("").name, "mlbench-worker") << "of runs that measure collectives";
  EXPECT_EQ(program_with("tensorflow").name, "mlbench-worker-tensorflow");
  for (const ProgramRow& row : programs().subspan(1)) EXPECT_EQ(&program_with(row.framework), &row);
}

TEST(Programs, LieBesideTheFirst) {
  const ProgramRow& other = program_with("tensorflow");
  EXPECT_EQ(path_of(programs()[0], "/tmp/my-worker"), "/tmp/my-worker") << "as MLBENCH_WORKER says";
  EXPECT_EQ(path_of(other, "/tmp/my-worker"), "/tmp/mlbench-worker-tensorflow");
  EXPECT_EQ(path_of(other, "mlbench-worker"), "mlbench-worker-tensorflow");
}

TEST(Backends, MpirunStartsTheRanksOfMpiAlone) {
  EXPECT_TRUE(backend_facts("mpi").needs_mpirun);
  for (const char* backend : {"gloo", "nccl", "shm", "theirs", ""}) {
    EXPECT_FALSE(backend_facts(backend).needs_mpirun) << backend;
  }
}

TEST(Programs, AMissingOneIsBuiltOrInstalled) {
  EXPECT_EQ(advice_for(programs()[0]),
            "build it (-DMLBENCH_WORKER=ON), install the package mlbench-worker, or set MLBENCH_WORKER");
  EXPECT_EQ(advice_for(program_with("tensorflow")),
            "build it (-DMLBENCH_TENSORFLOW=ON), install the package mlbench-worker-tensorflow, or put it beside "
            "mlbench-worker");
}

}  // namespace
}  // namespace mlbench::catalog
