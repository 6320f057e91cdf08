#include "mlbench/report/timeline/summary.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/report/timeline/matching.h"
#include "mlbench/report/timeline/test_timeline.h"

namespace mlbench::report {
namespace {

using record::SpanThread;
using testing::HasSubstr;

Json summary_of(const TemporaryFolder& folder, int64_t workers) {
  TimelineRun run = read_timeline_run(folder.path(), timeline_record(workers));
  return summarize_timeline(run);
}

double seconds(const Json& summary, size_t rank, const char* path) {
  return summary["ranks"][rank].at(Json::json_pointer(path)).get<double>();
}

TEST(TimelineSummary, ASlowLoaderIsBlamed) {
  for (const bool skewed : {false, true}) {
    const TemporaryFolder folder;
    write_two_ranks(folder.path(), 50, 20, skewed ? 10 : 0, skewed ? 200 : 0);
    const Json summary = summary_of(folder, 2);
    const double near = 50 * 20e-6;  // the bound of the clocks is 20 us, in each step
    // Computed by hand, per step: rank 0 computes 9 ms, loads 2 ms, waits 20 ms; both ranks move bytes for 1 ms.
    EXPECT_NEAR(seconds(summary, 0, "/elapsed_s"), 50 * 0.032, near);
    EXPECT_NEAR(seconds(summary, 0, "/compute_s"), 50 * 0.009, near);
    EXPECT_NEAR(seconds(summary, 0, "/input_s"), 50 * 0.002, near);
    EXPECT_NEAR(seconds(summary, 1, "/input_s"), 50 * 0.022, near);
    EXPECT_NEAR(seconds(summary, 0, "/communication/wait_s"), 50 * 0.020, near);
    EXPECT_NEAR(seconds(summary, 1, "/communication/wait_s"), 0, near);
    EXPECT_NEAR(seconds(summary, 1, "/communication/transfer_s"), 50 * 0.001, near);
    EXPECT_NEAR(seconds(summary, 0, "/unattributed_s"), 0, near);
    EXPECT_NEAR(seconds(summary, 1, "/waited_for/s"), 1.0, near);
    EXPECT_NEAR(seconds(summary, 1, "/waited_for/causes_s/batch_load"), 1.0, 0.15);
    EXPECT_EQ(summary["ranks"][0]["waits_for"][0]["rank"], 1);
    EXPECT_EQ(summary["verdict"]["kind"], "skew");
    EXPECT_EQ(summary["verdict"]["rank"], 1);
    EXPECT_EQ(summary["verdict"]["cause"], "batch_load");
    // Useful: 11 and 31 of 32 ms.
    EXPECT_NEAR(summary["pop"]["load_balance"].get<double>(), 21.0 / 31, 1e-3);
    EXPECT_NEAR(summary["pop"]["communication_efficiency"].get<double>(), 31.0 / 32, 1e-3);
    EXPECT_NEAR(summary["pop"]["transfer_efficiency"].get<double>(), 31.0 / 32, 1e-3);
    EXPECT_NEAR(summary["pop"]["serialization_efficiency"].get<double>(), 1, 1e-3);
    EXPECT_NEAR(summary["pop"]["parallel_efficiency"].get<double>(), 21.0 / 32, 1e-3);
    EXPECT_EQ(summary["matched"]["unmatched"], 0);
    const Json& operation = summary["operations"][0];
    EXPECT_EQ(operation["name"], "all_reduce");
    EXPECT_EQ(operation["count"], 50);
    EXPECT_EQ(operation["verdict"], "skew");
    EXPECT_EQ(operation["worst"]["rank"], 1);
    EXPECT_EQ(summary["clocks"].size(), 2U);
    if (skewed) {
      EXPECT_NEAR(summary["clocks"][1]["drift_ppm"].get<double>(), -200,
                  summary["clocks"][1]["drift_bound_ppm"].get<double>());
    }
    const std::string text = timeline_summary_text(summary);
    EXPECT_THAT(text, HasSubstr("traced-2: 2 ranks"));
    EXPECT_THAT(text, HasSubstr("oversubscribed"));
    EXPECT_THAT(text, HasSubstr("for rank 1, "));
    EXPECT_THAT(text, HasSubstr("because of its input (batch_load)"));
  }
}

TEST(TimelineSummary, MovingBytesIsTransfer) {
  const TemporaryFolder folder;
  write_two_ranks(folder.path(), 20, 0);
  const Json summary = summary_of(folder, 2);
  EXPECT_EQ(summary["verdict"]["kind"], "transfer");
  EXPECT_EQ(summary["operations"][0]["verdict"], "transfer");
  EXPECT_NEAR(seconds(summary, 0, "/communication/transfer_s"), 20 * 0.001, 1e-3);
}

TEST(TimelineSummary, StartsThatDifferAreNotCommunication) {
  const TemporaryFolder folder;
  {
    TestRank zero(folder.path(), 0), one(folder.path(), 1);
    for (TestRank* rank : {&zero, &one}) {
      for (const double ms : {-1.0, 2000.0}) rank->round_trip(ms);
    }
    zero.phase("fwd_pass", 0, 0, 10);
    zero.operation("all_reduce", 10, 1013, 0);
    zero.phase("agg", 0, 10, 1013);
    one.phase("fwd_pass", 0, 1000, 1012);  // a second later, and 2 ms longer
    one.operation("all_reduce", 1012, 1013, 0);
    one.phase("agg", 0, 1012, 1013);
  }
  const Json summary = summary_of(folder, 2);
  EXPECT_NEAR(seconds(summary, 0, "/start_s"), 1.0, 1e-4);
  EXPECT_NEAR(seconds(summary, 0, "/communication/wait_s"), 0.002, 1e-4);
  EXPECT_NEAR(seconds(summary, 0, "/elapsed_s"), 0.013, 1e-4);
  EXPECT_NEAR(summary["pop"]["runtime_s"].get<double>(), 0.013, 1e-4);
}

TEST(TimelineSummary, AClockThatIsNotKnownGivesNoVerdict) {
  const TemporaryFolder folder;
  {
    TestRank zero(folder.path(), 0), one(folder.path(), 1);
    for (TestRank* rank : {&zero, &one}) {
      rank->phase("fwd_pass", 0, 0, rank == &zero ? 10 : 30);
      rank->operation("all_reduce", rank == &zero ? 10 : 30, 31, 0);
      rank->phase("agg", 0, rank == &zero ? 10 : 30, 31);
    }
  }
  const Json summary = summary_of(folder, 2);
  EXPECT_EQ(summary["verdict"]["kind"], "inconclusive");
  EXPECT_TRUE(summary["verdict"]["rank"].is_null());
  EXPECT_THAT(timeline_summary_text(summary), HasSubstr("its clock is not known"));
}

TEST(TimelineSummary, WhatRunsBesideComputationIsHidden) {
  const TemporaryFolder folder;
  {
    TestRank zero(folder.path(), 0), one(folder.path(), 1);
    for (TestRank* rank : {&zero, &one}) {
      rank->round_trip(-1);
      rank->phase("backprop", 0, 0, 10);
      rank->phase("agg", 0, 10, 14);
      rank->operation("all_reduce", 4, 13, 0, -1, SpanThread::kCommunication);
      rank->phase("opt_step", 0, 14, 15);
    }
  }
  const Json summary = summary_of(folder, 2);
  EXPECT_NEAR(seconds(summary, 0, "/communication/hidden_s"), 0.006, 1e-4);
  EXPECT_NEAR(seconds(summary, 0, "/communication/exposed_s"), 0.003, 1e-4);
  EXPECT_NEAR(seconds(summary, 0, "/compute_s"), 0.011, 1e-4);
  EXPECT_NEAR(seconds(summary, 0, "/exchange_s"), 0.001, 1e-4);
}

TEST(TimelineSummary, SaysWhatDoesNotMatch) {
  const TemporaryFolder folder;
  {
    TestRank zero(folder.path(), 0), one(folder.path(), 1);
    for (TestRank* rank : {&zero, &one}) {
      rank->round_trip(-1);
      rank->operation("all_reduce", 0, 10);
    }
    zero.operation("barrier", 20, 21);
    one.operation("all_reduce", 20, 21);
    zero.operation("all_gather", 30, 31);
    one.skip_operation();  // its entry is lost
    zero.operation("all_reduce", 40, 41);
    one.operation("all_reduce", 40, 41);
  }
  const Json summary = summary_of(folder, 2);
  EXPECT_EQ(summary["matched"]["operations"], 2);
  EXPECT_EQ(summary["matched"]["unmatched"], 3);
  EXPECT_THAT(timeline_summary_text(summary), HasSubstr("operation 2 is barrier on rank 0, all_reduce on rank 1"));
}

TEST(TimelineSummary, SegmentsAddUp) {
  const TemporaryFolder folder;
  for (int64_t segment = 1; segment <= 2; ++segment) {
    TestRank rank(folder.path(), 0, 0, 0, segment);
    rank.phase("fwd_pass", segment, 0, 10);
    rank.span({.kind = record::SpanKind::kEvaluation, .name = "evaluation"}, 10, 14);
  }
  RecordJson record = timeline_record(1);
  record["segments"].push_back({{"index", 2}, {"start_step", 1}});
  TimelineRun run = read_timeline_run(folder.path(), record);
  EXPECT_EQ(run.origin_ns, (std::vector<int64_t>{0, 60'000'000'000}));
  const Json summary = summarize_timeline(run);
  EXPECT_NEAR(seconds(summary, 0, "/compute_s"), 0.020, 1e-6);
  EXPECT_NEAR(seconds(summary, 0, "/evaluation_s"), 0.008, 1e-6);
  EXPECT_EQ(summary["verdict"]["kind"], "none");
}

TEST(TimelineSummary, WithoutATimelineSaysWhatToType) {
  const TemporaryFolder folder;
  EXPECT_THAT([&] { read_timeline_run(folder.path(), timeline_record(2)); },
              testing::ThrowsMessage<UserError>(HasSubstr("record one with 'mlbench run NAME K --timeline FILE'")));
  EXPECT_THROW(timeline_summary_text(Json::object()), UserError);
  EXPECT_THROW(timeline_summary_text(Json("text")), UserError);
}

// ---- rules of operations -------------------------------------------------------------------------------------------

// Three ranks enter at 0, 4 and 10 ms and leave at 12 ms; what each waits, in ms.
std::vector<double> waits_of(const std::string& name, int64_t root) {
  const TemporaryFolder folder;
  {
    TestRank zero(folder.path(), 0), one(folder.path(), 1), two(folder.path(), 2);
    double entry = 0;
    for (TestRank* rank : {&zero, &one, &two}) {
      rank->round_trip(-1, 0.0001, 0.0001);
      rank->operation("barrier", -3, -2);
      rank->operation(name, entry, 12, -1, root);
      entry = entry == 0 ? 4 : 10;
    }
  }
  TimelineRun run = read_timeline_run(folder.path(), timeline_record(3));
  match_operations(run, 0);
  std::vector<double> waits;
  for (const RankPart& part : run.parts[0]) {
    const TimelineOperation& one = part.operations.at(1);
    waits.push_back(std::round(static_cast<double>(one.ready_ns - one.begin_ns) / 1e5) / 10);
  }
  return waits;
}

TEST(TimelineMatching, EveryOperationHasItsRule) {
  using Waits = std::vector<double>;
  EXPECT_EQ(waits_of("all_reduce", -1), (Waits{10, 6, 0}));
  EXPECT_EQ(waits_of("all_to_all", -1), (Waits{10, 6, 0}));
  EXPECT_EQ(waits_of("broadcast", 1), (Waits{4, 0, 0}));
  EXPECT_EQ(waits_of("scatter", 0), (Waits{0, 0, 0}));
  EXPECT_EQ(waits_of("gather", 0), (Waits{10, 0, 0}));
  EXPECT_EQ(waits_of("reduce", 1), (Waits{0, 6, 0}));
  EXPECT_EQ(waits_of("allocate", -1), (Waits{0, 0, 0}));
}

TEST(TimelineMatching, WhoReceivesWaitsForTheSender) {
  const TemporaryFolder folder;
  {
    TestRank zero(folder.path(), 0), one(folder.path(), 1), two(folder.path(), 2);
    for (TestRank* rank : {&zero, &one, &two}) {
      rank->round_trip(-1, 0.0001, 0.0001);
      rank->operation("barrier", -3, -2);
    }
    zero.operation("recv", 0, 8, -1, 2);
    two.operation("send", 5, 6, -1, 0);
    // Messages have numbers of their own: the next collective is matched all the same.
    zero.operation("all_reduce", 10, 20);
    one.operation("all_reduce", 15, 20);
    two.operation("all_reduce", 11, 20);
  }
  TimelineRun run = read_timeline_run(folder.path(), timeline_record(3));
  const MatchedSegment matched = match_operations(run, 0);
  EXPECT_EQ(matched.unmatched, 0);
  EXPECT_EQ(matched.groups.size(), 3U);
  const TimelineOperation& received = run.parts[0][0].operations.at(1);
  EXPECT_EQ(received.late_rank, 2);
  EXPECT_NEAR(static_cast<double>(received.ready_ns - received.begin_ns), 5e6, 1e4);
  EXPECT_EQ(run.parts[0][2].operations.at(1).late_rank, -1);
  EXPECT_EQ(run.parts[0][0].operations.at(2).late_rank, 1);
}

TEST(TimelineMatching, VerdictsByHand) {
  EXPECT_EQ(verdict_of(0.020, 0.001, 0.0001), TimelineVerdict::kSkew);
  EXPECT_EQ(verdict_of(0.021, 0.010, 0.0001), TimelineVerdict::kSkew);
  EXPECT_EQ(verdict_of(0.015, 0.015, 0.0001), TimelineVerdict::kMixed);
  EXPECT_EQ(verdict_of(0.005, 0.015, 0.0001), TimelineVerdict::kTransfer);
  EXPECT_EQ(verdict_of(0.020, 0.001, 0.0021), TimelineVerdict::kInconclusive);  // 10.5 % of the wait
  EXPECT_EQ(verdict_of(0.0001, 0.020, 0.0005), TimelineVerdict::kTransfer);     // hardly any wait, with any clocks
  EXPECT_EQ(verdict_of(0.0001, 0.001, 0.0005), TimelineVerdict::kInconclusive);
  EXPECT_EQ(verdict_of(0, 0, 0), TimelineVerdict::kTransfer);
}

TEST(TimelineMatching, WhoLeavesBeforeTheLastCameGivesNoVerdict) {
  const TemporaryFolder folder;
  {
    TestRank zero(folder.path(), 0), one(folder.path(), 1);
    for (TestRank* rank : {&zero, &one}) rank->round_trip(-1, 0.0001, 0.0001);
    zero.operation("all_reduce", 0, 5);
    one.operation("all_reduce", 9, 10);
  }
  TimelineRun run = read_timeline_run(folder.path(), timeline_record(2));
  EXPECT_EQ(match_operations(run, 0).groups.at(0).verdict, TimelineVerdict::kInconclusive);
}

}  // namespace
}  // namespace mlbench::report
