#include "mlbench/supervise/requeue.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/supervise/link_files.h"

namespace mlbench::supervise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

class RequeueTest : public testing::Test {
 protected:
  RequeueTest() {
    run_.run_dir = folder_.path();
    run_.engine["requeue"] = 2;
  }

  void add_checkpoint(int64_t step) const {
    const fs::path folder = folder_ / "checkpoints" / ("step-00000000" + std::to_string(step));
    fs::create_directories(folder);
    for (const char* name : {"model.safetensors", "state.json"}) write_file_atomically(folder / name, name);
  }

  static Outcome lost(const std::string& kind = "host_lost") {
    Outcome outcome = failed(kind, "ranks 1 on h2: gone");
    outcome.lost_place = true;
    return outcome;
  }

  TemporaryFolder folder_;
  spec::RunSpec run_;
};

TEST_F(RequeueTest, ALostPlaceGoesOnFromTheLastCheckpointSoOftenAsAskedFor) {
  add_checkpoint(2);
  Requeue requeue(run_);
  const auto first = requeue.next(lost());
  EXPECT_EQ(first.step, 2);
  EXPECT_FALSE(first.wait);
  EXPECT_EQ(first.note, "requeued from step 2 (1 of 2): ranks 1 on h2: gone");
  add_checkpoint(4);
  EXPECT_EQ(requeue.next(lost("rank_died")).step, 4) << "an engine that evicts says what it did to a rank";
  const auto last = requeue.next(lost());
  EXPECT_FALSE(last.step);
  EXPECT_EQ(last.note, "not requeued: it was 2 times, as often as asked for");
}

TEST_F(RequeueTest, NothingElseDoes) {
  add_checkpoint(2);
  Requeue requeue(run_);
  for (const char* kind : {"rank_error", "rank_died", "start_failed", "disk_full"}) {
    const auto verdict = requeue.next(failed(kind, "why"));
    EXPECT_FALSE(verdict.step) << kind;
    EXPECT_EQ(verdict.note, "") << kind;
  }
  EXPECT_FALSE(requeue.next({record::RunState::kStopped, std::nullopt, false}).step);
  EXPECT_FALSE(requeue.next({}).step) << "it is finished";
  run_.engine.erase("requeue");
  Requeue never(run_);
  EXPECT_FALSE(never.next(lost()).step);
}

TEST_F(RequeueTest, AHostThatIsNotBackYetIsTriedAgain) {
  add_checkpoint(2);
  Requeue requeue(run_);
  EXPECT_TRUE(requeue.next(lost()).step);
  const auto again = requeue.next(failed("start_failed", "ssh: no route to h2"));
  EXPECT_EQ(again.step, 2);
  EXPECT_TRUE(again.wait);
  EXPECT_FALSE(requeue.next(failed("start_failed", "ssh: no route to h2")).step);
}

TEST_F(RequeueTest, WithoutACheckpointThereIsNothingToGoOnFrom) {
  fs::create_directories(folder_ / "checkpoints" / ".tmp-step-000000002");
  Requeue requeue(run_);
  const auto verdict = requeue.next(lost());
  EXPECT_FALSE(verdict.step);
  EXPECT_THAT(verdict.note, HasSubstr("no checkpoint yet"));
}

TEST_F(RequeueTest, RanksAreGivenTheCheckpointWhoseStateComesLast) {
  add_checkpoint(2);
  add_checkpoint(4);
  fs::create_directory(folder_ / "spool");
  for (const char* name : {"rank-0.seg-1.steps", "rank-1.seg-1.steps", "rank-0.seg-2.events"}) {
    write_file_atomically(folder_ / "spool" / name, "");
  }
  fs::create_directory(folder_ / "metrics");
  write_file_atomically(folder_ / "metrics/rank-1.jsonl", "{}\n");
  EXPECT_EQ(files_to_resume(run_, std::nullopt), nullptr);
  const auto given = files_to_resume(run_, 4);
  EXPECT_THAT(given(0),
              ElementsAre("checkpoints/step-000000004/model.safetensors", "checkpoints/step-000000004/state.json",
                          "spool/rank-0.seg-1.steps", "spool/rank-0.seg-2.events"));
  EXPECT_EQ(given(1).back(), "metrics/rank-1.jsonl");
  EXPECT_THROW(files_to_resume(run_, 3), UserError);
  EXPECT_THAT(checkpoint_steps(folder_.path()), ElementsAre(2, 4));
}

}  // namespace
}  // namespace mlbench::supervise
