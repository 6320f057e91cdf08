// Whether a run that nobody owns yet is about to start, or lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "mlbench/base/clock.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/home/runs.h"
#include "mlbench/record/record.h"
#include "mlbench/supervise/lease.h"
#include "mlbench/supervise/progress.h"

namespace mlbench::home {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
namespace fs = std::filesystem;

class CurrentRecord : public testing::Test {
 protected:
  fs::path make() {
    spec::RunSpec run;
    run.name = "r-1";
    run.task = spec::find_task("fashion-mnist", "", "", {});
    run.division = "closed";
    run.data_name = "fashion-mnist";
    return create_run(folder_.path(), run).run_dir;
  }
  // Writes what it would be if the clock had been set after the run was made.
  static void say_made(const fs::path& run_dir, std::chrono::seconds ago) {
    for (const char* file : {"run.json", "spec.json"}) {
      Json json = read_json_file(run_dir / file);
      json["created_at"] = format_utc(SystemClock().wall_now() - ago);
      write_json_file(run_dir / file, json);
    }
  }
  static std::string state(const fs::path& run_dir) { return current_record(run_dir).state; }

  TemporaryFolder folder_;
};

TEST_F(CurrentRecord, AClockThatWasSetForwardLosesNoRun) {
  const fs::path dir = make();
  say_made(dir, 1h);
  EXPECT_EQ(state(dir), "queued");
}

TEST_F(CurrentRecord, AClockThatWasSetBackKeepsNoRun) {
  const fs::path dir = make();
  say_made(dir, -1h);
  Json made = read_json_file(dir / "control/made.json");
  made["boot_s"] = made["boot_s"].get<double>() - 60;
  write_json_file(dir / "control/made.json", made);
  EXPECT_EQ(state(dir), "failed");
}

TEST_F(CurrentRecord, NobodyStartsARunOfAnEarlierBoot) {
  const fs::path dir = make();
  Json made = read_json_file(dir / "control/made.json");
  made["boot"] = "an earlier one";
  write_json_file(dir / "control/made.json", made);
  EXPECT_EQ(state(dir), "failed");
  EXPECT_THAT(current_record(dir).failure->kind, HasSubstr("supervisor_lost"));
}

TEST_F(CurrentRecord, ARunThatASupervisorHadIsNoLongerJustMade) {
  const fs::path dir = make();
  record::RunProgress progress;
  progress.state = record::RunState::kQueued;  // by an engine
  supervise::write_progress(dir, progress);
  EXPECT_EQ(state(dir), "failed");
}

TEST_F(CurrentRecord, ARunIsOverOnceItsFileSaysSo) {
  const fs::path dir = make();
  const std::optional<supervise::Lease> lease = supervise::Lease::take(dir);
  ASSERT_TRUE(lease);
  record::RunProgress progress;
  progress.state = record::RunState::kRunning;
  supervise::write_progress(dir, progress);
  EXPECT_EQ(state(dir), "running");
  progress.state = record::RunState::kFinished;
  supervise::write_progress(dir, progress);
  EXPECT_EQ(state(dir), "queued") << "as run.json still says";
  write_json_file(dir / "run.json", record::to_json(supervise::record_of(dir, progress)));
  EXPECT_EQ(state(dir), "finished");
}

TEST_F(CurrentRecord, AWaitingRunThatCannotStartSaysWhy) {
  spec::RunSpec run = read_spec(make());
  run.name = "w-1";
  const fs::path dir = create_run(folder_.path(), run, Waiting{}).run_dir;
  EXPECT_EQ(state(dir), "queued");
  fail_waiting(dir, "no value");
  EXPECT_EQ(current_record(dir).failure->message, "no value");
  EXPECT_FALSE(read_waiting(dir));
}

}  // namespace
}  // namespace mlbench::home
