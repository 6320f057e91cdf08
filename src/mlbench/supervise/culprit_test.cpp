#include "mlbench/supervise/culprit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace mlbench::supervise {
namespace {

using testing::HasSubstr;

RankFacts working(int64_t sequence, bool in_progress = true) {
  RankFacts rank;
  rank.host = "node1";
  rank.joined = true;
  rank.heartbeat_age_s = 0.4;
  rank.heartbeat = {{"operation", "all_reduce"}, {"sequence", sequence}, {"in_progress", in_progress}, {"step", 7}};
  rank.process_state = 'S';
  return rank;
}

RankFacts timed_out(int64_t sequence) {
  RankFacts rank = working(sequence);
  rank.report = {{"event", "failure"},
                 {"kind", "comm_timeout"},
                 {"operation", "all_reduce"},
                 {"sequence", sequence},
                 {"message", "all_reduce took longer than 2 s"}};
  return rank;
}

RankFacts broken(int64_t sequence) {
  RankFacts rank = timed_out(sequence);
  (*rank.report)["kind"] = "comm_error";
  (*rank.report)["message"] = "connection closed by peer";
  return rank;
}

RankFacts ended(RankFacts rank, ProcessEnd end, int64_t order) {
  rank.exit = exec::RankExit{.end = end};
  rank.exit_order = order;
  rank.process_state = '?';
  return rank;
}

TEST(Culprit, KilledRankWinsOverItsVictims) {
  const auto failure =
      name_culprit({ended(broken(124), {3, {}}, 0), ended(working(123), {137, SIGKILL}, 1), broken(124)});
  EXPECT_EQ(failure.kind, "rank_died");
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.host, "node1");
  EXPECT_EQ(failure.operation, "all_reduce");
  EXPECT_EQ(failure.sequence, 123);
  EXPECT_EQ(failure.message, "rank 1 on node1 was killed by signal 9 (SIGKILL) during all_reduce #123");
}

TEST(Culprit, WhatItsHostSaysOfAnEndIsTold) {
  RankFacts rank = ended(working(123), {137, SIGKILL}, 1);
  rank.exit->why = "out of memory";
  EXPECT_EQ(name_culprit({working(123), rank}).message,
            "rank 1 on node1 was killed by signal 9 (SIGKILL) during all_reduce #123, out of memory");
}

TEST(Culprit, ALostHostIsNamedWithItsRanks) {
  RankFacts away = ended(working(123), {137, SIGKILL}, 1);
  away.host = "node2";
  away.exit->lost = true;
  auto failure = name_culprit({ended(broken(124), {3, {}}, 0), away, broken(124)});
  EXPECT_EQ(failure.kind, "host_lost");
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.host, "node2");
  EXPECT_EQ(failure.message, "rank 1 on node2: the link to its host was lost");
  failure = name_culprit({away, working(123), away});
  EXPECT_EQ(failure.message, "ranks 0, 2 on node2: the link to their host was lost");
}

TEST(Culprit, BetweenOperationsAndBeforeTheFirst) {
  EXPECT_EQ(name_culprit({ended(working(5, false), {139, SIGSEGV}, 0)}).message,
            "rank 0 on node1 was killed by signal 11 (SIGSEGV) after all_reduce #5");
  RankFacts fresh;
  fresh.host = "node1";
  EXPECT_EQ(name_culprit({ended(fresh, {2, {}}, 0)}).message, "rank 0 on node1 exited with code 2 (wrong input)");
}

TEST(Culprit, OwnErrorWinsOverCommunicationErrors) {
  RankFacts full_disk = ended(working(9, false), {4, {}}, 1);
  full_disk.report = {
      {"event", "failure"}, {"kind", "io_error"}, {"message", "cannot write spool: No space left on device"}};
  const auto failure = name_culprit({ended(broken(10), {3, {}}, 0), full_disk});
  EXPECT_EQ(failure.kind, "rank_error");
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.message,
            "rank 1 on node1 exited with code 4 (input/output error) after all_reduce #9: cannot write spool: No space "
            "left on device");
}

TEST(Culprit, OwnErrorReportedBeforeTheExit) {
  RankFacts failing = working(9);
  failing.report = {{"event", "failure"}, {"kind", "rank_error"}, {"message", "loss is not finite"}};
  const auto failure = name_culprit({broken(10), failing});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.message, "rank 1 on node1 failed: loss is not finite");
}

TEST(Culprit, FirstOfSeveralDeaths) {
  const auto failure = name_culprit({ended(working(3), {134, SIGABRT}, 1), ended(working(3), {1, {}}, 0)});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.kind, "rank_error");
}

TEST(Culprit, StoppedProcess) {
  RankFacts frozen = working(123);
  frozen.process_state = 'T';
  frozen.heartbeat_age_s = 2.5;
  const auto failure = name_culprit({timed_out(124), frozen, timed_out(124)});
  EXPECT_EQ(failure.kind, "comm_timeout");
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.sequence, 123);
  EXPECT_EQ(failure.message,
            "rank 1 on node1 is stopped (state T, as by SIGSTOP) during all_reduce #123; rank 0 reported: all_reduce "
            "took longer than 2 s");
}

// The supervisor may have been stopped meanwhile, so that it saw nothing itself.
TEST(Culprit, ARankThatSaysThatItDidNotRun) {
  RankFacts paused = timed_out(124);
  paused.report = {{"event", "failure"}, {"kind", "comm_error"}, {"message", "lost rank 0"}, {"paused_s", 12.4}};
  RankFacts noticed = timed_out(124);
  noticed.report.value()["paused_s"] = 0.0;
  const auto failure = name_culprit({noticed, paused});
  EXPECT_EQ(failure.kind, "comm_timeout");
  EXPECT_EQ(failure.rank, 1);
  EXPECT_THAT(failure.message, HasSubstr("rank 1 on node1 did not run for 12 s (stopped, or without a processor)"));
  EXPECT_THAT(failure.message, HasSubstr("; rank 0 reported: all_reduce took longer than 2 s"));

  RankFacts by_heartbeat = working(124);
  by_heartbeat.heartbeat["paused_s"] = 12.4;
  EXPECT_EQ(name_culprit({by_heartbeat, timed_out(124)}).rank, 0);

  noticed.report.value()["paused_s"] = 11.0;
  EXPECT_THAT(name_culprit({noticed, paused}).message, testing::Not(HasSubstr("did not run")))
      << "the whole machine was stopped";
  RankFacts liar = working(124);
  liar.heartbeat["paused_s"] = "long";
  EXPECT_EQ(name_culprit({timed_out(124), liar}).rank, 0);
}

TEST(Culprit, ARankThatSaidNothingYetIsNamedWithWhatItsPeersWaitIn) {
  RankFacts frozen = working(0);
  frozen.heartbeat = {{"step", 0}};
  frozen.process_state = 'T';
  const auto failure = name_culprit({timed_out(4), frozen});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.operation, "all_reduce");
  EXPECT_EQ(failure.sequence, 4);
}

TEST(Culprit, ARankThatSaidNothingYetIsNamedWithWhatItsPeersWereSeenIn) {
  RankFacts killed = working(0);
  killed.heartbeat = Json::object();
  killed.exit = exec::RankExit{.end = {137, SIGKILL}};
  const auto failure = name_culprit({working(5), killed});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.operation, "all_reduce");
  EXPECT_EQ(failure.sequence, 5);
}

TEST(Culprit, SilentRank) {
  RankFacts silent = working(124);
  silent.heartbeat_age_s = 31;
  const auto failure = name_culprit({timed_out(124), timed_out(124), silent});
  EXPECT_EQ(failure.rank, 2);
  EXPECT_THAT(failure.message, HasSubstr("rank 2 on node1 sends no heartbeat for 31 s during all_reduce #124"));
}

// On another host the supervisor cannot see that a process is stopped.
TEST(Culprit, ARankThatDidNotComeWinsOverWhoWaitedForIt) {
  RankFacts waited = working(0);
  waited.heartbeat_age_s.reset();
  waited.heartbeat = Json::object();
  RankFacts absent;
  absent.host = "node2";
  auto failure = name_culprit({ended(waited, {3, {}}, 0), absent, waited});
  EXPECT_EQ(failure.kind, "start_failed");
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.host, "node2");
  EXPECT_EQ(failure.message,
            "rank 1 on node2 did not join the rendezvous, where rank 0 waited; it exited with code 3 (communication "
            "error)");
  failure = name_culprit({absent, ended(waited, {3, {}}, 0), absent});
  EXPECT_EQ(failure.rank, 0);
  EXPECT_THAT(failure.message, HasSubstr("ranks 0, 2 on node2 did not join"));
  RankFacts frozen = absent;
  frozen.process_state = 'T';
  EXPECT_THAT(name_culprit({ended(waited, {3, {}}, 0), frozen}).message, HasSubstr("is stopped"));
}

TEST(Culprit, ARankThatEndedBeforeItCameWinsOverThoseThatHaveNotComeYet) {
  RankFacts waits = working(0), refused, late;
  waits.heartbeat_age_s.reset();
  refused.host = late.host = "node2";
  EXPECT_EQ(name_culprit({waits, late, ended(refused, {3, {}}, 0)}).rank, 2);
  EXPECT_EQ(name_culprit({ended(waits, {3, {}}, 1), late, ended(refused, {3, {}}, 0)}).rank, 2);
}

TEST(Culprit, ASilentRankIsNamedThoughTheOthersAreDone) {
  RankFacts done = ended(working(124, false), {0, {}}, 0), silent = working(124, false);
  done.heartbeat_age_s = silent.heartbeat_age_s = 33;
  const auto failure = name_culprit({done, silent, done});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_THAT(failure.message, HasSubstr("rank 1 on node1 sends no heartbeat for 33 s after all_reduce #124"));
  EXPECT_EQ(name_culprit({done, silent, silent}).rank, -1) << "nothing tells them apart";
}

TEST(Culprit, SilenceOfAllAccusesNobody) {
  RankFacts a = timed_out(124), b = working(120);
  a.heartbeat_age_s = 8.0;
  b.heartbeat_age_s = 8.4;
  const auto failure = name_culprit({a, b});
  EXPECT_EQ(failure.rank, 1) << "by its sequence number";
  EXPECT_THAT(failure.message, HasSubstr("behind its peers"));
}

TEST(Culprit, LowestSequence) {
  const auto failure = name_culprit({ended(timed_out(124), {3, {}}, 0), working(100, false), timed_out(124)});
  EXPECT_EQ(failure.kind, "comm_timeout");
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.sequence, 100);
}

TEST(Culprit, NoRankIsToBlameWhenMpiDoesNotComeUp) {
  const auto waiting = [](int rank) {
    RankFacts facts = timed_out(1);
    (*facts.report)["operation"] = "MPI_Init";
    (*facts.report)["message"] = "MPI_Init #1 of rank " + std::to_string(rank) + " has not ended within 2 s";
    return facts;
  };
  const auto failure = name_culprit({ended(waiting(0), {3, {}}, 0), waiting(1)});
  EXPECT_EQ(failure.kind, "start_failed");
  EXPECT_EQ(failure.rank, -1);
  EXPECT_EQ(failure.operation, "MPI_Init");
  EXPECT_EQ(failure.message,
            "MPI_Init #1 of rank 0 has not ended within 2 s; mpirun, or somebody who connected to its ports, kept the "
            "ranks from coming up");
  EXPECT_EQ(name_culprit({waiting(0), ended(working(0), {137, SIGKILL}, 0)}).rank, 1);
}

TEST(Culprit, WithoutEvidenceTheFirstWhoNoticed) {
  const auto failure = name_culprit({timed_out(124), ended(timed_out(124), {3, {}}, 0)});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.message,
            "rank 1 on node1 exited with code 3 (communication error) during all_reduce #124: all_reduce took longer "
            "than 2 s");
}

TEST(Culprit, MalformedWordsOfARankDoNoHarm) {
  RankFacts odd = working(3);
  odd.report = {{"event", "failure"}, {"kind", 7}, {"operation", nullptr}, {"sequence", "x"}, {"message", 1}};
  odd.heartbeat = Json::array();
  const auto failure = name_culprit({odd});
  EXPECT_EQ(failure.rank, 0);
  EXPECT_EQ(failure.sequence, -1);
}

TEST(DescribeEnd, Texts) {
  EXPECT_EQ(describe_end({0, {}}), "exited with code 0");
  EXPECT_EQ(describe_end({3, {}}), "exited with code 3 (communication error)");
  EXPECT_EQ(describe_end({77, {}}), "exited with code 77");
  EXPECT_EQ(describe_end({143, SIGTERM}), "killed by signal 15 (SIGTERM)");
}

// ---- the cause, where a rank's own words hold it, and not who noticed first -----------------------------------------

TEST(Culprit, ARankThatHasAReasonWinsOverThoseThatWaitedForIt) {
  RankFacts cause = ended(timed_out(1), {3, {}}, 1);
  (*cause.report)["message"] = "connecting: no way to rank 0 at 10.0.0.1:4711: No route to host (errno 113)";
  const auto failure = name_culprit({ended(timed_out(1), {3, {}}, 0), cause});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.kind, "comm_timeout");
  EXPECT_EQ(
      failure.message,
      "rank 1 on node1 exited with code 3 (communication error) during all_reduce #1: connecting: no way to rank 0 "
      "at 10.0.0.1:4711: No route to host (errno 113)");
}

TEST(Culprit, TheWordsOfALibraryInItsLogAreARanksReason) {
  RankFacts cause = timed_out(1);
  cause.log_reason = "btl_tcp_endpoint.c:730: connect() to 10.0.0.1:1024 failed: No route to host (113)";
  const auto failure = name_culprit({timed_out(1), cause});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_THAT(failure.message, HasSubstr("all_reduce took longer than 2 s; its log: btl_tcp_endpoint.c"));
  EXPECT_THAT(failure.message, HasSubstr("No route to host"));
  // A killed or stopped rank is certain, and comes first.
  EXPECT_EQ(name_culprit({ended(working(1), {137, SIGKILL}, 1), cause}).rank, 0);
  RankFacts halted = working(1);
  halted.process_state = 'T';
  EXPECT_EQ(name_culprit({halted, cause}).rank, 0);
  // A working rank is not named, whatever its log says.
  RankFacts fine = working(1);
  fine.log_reason = cause.log_reason;
  EXPECT_EQ(name_culprit({timed_out(1), fine}).rank, 0);
}

TEST(Culprit, ARankThatEndsWithoutAWordGivesWayToOneWithAReason) {
  const RankFacts silent = ended(working(1), {1, {}}, 0);
  RankFacts cause = ended(working(1), {1, {}}, 1);
  cause.log_reason = "It appears as if there is not enough space for /dev/shm/vader_segment (the shared-memory backing";
  const auto failure = name_culprit({silent, cause});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.kind, "rank_error");
  EXPECT_THAT(failure.message, HasSubstr("not enough space for /dev/shm"));
  EXPECT_EQ(name_culprit({silent, ended(working(1), {1, {}}, 1)}).rank, 0);
}

TEST(Culprit, OfCommandsTheOneWithAReasonIsNamed) {
  const RankFacts silent = ended(working(0), {1, {}}, 0);
  RankFacts cause = ended(working(0), {1, {}}, 1);
  cause.log_reason = "OSError: [Errno 28] No space left on device";
  EXPECT_EQ(name_culprit({silent, cause}, false).message,
            "rank 1 on node1 exited with code 1: OSError: [Errno 28] No space left on device");
  EXPECT_EQ(name_culprit({silent, ended(working(0), {1, {}}, 1)}, false).message, "rank 0 on node1 exited with code 1");
}

TEST(Culprit, Reasons) {
  for (const char* words :
       {"bind: Cannot assign requested address", "NCCL WARN Call to posix_fallocate failed",
        "no room for 4096 bytes of shared memory in /dev/shm", "x: symbol lookup error: undefined symbol"}) {
    EXPECT_TRUE(holds_reason(words)) << words;
  }
  for (const char* words : {"", "lost rank 1 (Connection reset by peer)", "waited 5000 ms for rank 1", "done"}) {
    EXPECT_FALSE(holds_reason(words)) << words;
  }
}

}  // namespace
}  // namespace mlbench::supervise
