// A framework with a worker program of its own (toy_worker.cpp), beside the built mlbench-worker: from the catalog to
// the record.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "tests/support/processes.h"

namespace mlbench {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class WorkerPrograms : public testing::Test {
 protected:
  WorkerPrograms() {
    fs::create_directory(programs());
    fs::create_symlink(environment_variable("MLBENCH_TEST_WORKER").value(), worker());
    fs::create_symlink(TOY_WORKER, toy());
  }

  ProcessOutput run(std::vector<std::string> arguments) const {
    ProcessOptions options;
    options.arguments = std::move(arguments);
    options.environment = {{"MLBENCH_WORKER", worker().string()},
                           {"MLBENCH_HOME", home().string()},
                           {"MLBENCH_CORE_LOCK", (folder_ / "cores").string()}};
    return run_process(options, 2 * test::kPatience);
  }
  ProcessOutput mlbench(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), environment_variable("MLBENCH_TEST_MLBENCH").value());
    return run(std::move(arguments));
  }
  // A run of 2 ranks on made images.
  ProcessOutput train(const std::string& name, const std::string& framework, std::vector<std::string> more = {},
                      const std::string& task = "fashion-mnist") const {
    std::vector<std::string> arguments = {"run",     name,          "2", "--task",      task,     "--synthetic",
                                          "--local", "--max-steps", "3", "--framework", framework};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return mlbench(arguments);
  }
  Json record(const std::string& name) const { return read_json_file(home() / "runs" / name / "run.json"); }

  fs::path programs() const { return folder_ / "programs"; }
  fs::path worker() const { return programs() / "mlbench-worker"; }
  fs::path toy() const { return programs() / "mlbench-worker-tensorflow"; }
  fs::path home() const { return folder_ / "home"; }

  TemporaryFolder folder_;
};

TEST_F(WorkerPrograms, TheirFrameworksStandInOneList) {
  const Json rows = Json::parse(mlbench({"list", "frameworks", "--json"}).standard_output);
  std::map<std::string, Json> named;
  for (const Json& row : rows) named[row["name"]] = row;
  EXPECT_EQ(named["torch"]["program"], "mlbench-worker");
  EXPECT_EQ(named["null"]["program"], "mlbench-worker");
  const Json& toy = named["tensorflow"];
  EXPECT_EQ(toy["program"], "mlbench-worker-tensorflow");
  EXPECT_EQ(toy["available"], true);
  EXPECT_EQ(toy["about"], "a toy");
  EXPECT_THAT(toy["tasks"].get<std::vector<std::string>>(), AllOf(Contains("fashion-mnist"), Not(Contains("1a"))));
  EXPECT_THAT(named["torch"]["tasks"].get<std::vector<std::string>>(), AllOf(Contains("1a"), Contains("4a")));
}

TEST_F(WorkerPrograms, ARunIsOfTheProgramThatHasItsFramework) {
  ProcessOutput done = train("toy", "tensorflow", {"--data", "made-images"});
  ASSERT_EQ(done.end.code, 0) << done.standard_output << done.standard_error;
  EXPECT_EQ(record("toy-2")["framework"], "tensorflow");
  EXPECT_EQ(record("toy-2")["effective"]["name"], "null") << "what the toy computes with";
  EXPECT_EQ(record("toy-2")["exit_codes"], Json({0, 0}));
  done = train("plain", "torch", {"--data", "made-images"});
  ASSERT_EQ(done.end.code, 0) << done.standard_output << done.standard_error;
  EXPECT_EQ(record("plain-2")["effective"]["name"], "torch");
}

TEST_F(WorkerPrograms, WhatAFrameworkLacksIsRefusedBeforeARunExists) {
  const auto refused = [&](std::vector<std::string> more, const char* words, const char* task = "fashion-mnist") {
    const ProcessOutput done = train("no", "tensorflow", std::move(more), task);
    EXPECT_EQ(done.end.code, static_cast<int>(ExitCode::kUserError));
    EXPECT_THAT(done.standard_error, HasSubstr(words));
  };
  refused({}, "framework 'tensorflow' has no layer 'batch_norm2d', which model 'resnet-cifar' of task '1a' has", "1a");
  refused({"--set", "precision=bf16"}, "framework 'tensorflow' has no precision 'bf16'; valid: float32");
  refused({"--inter-op-threads", "2"}, "--inter-op-threads 2: framework 'tensorflow'");
  refused({"--profile"}, "--profile: framework 'tensorflow' cannot tell its operations apart");
  fs::remove(toy());
  refused({}, "build it (-DMLBENCH_TENSORFLOW=ON), install the package mlbench-worker-tensorflow");
  EXPECT_FALSE(fs::exists(home() / "runs/no-2"));
}

// Without a supervisor nobody has looked: a rank of the wrong program ends itself.
TEST_F(WorkerPrograms, ARankOfAnotherProgramEndsBeforeItPreparesData) {
  for (const auto& [program, framework] : {std::pair{toy(), "torch"}, std::pair{worker(), "tensorflow"}}) {
    const fs::path run_dir = folder_ / framework;
    const Json plans = Json::parse(train("by-hand", framework, {"--dry-run", "--json"}).standard_output);
    Json spec = plans[0]["spec"];
    spec["workers"] = 1;
    fs::create_directory(run_dir);
    write_json_file(run_dir / "spec.json", spec);
    ProcessOptions options;
    options.arguments = {program.string(), "--run-dir", run_dir.string()};
    options.environment = {{"RANK", "0"}, {"WORLD_SIZE", "1"}};
    const ProcessOutput done = run_process(options, test::kPatience);
    EXPECT_EQ(done.end.code, static_cast<int>(ExitCode::kUserError)) << framework;
    EXPECT_THAT(done.standard_error, AllOf(HasSubstr(std::string("unknown framework '") + framework + "'"),
                                           HasSubstr("(of " + program.filename().string() +
                                                     "; all ranks are of the program that has the ")));
    const auto kept = std::distance(fs::directory_iterator(home() / "cache"), fs::directory_iterator());
    EXPECT_EQ(kept, 1) << "the catalogs";
  }
}

}  // namespace
}  // namespace mlbench
