#include "mlbench/catalog/control/catalog.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/test_error.h"

namespace mlbench::catalog {
namespace {

TEST(ExecutorTable, EveryRowMakesAnExecutorOfItsName) {
  ASSERT_FALSE(executors().empty());
  for (const ExecutorRow& row : executors()) EXPECT_EQ(make_executor(row.name)->name(), row.name);
}

TEST(ExecutorTable, WhatIsNotTakenIsNamedWithThoseThatTakeIt) {
  spec::EngineOptions engine;
  engine.scratch = "/scratch";
  EXPECT_THAT(error_of([&] { make_executor("local", engine); }),
              testing::StartsWith("--scratch: the executor 'local' starts ranks on this host alone; executors that "
                                  "take it: mpirun, slurm"));
  engine = {};
  engine.ranks_per_host = 2;
  EXPECT_EQ(error_of([&] { make_executor("local", engine); }),
            "--ranks-per-host: the executor 'local' starts ranks on this host alone; executors that take it: mpirun, "
            "slurm, kubernetes");
}

TEST(ExecutorTable, OnThisHostThereIsNowhereElseToGoOn) {
  spec::EngineOptions engine;
  engine.requeue = 1;
  EXPECT_EQ(error_of([&] { make_executor("local", engine); }),
            "--requeue: the executor 'local' starts ranks on this host alone; executors that take it: mpirun, slurm, "
            "kubernetes");
}

TEST(ExecutorTable, OptionsOfAnotherEngineAreRefused) {
  spec::EngineOptions engine;
  engine.hosts = "h1:2";
  EXPECT_EQ(make_executor("mpirun", engine)->name(), "mpirun");
  EXPECT_EQ(error_of([&] { make_executor("slurm", engine); }),
            "--hosts: the executor 'slurm' does not take it; executors that take it: mpirun");
  engine = {};
  engine.slurm = {"partition=short"};
  EXPECT_EQ(error_of([&] { make_executor("mpirun", engine); }),
            "--slurm-option: the executor 'mpirun' does not take it; executors that take it: slurm");
}

TEST(ExecutorTable, ImagesHaveFilesOfTheirOwn) {
  EXPECT_TRUE(in_images("kubernetes"));
  for (const char* name : {"local", "mpirun", "slurm", "slrum"}) EXPECT_FALSE(in_images(name)) << name;
  spec::EngineOptions engine;
  engine.image = "worker:1";
  for (const ExecutorRow& row : executors()) {
    EXPECT_EQ(make_executor(row.name, engine)->name(), row.name) << "ranks of all may run in containers";
  }
  engine = {};
  engine.kubernetes.memory = "4Gi";
  EXPECT_EQ(error_of([&] { make_executor("slurm", engine); }),
            "--memory: the executor 'slurm' does not take it; executors that take it: kubernetes");
}

TEST(ExecutorTable, AFractionOfACpuIsForContainersAlone) {
  const auto refused = [](const char* executor, const std::string& image) {
    spec::EngineOptions engine;
    engine.cpus = 2.5;
    engine.image = image;
    return error_of([&] { make_executor(executor, engine); });
  };
  for (const char* executor : {"local", "mpirun", "slurm"}) {
    EXPECT_EQ(refused(executor, ""),
              fmt::format("--threads-per-worker 2.5: the executor '{}' limits CPUs of containers alone; give a whole "
                          "number, an --image (slurm: a .sif file), or --executor kubernetes",
                          executor));
  }
  EXPECT_EQ(refused("local", "i:1"), "no error");
  EXPECT_EQ(refused("mpirun", "i:1"), "no error");
  EXPECT_THAT(refused("slurm", "i:1"), testing::HasSubstr("a .sif file")) << "pyxis";
  EXPECT_EQ(refused("slurm", "/images/i.sif"), "no error");
  EXPECT_EQ(refused("kubernetes", ""), "no error");
}

TEST(ExecutorTable, UnknownNameListsTheValidOnes) {
  try {
    make_executor("slrum");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "unknown executor 'slrum': did you mean 'slurm'? valid: local, mpirun, slurm, kubernetes");
  }
}

}  // namespace
}  // namespace mlbench::catalog
