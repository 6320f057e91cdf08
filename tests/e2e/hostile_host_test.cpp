// A host of a run means harm, or is broken: whatever its guard says, the run ends in a record that names its rank, and
// nothing that it said is run, or fills memory or disk.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/process.h"
#include "mlbench/exec/slurm/test_fake_slurm.h"
#include "tests/support/processes.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

Words fault_names() {
  ProcessOptions options;
  options.arguments = {HOSTILE_GUARD};
  std::istringstream lines(run_process(options, test::kPatience).standard_output);
  Words names;
  for (std::string line; std::getline(lines, line);) names.push_back(line);
  return names;
}

class HostileHost : public testing::Test {
 protected:
  // The exit code. A shell runs the words, with what the hosts say of themselves in them.
  int run(const std::string& name, const Words& variables, const std::string& script) {
    Words arguments = {"run", name, "2", "--local"};
    for (const Words& more : {Words{"--executor", "slurm", "--scratch", folder_ / "scratch"}, variables,
                              Words{"--", "bash", "-c", script}}) {
      arguments.insert(arguments.end(), more.begin(), more.end());
    }
    const ProcessOutput output = test::mlbench(folder_, arguments, {{"FAKE_SLURM_HOSTILE_GUARD", HOSTILE_GUARD}});
    said_ = output.standard_error;
    EXPECT_LT(said_.size(), 64 << 10);
    return output.end.code;
  }
  fs::path mark() const { return folder_ / "mark"; }
  fs::path run_dir(const std::string& fault) const { return folder_ / "home/runs" / (fault + "-2"); }

  TemporaryFolder folder_;
  exec::slurm::FakeSlurm slurm_{FAKE_SLURM};
  std::string said_;
};

TEST_F(HostileHost, IsNamedAndHarmsNobody) {
  const Words faults = fault_names();
  ASSERT_GE(faults.size(), 10u);
  for (const std::string& fault : faults) {
    SCOPED_TRACE(fault);
    const Words variables = {"--env", "HOSTILE_FAULT=" + fault, "--env", "HOSTILE_MARK=" + mark().string()};
    EXPECT_EQ(run(fault, variables, "echo {hosts}; sleep 20"), 5) << said_;
    ASSERT_TRUE(fs::exists(run_dir(fault) / "run.json")) << said_;
    const Json record = read_json_file(run_dir(fault) / "run.json");
    EXPECT_EQ(record["state"], "failed");
    EXPECT_EQ(record["failure"]["rank"], 1) << record["failure"];
    EXPECT_FALSE(fs::exists(mark()));
    for (const auto& entry : fs::recursive_directory_iterator(run_dir(fault))) {
      EXPECT_TRUE(!entry.is_regular_file() || entry.file_size() < 1 << 20) << entry.path();
    }
  }
}

// Without a fault the run finishes: what the test above finds is the faults' doing.
TEST_F(HostileHost, WithoutAFaultTheRunFinishes) { EXPECT_EQ(run("well", {}, "echo {hosts}"), 0) << said_; }

}  // namespace
}  // namespace mlbench
