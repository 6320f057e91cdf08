#include "mlbench/supervise/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <set>

#include "mlbench/supervise/judge.h"

namespace mlbench::supervise {
namespace {

using namespace std::chrono_literals;
using exec::EngineFact;
using exec::EngineWord;
using exec::RankExit;
using exec::RankSilence;

constexpr double kCommTimeout_s = 10;

// Three ranks on three hosts that have joined and send heartbeats, on a clock of their own.
struct Play {
  Play() {
    options.comm_timeout_s = kCommTimeout_s;
    options.start_timeout = 20s;
    options.verdict_time = 3s;
    options.work_ended = [](size_t rank) { return rank != 2; };
    view.ranks.resize(3);
    for (size_t rank = 0; rank < 3; ++rank) view.ranks[rank].status.host = "n" + std::to_string(rank);
    clock.advance(1h);
  }
  void begin() { judge.emplace(options, clock.now()); }
  void join(size_t rank) {
    view.ranks[rank].status.joined = view.ranks[rank].status.connected = true;
    view.ranks[rank].status.heartbeat = {{"operation", "all_reduce"}, {"sequence", 7}, {"in_progress", true}};
  }
  void all_join() {
    for (size_t rank = 0; rank < 3; ++rank) join(rank);
    begin();
    look();
  }
  void see(const exec::Observation& seen) { judge->see(seen, clock.now()); }
  void say(EngineFact fact, int rank = -1, std::optional<int> code = {}) {
    see(EngineWord{fact, "in its words", rank, code, false});
  }
  void end(int rank, ProcessEnd how) {
    see(RankExit{rank, how});
    view.ranks[static_cast<size_t>(rank)].status.connected = false;
    ended.insert(rank);
    view.running = ended.size() < 3;
  }
  void lose(int rank) {
    see(RankExit{.rank = rank, .lost = true});
    ended.insert(rank);
  }
  void report(size_t rank, const char* kind = "comm_error") {
    view.ranks[rank].status.report = {{"event", "failure"}, {"kind", kind}, {"message", "closed by peer"}};
  }
  std::optional<Outcome> look() { return judge->judge(view, clock.now()); }
  // Looks as often as a supervisor does, while all ranks but `silent` send heartbeats; returns the first outcome.
  std::optional<Outcome> during(Nanoseconds time, int silent = -1) {
    if (auto outcome = look()) return outcome;
    for (const TimePoint until = clock.now() + time; clock.now() < until;) {
      clock.advance(100ms);
      for (int rank = 0; rank < 3; ++rank) {
        if (rank != silent) view.ranks[static_cast<size_t>(rank)].status.last_heartbeat = clock.now();
      }
      if (auto outcome = look()) return outcome;
    }
    return std::nullopt;
  }

  JudgeOptions options;
  ManualClock clock;
  RunView view;
  std::set<int> ended;
  std::optional<Judge> judge;
};

// A case for a row of the table: what happens, after how long the run is over, and which rank is named.
struct Case {
  std::string_view row;
  void (*play)(Play& play);
  Nanoseconds patience;  // 0: at once
  std::string_view kind;
  int rank = -1;
  int silent = -1;
};

const Case kCases[] = {
    // ---- the engine
    {"a signal killed what started all ranks",
     [](Play& play) {
       play.all_join();
       for (int rank = 0; rank < 3; ++rank) play.end(rank, {137, SIGKILL});  // and with it the ranks
       play.say(EngineFact::kLauncherKilled);
     },
     0s, "start_failed"},
    {"the engine, or somebody, took the job",
     [](Play& play) {
       play.all_join();
       play.end(1, {4, {}});
       play.say(EngineFact::kJobTaken);
     },
     0s, "start_failed"},
    {"the engine took a rank's place or memory",
     [](Play& play) {
       play.all_join();
       play.end(0, {3, {}});
       play.say(EngineFact::kRankDeleted, 0);  // since another rank of the job ended
       play.say(EngineFact::kRankTaken, 1, 137);
     },
     0s, "rank_died", 1},
    {"the engine says that a host is gone, no link is silent",
     [](Play& play) {
       play.all_join();
       play.say(EngineFact::kHostGone, 2);
     },
     0s, "host_lost", 2},
    {"the engine says that a host is gone, no link is silent",
     [](Play& play) {
       play.all_join();
       play.say(EngineFact::kHostGone);
     },
     0s, "start_failed"},
    {"the engine says that a rank ended, its guard nothing",
     [](Play& play) {
       play.all_join();
       play.say(EngineFact::kRankDeleted, 0);
       play.say(EngineFact::kRankEnded, 1, 7);
     },
     0s, "rank_error", 1},
    {"the engine says that a rank ended, its guard nothing",
     [](Play& play) {
       play.all_join();
       play.say(EngineFact::kRankEnded, 1, 137);
     },
     0s, "rank_died", 1},
    {"a rank was deleted",
     [](Play& play) {
       play.all_join();
       play.say(EngineFact::kRankDeleted, 1);
       play.say(EngineFact::kRankDeleted, 0);
     },
     0s, "rank_died", 1},
    {"the job ended under its ranks",
     [](Play& play) {
       play.all_join();
       play.say(EngineFact::kJobOver);
     },
     0s, "start_failed"},
    {"a signal killed Open MPI, no rank failed",
     [](Play& play) {
       play.all_join();
       play.say(EngineFact::kBesideEnded);
       play.say(EngineFact::kBesideKilled);
       play.end(0, {3, {}});
     },
     0s, "start_failed"},
    {"Open MPI ended",
     [](Play& play) {
       play.all_join();
       play.say(EngineFact::kBesideEnded);
     },
     3s, "start_failed"},
    // ---- trouble
    {"a rank ended with an error, by a signal or out of sight",
     [](Play& play) {
       play.all_join();
       play.end(1, {4, {}});
     },
     1s, "rank_error", 1},
    {"a rank ended with an error, by a signal or out of sight",
     [](Play& play) {
       play.all_join();
       play.lose(1);
     },
     1s, "host_lost", 1},
    {"a rank reports a failure",
     [](Play& play) {
       play.all_join();
       play.report(2, "rank_error");
     },
     1s, "rank_error", 2},
    {"a rank says what none may say",
     [](Play& play) {
       play.all_join();
       play.view.ranks[1].status.fault = "a heartbeat has 5000 bytes";
     },
     1s, "rank_error", 1},
    // ---- what holds back
    {"a rank closed its connection and has not ended",
     [](Play& play) {
       play.all_join();
       play.report(0);
       play.view.ranks[1].status.connected = false;
     },
     5s, "comm_error", 0},
    {"a rank's host is silent",
     [](Play& play) {
       play.all_join();
       play.see(RankSilence{1});
       play.end(0, {1, {}});
     },
     12s, "rank_error", 0},
    {"a silent host is back",
     [](Play& play) {
       play.all_join();
       play.see(RankSilence{1});
       play.end(0, {1, {}});
       play.during(4s);
       play.see(RankSilence{1, true});
     },
     1s, "rank_error", 0},
    {"a rank ended of SIGTERM",
     [](Play& play) {
       play.all_join();
       play.end(1, {143, SIGTERM});
     },
     3s, "rank_died", 1},
    {"a rank ended of SIGTERM",  // even when no rank runs
     [](Play& play) {
       play.all_join();
       for (int rank = 0; rank < 3; ++rank) play.end(rank, {143, SIGTERM});
     },
     3s, "rank_died", 0},
    // ---- what ranks do not do
    {"all that have not joined have ended",
     [](Play& play) {
       play.join(0);
       play.begin();
       play.end(1, {0, {}});
       play.end(2, {0, {}});
     },
     0s, "start_failed", 1},
    {"a rank has not joined",
     [](Play& play) {
       play.join(0);
       play.begin();
     },
     20s, "start_failed", 1},
    {"a rank ended with code 0 before its work was done",
     [](Play& play) {
       play.all_join();
       play.end(2, {0, {}});
     },
     13s, "rank_error", 2},
    {"a rank sends no heartbeat", [](Play& play) { play.all_join(); }, 13s, "comm_timeout", 1, 1},
};

TEST(Table, EachRowHasItsPatienceAndItsCulprit) {
  std::set<std::string_view> played;
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.row);
    played.insert(one.row);
    Play play;
    one.play(play);
    if (one.patience > 0s) {
      EXPECT_FALSE(play.during(one.patience - 100ms, one.silent)) << "too early";
    }
    const auto outcome = play.during(one.patience > 0s ? 200ms : 0s, one.silent);
    ASSERT_TRUE(outcome && outcome->failure);
    EXPECT_EQ(outcome->failure->kind, one.kind) << outcome->failure->message;
    EXPECT_EQ(outcome->failure->rank, one.rank) << outcome->failure->message;
  }
  for (const Row& row : table()) EXPECT_TRUE(played.contains(row.seen)) << "no case plays: " << row.seen;
}

// ---- how rows outweigh each other

record::Failure failure_of(const std::optional<Outcome>& outcome) {
  EXPECT_TRUE(outcome && outcome->failure);
  return outcome && outcome->failure ? *outcome->failure : record::Failure();
}

// When a host is lost, mpirun or the engine ends the ranks on other hosts: SIGTERM or errors are all seen first.
TEST(Table, ALostHostOutweighsWhatWasSeenInItsSilence) {
  Play play;
  play.all_join();
  play.see(RankSilence{2});
  play.say(EngineFact::kHostGone);
  play.end(0, {143, SIGTERM});
  play.end(1, {1, {}});
  EXPECT_FALSE(play.during(6s));
  play.lose(2);
  const auto outcome = play.during(2s);
  EXPECT_EQ(failure_of(outcome).kind, "host_lost");
  EXPECT_EQ(failure_of(outcome).rank, 2);
  EXPECT_TRUE(outcome->lost_place);
}

TEST(Table, WhatWasSeenBeforeASilenceOutweighsTheLostHost) {
  Play play;
  play.all_join();
  play.end(1, {139, SIGSEGV});
  play.see(RankSilence{2});
  EXPECT_FALSE(play.during(6s));
  play.lose(2);
  EXPECT_EQ(failure_of(play.during(2s)).rank, 1);
}

TEST(Table, AHostThatComesBackWasNotGone) {
  Play play;
  play.all_join();
  play.see(RankSilence{2});
  EXPECT_FALSE(play.during(5s));
  play.see(RankSilence{2, true});
  EXPECT_FALSE(play.during(60s));
  play.say(EngineFact::kHostGone);
  EXPECT_EQ(failure_of(play.look()).message, "in its words");
}

TEST(Table, AHostThatComesAndGoesHoldsNothingBackForEver) {
  Play play;
  play.all_join();
  play.end(0, {1, {}});
  std::optional<Outcome> outcome;
  int seconds = 0;
  for (; !outcome && seconds < 60; ++seconds) {
    play.see(RankSilence{2, seconds % 2 == 1});
    outcome = play.during(1s);
  }
  EXPECT_LE(seconds, 16);
  EXPECT_EQ(failure_of(outcome).rank, 0);
}

TEST(Table, WhatTheEngineDidOutweighsTheTerminatedRanks) {
  Play play;
  play.all_join();
  for (int rank = 0; rank < 3; ++rank) play.end(rank, {143, SIGTERM});
  EXPECT_FALSE(play.during(2s));
  play.say(EngineFact::kJobOver);  // the job ended by itself, as its ranks did
  EXPECT_FALSE(play.during(500ms));
  play.say(EngineFact::kJobTaken);
  EXPECT_EQ(failure_of(play.look()).kind, "start_failed");
}

TEST(Table, ARanksOwnEndOutweighsWhatItsEngineSaysOfIt) {
  Play play;
  play.all_join();
  play.end(1, {7, {}});
  play.say(EngineFact::kRankEnded, 1, 7);
  play.say(EngineFact::kRankDeleted, 0);  // the job deletes the other ranks
  EXPECT_FALSE(play.look());
  const record::Failure failure = failure_of(play.during(2s));
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.message.find("in its words"), std::string::npos);
}

// With MPI_Abort, mpirun ends before the rank that called it.
TEST(Table, ARankThatFailsOutweighsTheEndOfMpirunBesideIt) {
  for (const bool before : {false, true}) {
    Play play;
    play.all_join();
    if (before) play.end(1, {9, {}});
    play.say(EngineFact::kBesideEnded);
    if (!before) {
      EXPECT_FALSE(play.during(2s));
      play.end(1, {9, {}});
    }
    EXPECT_EQ(failure_of(play.during(2s)).rank, 1) << before;
  }
  Play play;
  play.all_join();
  play.end(1, {9, {}});
  play.say(EngineFact::kBesideKilled);
  EXPECT_EQ(failure_of(play.during(2s)).rank, 1) << "a rank that failed before it is killed";
}

TEST(Table, OpenMpiBesideASilentHostIsNotToBlame) {
  Play play;
  play.all_join();
  play.see(RankSilence{2});
  play.say(EngineFact::kBesideKilled);
  EXPECT_FALSE(play.during(7s));
  play.lose(2);
  EXPECT_EQ(failure_of(play.during(2s)).kind, "host_lost");
}

TEST(Table, OfRanksThatAllEndedWellTheEngineHasNothingToSay) {
  Play play;
  play.all_join();
  play.options.work_ended = [](size_t) { return true; };
  play.begin();
  play.look();
  for (int rank = 0; rank < 3; ++rank) play.end(rank, {0, {}});
  play.say(EngineFact::kJobOver);
  play.say(EngineFact::kJobTaken);
  const auto outcome = play.look();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->state, record::RunState::kFinished);
}

TEST(Table, CommandsOfOthersAreHeldBackAlike) {
  Play play;
  play.options.own_worker = false;
  play.begin();
  play.see(RankSilence{2});
  play.end(0, {1, {}});
  EXPECT_FALSE(play.during(6s));
  play.lose(2);
  EXPECT_EQ(failure_of(play.during(2s)).kind, "host_lost");
}

}  // namespace
}  // namespace mlbench::supervise
