#include "mlbench/supervise/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <set>

namespace mlbench::supervise {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

// A run whose ranks have all joined and send heartbeats, on a clock of its own.
class JudgeTest : public testing::Test {
 protected:
  static constexpr double kCommTimeout_s = 10;

  JudgeTest() {
    options_.comm_timeout_s = kCommTimeout_s;
    options_.start_timeout = 20s;
    options_.work_ended = [this](size_t rank) {
      asked_.push_back(rank);
      return ended_whole_.at(rank);
    };
    clock_.advance(1h);
  }

  void begin(size_t ranks) {
    view_.ranks.resize(ranks);
    for (RankView& rank : view_.ranks) {
      rank.status.host = "node1";
      rank.process_state = 'S';
    }
    ended_.clear();
    ended_whole_.assign(ranks, true);
    judge_.emplace(options_, clock_.now());
  }
  void all_join() {
    for (RankView& rank : view_.ranks) {
      rank.status.joined = rank.status.connected = true;
      rank.status.heartbeat = {{"operation", "all_reduce"}, {"sequence", 7}, {"in_progress", true}};
    }
    ASSERT_FALSE(look());
  }
  void see(const exec::Observation& seen) { judge_->see(seen, clock_.now()); }
  void end(size_t rank, ProcessEnd how) {
    see(exec::RankExit{static_cast<int>(rank), how});
    view_.ranks[rank].status.connected = false;
    view_.ranks[rank].process_state = '?';
    ended_.insert(rank);
    view_.running = ended_.size() < view_.ranks.size();
  }

  std::optional<Outcome> look() { return judge_->judge(view_, clock_.now()); }
  // Looks as often as a supervisor does, while the ranks `beating` send heartbeats; returns the first outcome.
  std::optional<Outcome> after(Nanoseconds time, const std::vector<size_t>& beating = {}) {
    for (const TimePoint until = clock_.now() + time; clock_.now() < until;) {
      clock_.advance(100ms);
      for (const size_t rank : beating) view_.ranks[rank].status.last_heartbeat = clock_.now();
      if (auto outcome = look()) return outcome;
    }
    return std::nullopt;
  }
  // The failure of the outcome, which must be one.
  record::Failure failure(const std::optional<Outcome>& outcome) {
    EXPECT_TRUE(outcome);
    if (!outcome || !outcome->failure) return {};
    EXPECT_EQ(outcome->state, record::RunState::kFailed);
    return *outcome->failure;
  }

  JudgeOptions options_;
  ManualClock clock_;
  RunView view_;
  std::set<size_t> ended_;
  std::vector<bool> ended_whole_;
  std::vector<size_t> asked_;
  std::optional<Judge> judge_;
};

TEST_F(JudgeTest, FinishedWhenAllCameToTheEndOfTheirWork) {
  begin(2);
  all_join();
  end(0, {0, {}});
  EXPECT_FALSE(after(5s, {1}));
  EXPECT_THAT(asked_, ElementsAre()) << "the spools of ranks that may be waited for are not read";
  end(1, {0, {}});
  const auto outcome = look();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->state, record::RunState::kFinished);
  EXPECT_FALSE(outcome->failure);
  EXPECT_THAT(asked_, ElementsAre(0, 1));
}

TEST_F(JudgeTest, ACauseHasASecondToShowBesideItsEffects) {
  begin(3);
  all_join();
  end(0, {3, {}});  // a communication error
  EXPECT_FALSE(after(900ms, {1, 2}));
  end(2, {137, SIGKILL});
  const auto why = failure(after(300ms, {1}));
  EXPECT_EQ(why.kind, "rank_died");
  EXPECT_EQ(why.rank, 2);
}

TEST_F(JudgeTest, ARankThatBreaksTheProtocolIsNamed) {
  begin(3);
  all_join();
  view_.ranks[1].status.fault = "a heartbeat has 5000 bytes: at most 4096 are expected";
  view_.ranks[1].status.connected = false;
  const auto why = failure(after(6s, {0, 2}));
  EXPECT_EQ(why.kind, "rank_error");
  EXPECT_EQ(why.rank, 1);
  EXPECT_THAT(why.message, HasSubstr("rank 1 on node1 breaks the protocol: a heartbeat has 5000 bytes"));
}

TEST_F(JudgeTest, AHostThatSaysWhatNoneSaysIsNamed) {
  begin(2);
  all_join();
  see(exec::RankExit{.rank = 0, .lost = true, .why = "it says twice where it is"});
  const auto outcome = after(2s, {1});
  EXPECT_EQ(failure(outcome).kind, "rank_error");
  EXPECT_EQ(failure(outcome).rank, 0);
  EXPECT_FALSE(outcome->lost_place) << "elsewhere it would do the same";
}

// Members of a heartbeat with wrong types are ignored.
TEST_F(JudgeTest, WordsOfOtherKindsAreNoWords) {
  begin(1);
  all_join();
  view_.ranks[0].status.heartbeat = {{"operation", 7}, {"sequence", "x"}};
  ended_whole_ = {false};
  end(0, {0, {}});
  EXPECT_EQ(failure(look()).kind, "rank_error");
}

TEST_F(JudgeTest, ARankThatIsDyingHasFiveSeconds) {
  begin(2);
  all_join();
  view_.ranks[0].status.report = {{"event", "failure"}, {"kind", "comm_error"}, {"message", "closed by peer"}};
  view_.ranks[1].status.connected = false;  // writes its core
  EXPECT_FALSE(after(4900ms, {0}));
  end(1, {139, SIGSEGV});
  const auto why = failure(look());
  EXPECT_EQ(why.rank, 1);
  EXPECT_THAT(why.message, HasSubstr("SIGSEGV"));
}

TEST_F(JudgeTest, NobodyIsWaitedForOnceNoRankRuns) {
  begin(1);
  all_join();
  end(0, {4, {}});
  EXPECT_EQ(failure(look()).kind, "rank_error");
}

TEST_F(JudgeTest, AKilledLauncherIsToBlameForAll) {
  begin(2);
  all_join();
  end(0, {137, SIGKILL});
  see(exec::EngineWord{exec::EngineFact::kLauncherKilled, "mpirun was killed by signal 11 (SIGSEGV)"});
  const auto why = failure(look());
  EXPECT_EQ(why.kind, "start_failed");
  EXPECT_EQ(why.rank, -1);
  EXPECT_EQ(why.message, "mpirun was killed by signal 11 (SIGSEGV)");
}

TEST_F(JudgeTest, ARankThatItsEngineEndedIsNamed) {
  begin(2);
  all_join();
  view_.ranks[1].status.host = "node2";
  see(exec::EngineWord{exec::EngineFact::kRankTaken, "pod p-1 was evicted: node is low on disk", 1});
  const auto why = failure(look());
  EXPECT_EQ(why.kind, "rank_died");
  EXPECT_EQ(why.rank, 1);
  EXPECT_EQ(why.host, "node2");
  EXPECT_EQ(why.operation, "all_reduce");
  EXPECT_EQ(why.sequence, 7);
  EXPECT_EQ(why.message, "pod p-1 was evicted: node is low on disk");
}

TEST_F(JudgeTest, OnlyALostPlaceIsOne) {
  begin(2);
  all_join();
  end(1, {4, {}});
  EXPECT_FALSE(after(2s)->lost_place);
  view_ = {};
  begin(2);
  all_join();
  see(exec::RankExit{.rank = 1, .lost = true});
  EXPECT_TRUE(after(2s)->lost_place);
  for (const bool lost : {false, true}) {
    view_ = {};
    begin(2);
    all_join();
    see(exec::EngineWord{.fact = exec::EngineFact::kJobTaken, .words = "Slurm requeued it", .place_lost = lost});
    EXPECT_EQ(look()->lost_place, lost);
  }
}

TEST_F(JudgeTest, ARankThatIsNoneIsNobody) {
  begin(2);
  all_join();
  see(exec::EngineWord{exec::EngineFact::kRankDeleted, "pod p-7 was deleted", 7});
  EXPECT_EQ(failure(look()).rank, -1);
}

TEST_F(JudgeTest, RanksThatNeverJoinAreNamedAfterTheStartTimeout) {
  begin(3);
  view_.ranks[1].status.joined = view_.ranks[1].status.connected = true;
  EXPECT_FALSE(after(19900ms));
  const auto why = failure(after(200ms));
  EXPECT_EQ(why.kind, "start_failed");
  EXPECT_EQ(why.rank, 0);
  EXPECT_EQ(why.message, "ranks 0, 2 on node1 did not join the rendezvous within 20 s");
}

TEST_F(JudgeTest, RanksThatNeverJoinAreNamedWithTheirHosts) {
  begin(4);
  view_.ranks[1].status.joined = view_.ranks[1].status.connected = true;
  view_.ranks[2].status.host = view_.ranks[3].status.host = "node2";
  EXPECT_EQ(failure(after(20100ms)).message, "ranks 0, 2, 3 on node1, node2 did not join the rendezvous within 20 s");
}

TEST_F(JudgeTest, RanksThatEndedWithoutJoiningAreNamedAtOnce) {
  begin(2);
  view_.ranks[0].status.joined = view_.ranks[0].status.connected = true;
  end(1, {0, {}});
  EXPECT_EQ(failure(look()).message, "rank 1 on node1 ended without joining the rendezvous");
}

// Peers see a broken connection at once; that the host is lost shows later.
TEST_F(JudgeTest, ASilentHostHasTimeToBeLost) {
  begin(3);
  for (const size_t rank : {1, 2}) view_.ranks[rank].status.host = "node2";
  all_join();
  for (const int rank : {1, 2}) see(exec::RankSilence{rank});
  view_.ranks[0].status.report =
      Json{{"event", "failure"}, {"kind", "comm_error"}, {"message", "connection closed by peer"}};
  EXPECT_FALSE(after(10s, {0, 1, 2}));
  for (const int rank : {1, 2}) see(exec::RankExit{.rank = rank, .lost = true});
  const auto why = failure(after(3s, {0}));
  EXPECT_EQ(why.kind, "host_lost");
  EXPECT_EQ(why.rank, 1);
  EXPECT_EQ(why.host, "node2");
  EXPECT_EQ(why.message, "ranks 1, 2 on node2: the link to their host was lost");
}

TEST_F(JudgeTest, LeavingEarlyIsNoSuccess) {
  begin(2);
  all_join();
  ended_whole_[0] = false;
  end(0, {0, {}});
  EXPECT_FALSE(after(12900ms, {1})) << "the other may still wait for it that long";
  const auto why = failure(after(300ms, {1}));
  EXPECT_EQ(why.kind, "rank_error");
  EXPECT_EQ(why.rank, 0);
  EXPECT_EQ(why.operation, "all_reduce");
  EXPECT_EQ(why.sequence, 7);
  EXPECT_EQ(why.message, "rank 0 on node1 ended with exit code 0 before its work was done");
}

TEST_F(JudgeTest, ASpoolIsReadOnce) {
  begin(2);
  all_join();
  end(0, {0, {}});
  EXPECT_FALSE(after(20s, {1}));
  EXPECT_THAT(asked_, ElementsAre(0));
}

TEST_F(JudgeTest, ASilentRankHasTheTimeoutAndThreeSeconds) {
  begin(2);
  EXPECT_FALSE(after(15s)) << "nobody beats before all have joined";
  all_join();
  EXPECT_FALSE(after(13s, {0}));
  const auto why = failure(after(200ms, {0}));
  EXPECT_EQ(why.kind, "comm_timeout");
  EXPECT_EQ(why.rank, 1);
}

TEST_F(JudgeTest, ASupervisorThatWasStoppedHasHeardNobody) {
  begin(2);
  all_join();
  clock_.advance(1h);
  EXPECT_FALSE(look());
  EXPECT_FALSE(after(13s, {0}));
  EXPECT_EQ(failure(after(200ms, {0})).rank, 1);
}

TEST_F(JudgeTest, OfCommandsOfOthersOnlyTheirEndsCount) {
  options_.own_worker = false;
  begin(3);
  EXPECT_FALSE(after(1min)) << "they neither join nor beat";
  end(1, {0, {}});
  EXPECT_FALSE(look());
  end(2, {3, {}});
  end(0, {137, SIGKILL});
  const auto why = failure(look());
  EXPECT_EQ(why.kind, "rank_error");
  EXPECT_EQ(why.rank, 2) << "the first";
  EXPECT_EQ(why.message, "rank 2 on node1 exited with code 3") << "the code means what they like";
  EXPECT_THAT(asked_, ElementsAre());
}

TEST_F(JudgeTest, WithTheFailureOfACommandStandsWhoseProcessIsStopped) {
  options_.own_worker = false;
  begin(2);
  view_.ranks[1].process_state = 'T';
  EXPECT_FALSE(after(1min));
  end(0, {1, {}});
  EXPECT_EQ(failure(after(2s)).message,
            "rank 0 on node1 exited with code 1; rank 1 on node1 is stopped (state T, as by SIGSTOP)");
}

TEST_F(JudgeTest, TheCauseOfCommandsHasTimeToShow) {
  options_.own_worker = false;
  options_.words_left = [](size_t rank) { return WordsLeft{{}, rank == 0 ? "No space left on device" : ""}; };
  begin(3);
  end(2, {1, {}});
  EXPECT_FALSE(look());
  end(0, {1, {}});
  const auto why = failure(after(2s));
  EXPECT_EQ(why.message, "rank 0 on node1 exited with code 1: No space left on device");
}

TEST_F(JudgeTest, WordsThatARankLeftBehindAreItsReport) {
  options_.words_left = [](size_t rank) {
    const Json report = {{"event", "failure"}, {"kind", "comm_error"}, {"message", "no way to the rendezvous"}};
    return rank == 1 ? WordsLeft{report, ""} : WordsLeft{};
  };
  begin(2);
  end(0, {3, {}});
  end(1, {3, {}});
  const auto why = failure(look());
  EXPECT_EQ(why.rank, 1);
  EXPECT_EQ(why.kind, "comm_error");
  EXPECT_EQ(why.message, "rank 1 on node1 exited with code 3 (communication error): no way to the rendezvous");
}

TEST_F(JudgeTest, ARankThatDoesNotJoinIsNamedWithItsReason) {
  options_.words_left = [](size_t rank) {
    return WordsLeft{{}, rank == 1 ? "cannot reach the rendezvous at 10.0.0.1:4711 yet: no answer" : ""};
  };
  begin(2);
  const auto why = failure(after(21s));
  EXPECT_EQ(why.rank, 1);
  EXPECT_EQ(why.message,
            "ranks 0, 1 on node1 did not join the rendezvous within 20 s; rank 1: cannot reach the rendezvous at "
            "10.0.0.1:4711 yet: no answer");
}

TEST_F(JudgeTest, CommandsOfOthersThatAllEndWithZeroHaveFinished) {
  options_.own_worker = false;
  begin(2);
  end(0, {0, {}});
  end(1, {0, {}});
  const auto outcome = look();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->state, record::RunState::kFinished);
}

TEST(Outcome, ARequestedEndIsStoppedOrLost) {
  EXPECT_EQ(ended_on_request(EndRequest::kStop).state, record::RunState::kStopped);
  EXPECT_FALSE(ended_on_request(EndRequest::kStop).failure);
  const Outcome lost = ended_on_request(EndRequest::kLauncherLost);
  EXPECT_EQ(lost.state, record::RunState::kFailed);
  EXPECT_EQ(lost.failure.value().kind, "launcher_lost");
}

TEST(Outcome, ExitCodes) {
  EXPECT_EQ(exit_code_of(record::RunState::kFinished), ExitCode::kOk);
  EXPECT_EQ(exit_code_of(record::RunState::kStopped), ExitCode::kStopped);
  EXPECT_EQ(exit_code_of(record::RunState::kFailed), ExitCode::kRunFailed);
}

}  // namespace
}  // namespace mlbench::supervise
