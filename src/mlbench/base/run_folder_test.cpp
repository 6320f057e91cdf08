#include "mlbench/base/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlbench/base/files.h"

namespace mlbench {
namespace {

// Documented, and read by programs of others.
TEST(RunFolder, ItsNamesStay) {
  EXPECT_EQ(spec_path(runs_dir("/home") / "r-2"), "/home/runs/r-2/spec.json");
  EXPECT_EQ(record_path("r-2"), "r-2/run.json");
  EXPECT_EQ(supervisor_log_path("r-2"), "r-2/logs/supervisor.log");
  EXPECT_EQ(rank_log_path("logs", 2, 1, LogStream::kStdout), "logs/rank-1.seg-2.out");
  EXPECT_EQ(rank_log_path("logs", 2, 1, LogStream::kStderr), "logs/rank-1.seg-2.err");
  EXPECT_EQ(launcher_log_path("logs", "slurm", 3), "logs/slurm.seg-3.log");
  EXPECT_EQ(launcher_log_path("logs", "slurm", 3, "sbatch"), "logs/slurm.seg-3.sbatch");
  EXPECT_EQ(steps_path("r-2", 2, 1), "r-2/spool/rank-1.seg-2.steps");
  EXPECT_EQ(events_path("", 2, 1), "spool/rank-1.seg-2.events");
  EXPECT_EQ(timeline_path("", 2, 1), "timeline/rank-1.seg-2.spans");
  EXPECT_EQ(tracker_lines_path("", 1), "metrics/rank-1.jsonl");
}

TEST(RunFolder, CheckpointsAreFoundByTheirSteps) {
  EXPECT_EQ(checkpoint_name(20), "step-000000020");
  for (const int64_t step : {int64_t{0}, int64_t{20}, int64_t{12'345'678'901}}) {
    EXPECT_EQ(step_of_checkpoint(checkpoint_name(step)), step);
  }
  for (const char* other : {"", "step-", "step-1", "step-00000002x", "step--00000001", ".tmp-step-000000020-7"}) {
    EXPECT_EQ(step_of_checkpoint(other), std::nullopt) << other;
  }
  const TemporaryFolder run;
  EXPECT_TRUE(checkpoint_steps(run.path()).empty());
  for (const int64_t step : {30, 4, 200}) {
    std::filesystem::create_directories(checkpoints_dir(run.path()) / checkpoint_name(step));
  }
  std::filesystem::create_directories(checkpoints_dir(run.path()) / "other");
  EXPECT_THAT(checkpoint_steps(run.path()), testing::ElementsAre(4, 30, 200));
}

}  // namespace
}  // namespace mlbench
