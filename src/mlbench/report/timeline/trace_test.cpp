#include "mlbench/report/timeline/trace.h"

#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/record/test_schema.h"
#include "mlbench/report/timeline/summary.h"
#include "mlbench/report/timeline/test_timeline.h"
#include "mlbench/report/timeline/test_trace.h"

namespace mlbench::report {
namespace {

using record::SpanThread;
using testing::HasSubstr;

std::vector<std::string> names_in(const Json& trace, int64_t rank, int64_t row) {
  std::vector<std::string> names;
  const auto rows = rows_of(trace);
  if (const auto found = rows.find({rank, row}); found != rows.end()) {
    for (const Json& event : found->second) names.push_back(event.at("name"));
  }
  return names;
}

Json written(const TemporaryFolder& folder, int64_t workers) {
  write_trace(folder.path(), timeline_record(workers), folder / "out.json");
  return read_json_file(folder / "out.json", kWholeTrace);
}

TEST(TimelineTrace, HoldsAllRanksOnOneClock) {
  const TemporaryFolder folder;
  write_two_ranks(folder.path(), 20, 20, 10, 200);
  const Json trace = written(folder, 2);
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
  EXPECT_EQ(trace["otherData"]["hosts"], Json::array({"node1"}));
  expect_nested(trace);
  std::set<int64_t> ranks;
  std::map<std::pair<int64_t, int64_t>, std::string> rows;
  for (const Json& event : trace["traceEvents"]) {
    ranks.insert(event["pid"].get<int64_t>());
    if (event["name"] == "thread_name") rows[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  EXPECT_EQ(ranks, (std::set<int64_t>{0, 1}));
  const std::map<std::pair<int64_t, int64_t>, std::string> expected = {
      {{0, 1}, "steps"}, {{0, 2}, "training thread"}, {{1, 1}, "steps"}, {{1, 2}, "training thread"}};
  EXPECT_EQ(rows, expected);
  const std::vector<Json> zero = rows_of(trace)[{0, 1}], one = rows_of(trace)[{1, 1}];
  ASSERT_EQ(zero.size(), 20U);
  for (size_t step = 0; step < 20; ++step) {
    EXPECT_EQ(zero[step]["name"], "step " + std::to_string(step));
    EXPECT_NEAR(double(ns_of(zero[step], "ts")), 1e8 + double(step) * 32e6, 30e3);
    EXPECT_NEAR(double(ns_of(one[step], "ts")), double(ns_of(zero[step], "ts")), 30e3);
    EXPECT_NEAR(double(ns_of(one[step], "dur")), 32e6, 30e3);
  }
  const std::vector<std::string> names = names_in(trace, 0, 2);
  EXPECT_THAT(names, testing::IsSupersetOf({"prepare", "batch_load", "fwd_pass", "fc1 forward", "agg", "all_reduce",
                                            "NEGOTIATE_ALLREDUCE", "ALLREDUCE"}));
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] != "all_reduce") continue;
    if (event["pid"] == 1) continue;
    EXPECT_EQ(event["args"]["waited_for"], 1);
    EXPECT_NEAR(event["args"]["wait_us"].get<double>(), 20'000, 30);
    EXPECT_EQ(event["args"]["verdict"], "skew");
  }
}

TEST(TimelineTrace, CarriesTheSummary) {
  const TemporaryFolder folder;
  write_two_ranks(folder.path(), 20, 20);
  const Json summary = write_trace(folder.path(), timeline_record(2), folder / "out.json");
  EXPECT_EQ(read_trace_summary(folder / "out.json"), summary);
  TimelineRun run = read_timeline_run(folder.path(), timeline_record(2));
  EXPECT_EQ(summarize_timeline(run), summary);
  // A file whose only line is no head of a trace is refused, and so is an absent file.
  std::ofstream(folder / "other.json") << "{\"traceEvents\":[]}\n";
  EXPECT_THAT([&] { read_trace_summary(folder / "other.json"); },
              testing::ThrowsMessage<UserError>(HasSubstr("no trace of mlbench")));
  EXPECT_THAT([&] { read_trace_summary(folder / "absent.json"); },
              testing::ThrowsMessage<UserError>(HasSubstr("no such file")));
}

TEST(TimelineTrace, OperationsThatOverlapHaveRowsOfTheirOwn) {
  const TemporaryFolder folder;
  {
    TestRank rank(folder.path(), 0);
    rank.round_trip(-1);
    rank.phase("backprop", 0, 0, 10);
    rank.phase("agg", 0, 10, 20);
    rank.operation("all_reduce", 4, 12, 0);  // asynchronous: across two phases
    rank.operation("all_reduce", 6, 14, 0);
    rank.operation("all_reduce", 13, 15, 0);
    rank.operation("broadcast", 16, 18, 0, 0);
    rank.operation("all_reduce", 2, 5, 0, -1, SpanThread::kCommunication);
    rank.operation("all_reduce", 8, 9, 0, -1, SpanThread::kCommunication);
    // The span of this layer ends after its phase.
    rank.span({.kind = record::SpanKind::kLayer, .name = "fc1 backward", .step = 0}, 3, 11);
  }
  const Json trace = written(folder, 1);
  expect_nested(trace);
  EXPECT_THAT(names_in(trace, 0, 3),
              testing::ElementsAre("all_reduce", "ALLREDUCE", "WAIT_FOR_DATA", "all_reduce", "ALLREDUCE"));
  EXPECT_THAT(names_in(trace, 0, 2), testing::IsSupersetOf({"broadcast", "all_reduce", "fc1 backward"}));
  EXPECT_THAT(names_in(trace, 0, 4), testing::ElementsAre("all_reduce", "ALLREDUCE"));
  EXPECT_THAT(names_in(trace, 0, 5), testing::ElementsAre("all_reduce", "ALLREDUCE"));
}

TEST(TimelineTrace, ARunThatWasKilledHasWhatThereIs) {
  const TemporaryFolder folder;
  {
    TestRank rank(folder.path(), 1);
    rank.round_trip(-1);
    rank.phase("fwd_pass", 0, 0, 10);
  }
  const Json trace = written(folder, 2);  // nothing of rank 0
  EXPECT_THAT(names_in(trace, 1, 2), testing::ElementsAre("fwd_pass"));
  EXPECT_THAT(trace["otherData"]["summary"]["notes"].dump(), HasSubstr("rank 0, segment 1: no spans"));
}

TEST(TimelineTrace, LongOnesAreMadePieceByPiece) {
  const TemporaryFolder folder;
  write_two_ranks(folder.path(), 400, 0);
  TimelineRun run = read_timeline_run(folder.path(), timeline_record(2));
  const Json summary = summarize_timeline(run);
  TraceStream stream(std::move(run), summary);
  std::string all;
  for (std::string piece; !(piece = stream.next()).empty(); all += piece) EXPECT_LE(piece.size(), size_t{256} << 10);
  EXPECT_GT(all.size(), size_t{512} << 10);
  EXPECT_EQ(names_in(parse_json(all, kWholeTrace), 0, 1).size(), 400U);
  TraceStream one(read_timeline_run(folder.path(), timeline_record(2)), summary, 7);
  EXPECT_THAT(names_in(parse_json(one.next(), kWholeTrace), 1, 1), testing::ElementsAre("step 7"));
}

TEST(TimelineTrace, MeetsTheSchema) {
  if (const std::string missing = record::SchemaValidator::missing(); !missing.empty()) GTEST_SKIP() << missing;
  const TemporaryFolder folder;
  write_two_ranks(folder.path(), 5, 20);
  const record::SchemaValidator validator("timeline.schema.json");
  const Json trace = written(folder, 2);
  EXPECT_EQ(validator.complaint(trace), "");
  // The validator finds a wrong member.
  Json wrong = trace;
  wrong["traceEvents"].back()["dur"] = "1";
  EXPECT_NE(validator.complaint(wrong), "");
  wrong = trace;
  wrong["otherData"]["summary"]["ranks"][0].erase("input_s");
  EXPECT_NE(validator.complaint(wrong), "");
  wrong = trace;
  wrong["otherData"]["summary"]["verdict"]["kind"] = "guilty";
  EXPECT_NE(validator.complaint(wrong), "");
  // A timeline without clock samples and steps is valid, too.
  const TemporaryFolder other;
  { TestRank(other.path(), 0).operation("barrier", 0, 1); }
  EXPECT_EQ(validator.complaint(written(other, 1)), "");
}

}  // namespace
}  // namespace mlbench::report
