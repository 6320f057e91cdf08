#include "mlbench/record/spool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "mlbench/base/errors.h"
#include "mlbench/record/test_spool.h"

namespace mlbench::record {
namespace {

class Spool : public testing::Test {
 protected:
  // Appends or cuts the file of steps; `bytes` < 0 counts from the end.
  void cut(const std::filesystem::path& path, int64_t bytes) const {
    const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
    std::filesystem::resize_file(path, static_cast<uintmax_t>(bytes < 0 ? size + bytes : bytes));
  }
  std::filesystem::path dir() const { return folder_.path(); }
  std::filesystem::path steps() const { return steps_path(dir(), 1, 0); }
  std::filesystem::path events() const { return events_path(dir(), 1, 0); }
  RankSpool read() const { return read_spool(dir(), 1, 0); }

  TemporaryFolder folder_;
};

TEST_F(Spool, PathsNameRankAndSegment) {
  EXPECT_EQ(steps_path("/r", 2, 13), "/r/spool/rank-13.seg-2.steps");
  EXPECT_EQ(events_path("/r", 1, 0), "/r/spool/rank-0.seg-1.events");
}

TEST_F(Spool, AbsentFilesAreEmpty) {
  const RankSpool spool = read();
  EXPECT_TRUE(spool.steps.empty());
  EXPECT_TRUE(spool.events.empty());
}

TEST_F(Spool, GivesBackWhatWasWritten) {
  write_spool(dir(), 1, 0, {step_record(0, 25, 1000), step_record(25, 1, 7)}, {{{"event", "begin"}}});
  const RankSpool spool = read();
  EXPECT_EQ(spool.header.segment, 1U);
  ASSERT_EQ(spool.steps.size(), 2U);
  EXPECT_EQ(spool.steps[1].first_step, 25U);
  EXPECT_EQ(spool.steps[1].total.sum, 7);
  EXPECT_EQ(spool.events.at(0)["event"], "begin");
}

TEST_F(Spool, RefusesTimesThatNoRunHas) {
  for (const int64_t ns : {int64_t{-1}, std::numeric_limits<int64_t>::max() / 2}) {
    write_spool(dir(), 1, 0, {step_record(0, 1, 5), step_record(1, 1, ns)}, {});
    EXPECT_THROW(read(), UserError) << ns;
  }
}

TEST_F(Spool, IgnoresATornEnd) {
  for (int64_t lost = 1; lost <= static_cast<int64_t>(sizeof(StepRecord)); lost += 37) {
    write_spool(dir(), 1, 0, {step_record(0, 1, 5), step_record(1, 1, 6)},
                {{{"event", "begin"}}, {{"event", "end"}, {"step", 2}}});
    cut(steps(), -lost);
    cut(events(), -std::min<int64_t>(lost, 20));
    const RankSpool spool = read();
    EXPECT_EQ(spool.steps.size(), 1U) << lost;
    EXPECT_EQ(spool.events.size(), 1U) << lost;
  }
}

TEST_F(Spool, IgnoresATornHeader) {
  for (const int64_t left : {0, 3, 8, 63}) {
    write_spool(dir(), 1, 0, {step_record(0, 1, 5)}, {});
    cut(steps(), left);
    EXPECT_TRUE(read().steps.empty()) << left;
  }
}

TEST_F(Spool, EndsWhereBlocksWereNeverWritten) {
  write_spool(dir(), 1, 0, {step_record(0, 1, 5)}, {{{"event", "begin"}}});
  cut(steps(), static_cast<int64_t>(sizeof(SpoolHeader) + 3 * sizeof(StepRecord)));  // grows by zeros
  std::ofstream(events(), std::ios::app) << std::string(100, '\0') << "\n{\"event\": \"end\"}\n";
  EXPECT_EQ(read().steps.size(), 1U);
  EXPECT_EQ(read().events.size(), 1U);
}

TEST_F(Spool, ALineThatIsNoEventCostsThatLineAlone) {
  write_spool(dir(), 1, 0, {}, {{{"event", "begin"}}});
  std::ofstream out(events(), std::ios::app);
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  for (const std::string& line :
       {deep, "{\"event\": " + deep + "}", std::string("[1]"), std::string("no json"), std::string(2'000'000, ' '),
        std::string(R"({"event": 1})"), std::string(R"({"event": "epoch", "step": "x"})"),
        std::string(R"({"event": "end", "end_ns": 9223372036854775807})"),
        std::string(R"({"event": "x", "step": null})"), std::string(R"({"event": "evaluation", "metrics": [1]})")}) {
    out << line << "\n";
  }
  out << R"({"event": "end"})"
      << "\n"
      << std::flush;
  EXPECT_EQ(read().events.size(), 2U);
  EXPECT_EQ(read().left_out, 10);
}

TEST_F(Spool, RefusesCountsAndDatesThatNoRunHas) {
  std::vector<StepRecord> records(3, step_record(0, 1, 5));
  records[0].first_step = UINT64_MAX;
  records[1].samples = uint64_t{1} << 63;
  records[2].end_ns = INT64_MAX;
  for (const StepRecord& record : records) {
    write_spool(dir(), 1, 0, {record}, {});
    EXPECT_THROW(read(), UserError);
  }
  write_spool(dir(), 1, 0, {}, {}, INT64_MAX);
  EXPECT_THROW(read(), UserError);
}

TEST_F(Spool, RefusesWhatIsNoSpoolOrOfAnotherVersion) {
  const auto error = [&] {
    try {
      read();
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  write_spool(dir(), 1, 0, {}, {});
  std::ofstream(steps()) << "short";
  EXPECT_THAT(error(), testing::HasSubstr("not a spool: 5 bytes"));
  std::ofstream(steps()) << std::string(200, 'x');
  EXPECT_THAT(error(), testing::HasSubstr("does not start with MLBSTEPS"));
  SpoolHeader header;
  header.version = 2;
  std::ofstream(steps()).write(reinterpret_cast<const char*>(&header), sizeof header);
  EXPECT_THAT(error(),
              testing::HasSubstr("spool of version 2 with records of 304 bytes; this program reads version 1"));
}

}  // namespace
}  // namespace mlbench::record
