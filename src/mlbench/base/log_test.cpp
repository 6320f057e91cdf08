#include "mlbench/base/log.h"

#include <gmock/gmock.h>
#include <stdlib.h>

namespace mlbench {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class Log : public testing::Test {
 protected:
  void SetUp() override { before_ = spdlog::default_logger(); }
  void TearDown() override {
    unsetenv("MLBENCH_LOG");
    spdlog::set_default_logger(before_);
  }
  // What stands on standard error after a line of each level.
  static std::string lines_with(const char* level) {
    setenv("MLBENCH_LOG", level, 1);
    testing::internal::CaptureStderr();
    set_up_logging("rank 3");
    spdlog::debug("a detail");
    spdlog::info("loaded {} samples", 7);
    spdlog::error("lost");
    return testing::internal::GetCapturedStderr();
  }

 private:
  std::shared_ptr<spdlog::logger> before_;
};

TEST_F(Log, LineFormat) {
  EXPECT_THAT(lines_with("info"), MatchesRegex("..:..:..\\.... info \\[rank 3\\] loaded 7 samples\n"
                                               "..:..:..\\.... error \\[rank 3\\] lost\n"));
}

TEST_F(Log, NoTextForgesALineOrActsOnTheTerminal) {
  testing::internal::CaptureStderr();
  set_up_logging("rank 3");
  spdlog::warn("refused {}", "me\n12:00:00.000 error [rank 3] lost\r\x1b[2J");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex("..:..:..\\.... warning \\[rank 3\\] refused me\n"
                           "    12:00:00.000 error \\[rank 3\\] lost\\\\r\\\\x1b\\[2J\n"));
}

TEST_F(Log, LevelComesFromTheEnvironment) {
  EXPECT_THAT(lines_with("debug"), HasSubstr("a detail"));
  EXPECT_THAT(lines_with("error"), Not(HasSubstr("loaded")));
  EXPECT_EQ(lines_with("off"), "");
  EXPECT_THAT(lines_with(""), HasSubstr("loaded"));
}

TEST_F(Log, AnUnknownLevelIsNamedAndSilencesNothing) {
  const std::string lines = lines_with("loud");
  EXPECT_THAT(lines, HasSubstr("MLBENCH_LOG=loud: expected trace, debug, info, warn, error or off"));
  EXPECT_THAT(lines, HasSubstr("loaded 7 samples"));
}

}  // namespace
}  // namespace mlbench
