// Where a rank itself knows why it cannot go on, the run's failure names it and says so: real ranks in a network or
// with shared memory that does not work.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "tests/support/processes.h"

namespace mlbench {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

bool works(const Words& words) {
  ProcessOptions options;
  options.arguments = words;
  return run_process(options, test::kPatience).end.code == 0;
}

class Cause : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    home_ = std::make_unique<TemporaryFolder>();
    ASSERT_EQ(run({}, "warm", "gloo"), 0);  // data are prepared
  }
  static void TearDownTestSuite() { home_.reset(); }

  void SetUp() override {
    if (GetParam() == std::string("mpi") && !program_exists("mpirun")) GTEST_SKIP() << "missing capability: mpirun";
  }

  // The command's exit code; `around`: the words of a command that starts it.
  static int run(const Words& around, const std::string& name, const std::string& backend) {
    ProcessOptions options;
    options.arguments = around;
    for (const std::string& word :
         {environment_variable("MLBENCH_TEST_MLBENCH").value(), std::string("run"), name, std::string("2"),
          std::string("--task"), std::string("fashion-mnist"), std::string("--data"), std::string("made-images"),
          std::string("--synthetic"), std::string("--max-steps"), std::string("2"), std::string("--threads-per-worker"),
          std::string("1"), std::string("--local"), std::string("--backend"), backend}) {
      options.arguments.push_back(word);
    }
    options.environment = {{"MLBENCH_HOME", *home_ / "home"}, {"MLBENCH_CORE_LOCK", *home_ / "cores.lock"}};
    return run_process(options, 2 * test::kPatience).end.code;
  }

  static Json failure(const std::string& name) {
    return read_json_file(*home_ / "home" / "runs" / (name + "-2") / "run.json")["failure"];
  }

  static std::unique_ptr<TemporaryFolder> home_;
};

std::unique_ptr<TemporaryFolder> Cause::home_;

TEST_P(Cause, ALoopbackThatIsDown) {
  if (!works({"unshare", "-n", "true"})) GTEST_SKIP() << "missing capability: network namespaces";
  const std::string name = GetParam() + std::string("-lo");
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run({"unshare", "-n"}, name, GetParam()), 5);
  const auto took = std::chrono::steady_clock::now() - begin;
  const Json found = failure(name);
  const auto message = found["message"].get<std::string>();
  EXPECT_THAT(message, Not(HasSubstr("did not join the rendezvous within"))) << "nobody said why";
  if (GetParam() == std::string("mpi")) {  // mpirun may end before any rank, in words of its own
    EXPECT_THAT(message, AnyOf(HasSubstr("unreachable"), HasSubstr("network interface"))) << found;
    return;
  }
  EXPECT_THAT(message, HasSubstr("unreachable"));
  EXPECT_GE(found["rank"].get<int>(), 0) << found;
  EXPECT_LT(took, std::chrono::seconds(20));
}

TEST_P(Cause, SharedMemoryWithoutRoom) {
  const std::string small = "mount -t tmpfs -o size=64k tmpfs /dev/shm && exec \"$@\"";
  if (!works({"unshare", "-m", "sh", "-c", small, "sh", "true"}))
    GTEST_SKIP() << "missing capability: mount namespaces";
  const std::string name = GetParam() + std::string("-shm");
  ASSERT_EQ(run({"unshare", "-m", "sh", "-c", small, "sh"}, name, GetParam()),
            GetParam() == std::string("gloo") ? 0 : 5);
  if (GetParam() == std::string("gloo")) return;  // it needs none
  const Json found = failure(name);
  EXPECT_GE(found["rank"].get<int>(), 0) << found;
  EXPECT_THAT(found["message"].get<std::string>(),
              AnyOf(HasSubstr("no room"), HasSubstr("enough space"), HasSubstr("No space left")))
      << found;
}

INSTANTIATE_TEST_SUITE_P(BackEnds, Cause, testing::Values("gloo", "mpi", "shm"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace mlbench
