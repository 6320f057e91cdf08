#include "mlbench/catalog/control/catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlbench/base/choices.h"
#include "mlbench/base/test_error.h"
#include "mlbench/catalog/options/options.h"

namespace mlbench::catalog {
namespace {

TEST(ExecutorTable, EveryRowMakesAnExecutorOfItsName) {
  ASSERT_FALSE(executors().empty());
  for (const ExecutorRow& row : executors()) EXPECT_EQ(make_executor(row.name)->name(), row.name);
}

TEST(ExecutorTable, WhatIsNotTakenIsNamedWithThoseThatTakeIt) {
  Json engine;
  engine["scratch"] = "/scratch";
  EXPECT_THAT(error_of([&] { make_executor("local", engine); }),
              testing::StartsWith("--scratch: the executor 'local' starts ranks on this host alone; executors that "
                                  "take it: mpirun, slurm"));
  engine = nullptr;
  engine["ranks_per_host"] = 2;
  EXPECT_EQ(error_of([&] { make_executor("local", engine); }),
            "--ranks-per-host: the executor 'local' starts ranks on this host alone; executors that take it: mpirun, "
            "slurm, kubernetes");
}

TEST(ExecutorTable, OnThisHostThereIsNowhereElseToGoOn) {
  Json engine;
  engine["requeue"] = 1;
  EXPECT_EQ(error_of([&] { make_executor("local", engine); }),
            "--requeue: the executor 'local' starts ranks on this host alone; executors that take it: mpirun, slurm, "
            "kubernetes");
}

TEST(ExecutorTable, OptionsOfAnotherEngineAreRefused) {
  Json engine;
  engine["hosts"] = "h1:2";
  EXPECT_EQ(make_executor("mpirun", engine)->name(), "mpirun");
  EXPECT_EQ(error_of([&] { make_executor("slurm", engine); }),
            "--hosts: the executor 'slurm' does not take it; executors that take it: mpirun");
  engine = nullptr;
  engine["slurm"] = {"partition=short"};
  EXPECT_EQ(error_of([&] { make_executor("mpirun", engine); }),
            "--slurm-option: the executor 'mpirun' does not take it; executors that take it: slurm");
}

TEST(ExecutorTable, ImagesHaveFilesOfTheirOwn) {
  EXPECT_TRUE(facts_of("kubernetes").in_images);
  for (const char* name : {"local", "mpirun", "slurm", "slrum"}) EXPECT_FALSE(facts_of(name).in_images) << name;
  Json engine;
  engine["image"] = "worker:1";
  for (const char* name : {"local", "mpirun", "slurm", "kubernetes"}) {
    EXPECT_EQ(make_executor(name, engine)->name(), name) << "ranks of all these may run in containers";
  }
  engine = nullptr;
  engine["memory"] = "4Gi";
  EXPECT_EQ(error_of([&] { make_executor("slurm", engine); }),
            "--memory: the executor 'slurm' does not take it; executors that take it: kubernetes");
}

TEST(ExecutorTable, CpusOfContainersAloneHaveLimits) {
  const auto limits = [](const char* executor, const Json& engine) {
    return make_executor(executor, engine)->limits_cpus();
  };
  for (const char* executor : {"local", "mpirun", "slurm"}) EXPECT_FALSE(limits(executor, Json::object())) << executor;
  EXPECT_TRUE(limits("local", {{"image", "i:1"}}));
  EXPECT_TRUE(limits("mpirun", {{"image", "i:1"}}));
  EXPECT_FALSE(limits("slurm", {{"image", "i:1"}})) << "pyxis";
  EXPECT_TRUE(limits("slurm", {{"image", "/images/i.sif"}}));
  EXPECT_TRUE(limits("kubernetes", Json::object()));
}

TEST(ExecutorTable, UnknownNameListsTheValidOnes) {
  EXPECT_EQ(
      error_of([] { make_executor("slrum"); }),
      fmt::format("unknown executor 'slrum': did you mean 'slurm'? valid: {}", fmt::join(names_of(executors()), ", ")));
}

}  // namespace
}  // namespace mlbench::catalog
