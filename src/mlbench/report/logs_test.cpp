#include "mlbench/report/logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench::report {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Logs, ALineBeginsWithATime) {
  EXPECT_EQ(time_of_line("00:00:01.5 info [rank 0] text"), 1.5);
  EXPECT_EQ(time_of_line("[01:02:03,250] text"), 3723.25);
  EXPECT_EQ(time_of_line("2026-11-21T17:32:43Z text"), 63163);
  EXPECT_EQ(time_of_line("[2026-11-21 17:32:43] text"), 63163);
  for (const char* none : {"", "text 00:00:01", "1:02:03", "24:00:00", "12:60:00", "12:00", "2026-13-01 00:00:00"}) {
    EXPECT_EQ(time_of_line(none), std::nullopt) << none;
  }
}

class CombinedLogs : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(run_ / "logs"); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(run_ / "logs" / name, std::ios::app) << text;
  }
  static CombinedLog::Take into(std::vector<std::string>& lines) {
    return [&lines](const LogFile& log, std::string_view line) { lines.push_back(line_with_writer(log, line)); };
  }
  std::vector<std::string> all(std::optional<LogStream> only = {}) const {
    std::vector<std::string> lines;
    CombinedLog log(run_, only);
    EXPECT_FALSE(log.read(true, INT64_MAX, into(lines)));
    return lines;
  }

  const TemporaryFolder folder_;
  const fs::path run_ = folder_.path() / "r-2";
};

TEST_F(CombinedLogs, AreInTheOrderOfTime) {
  write("rank-0.seg-1.out", "10:00:01 a\n10:00:03 c\nbehind c\n");
  write("rank-1.seg-1.out", "10:00:02 b\n10:00:03 d\nbehind d");
  write("supervisor.log", "10:00:02.5 warn\n");
  write("rank-x.seg-1.out", "no rank\n");
  EXPECT_THAT(all(), ElementsAre("rank 0 out | 10:00:01 a", "rank 1 out | 10:00:02 b", "supervisor | 10:00:02.5 warn",
                                 "rank 0 out | 10:00:03 c", "rank 0 out | behind c", "rank 1 out | 10:00:03 d",
                                 "rank 1 out | behind d"));
}

TEST_F(CombinedLogs, WithoutTimesComeOneAfterTheOther) {
  write("rank-1.seg-1.out", "c\nd\n");
  write("rank-0.seg-1.out", "a\nb\n");
  EXPECT_THAT(all(), ElementsAre("rank 0 out | a", "rank 0 out | b", "rank 1 out | c", "rank 1 out | d"));
}

TEST_F(CombinedLogs, HaveTheStreamsOfARankApart) {
  write("rank-0.seg-1.out", "10:00:01 a\n10:00:04 d\n");
  write("rank-0.seg-1.err", "10:00:02 b\nbehind b\n");
  write("rank-1.seg-1.err", "c\n");
  write("rank-1.seg-1.out", "d\n");
  write("supervisor.log", "10:00:03 warn\n");
  EXPECT_THAT(all(),
              ElementsAre("rank 1 out | d", "rank 1 err | c", "rank 0 out | 10:00:01 a", "rank 0 err | 10:00:02 b",
                          "rank 0 err | behind b", "supervisor | 10:00:03 warn", "rank 0 out | 10:00:04 d"));
  EXPECT_THAT(all(LogStream::kStdout),
              ElementsAre("rank 1 out | d", "rank 0 out | 10:00:01 a", "rank 0 out | 10:00:04 d"));
  EXPECT_THAT(all(LogStream::kStderr), ElementsAre("rank 1 err | c", "rank 0 err | 10:00:02 b", "rank 0 err | behind b",
                                                   "supervisor | 10:00:03 warn"));
}

TEST_F(CombinedLogs, OfEarlierProgramsAreReadAsErrors) {
  write("rank-0.seg-1.log", "10:00:01 a\n");
  write("mpirun.seg-1.log", "no rank\n");
  EXPECT_THAT(all(), ElementsAre("rank 0 err | 10:00:01 a"));
}

TEST_F(CombinedLogs, GoOnOverMidnight) {
  write("rank-0.seg-1.out", "23:59:59 a\n00:00:02 d\n");
  write("rank-1.seg-1.out", "00:00:01 c\n");
  write("rank-2.seg-1.out", "23:59:59.5 b\n00:00:03 e\n");
  EXPECT_THAT(all(), ElementsAre("rank 0 out | 23:59:59 a", "rank 2 out | 23:59:59.5 b", "rank 1 out | 00:00:01 c",
                                 "rank 0 out | 00:00:02 d", "rank 2 out | 00:00:03 e"));
}

TEST_F(CombinedLogs, SegmentsFollowEachOther) {
  write("rank-0.seg-1.out", "10:00:01 a");  // killed in the middle of a line
  write("rank-1.seg-1.out", "10:00:02 b\n");
  write("rank-0.seg-9.out", "09:00:00 the next day\n");
  write("rank-1.seg-9.out", "09:00:02 later\n");
  write("supervisor.log", "10:00:01.5 first\n09:00:01 second\n");
  EXPECT_THAT(all(), ElementsAre("rank 0 out | 10:00:01 a", "supervisor | 10:00:01.5 first", "rank 1 out | 10:00:02 b",
                                 "rank 0 out | 09:00:00 the next day", "supervisor | 09:00:01 second",
                                 "rank 1 out | 09:00:02 later"));
}

TEST_F(CombinedLogs, GrowWhileTheyAreRead) {
  std::vector<std::string> lines;
  CombinedLog log(run_);
  EXPECT_FALSE(log.read(false, INT64_MAX, into(lines)));
  EXPECT_THAT(lines, IsEmpty());
  write("rank-0.seg-1.out", "10:00:01 a\n10:00:02 be");
  log.read(false, INT64_MAX, into(lines));
  EXPECT_THAT(lines, ElementsAre("rank 0 out | 10:00:01 a"));
  write("rank-0.seg-1.out", "gun\n");
  write("rank-1.seg-1.out", "10:00:00 late\n");
  write("rank-0.seg-2.out", "10:00:03 again");
  log.read(false, INT64_MAX, into(lines));
  EXPECT_THAT(lines,
              ElementsAre("rank 0 out | 10:00:01 a", "rank 1 out | 10:00:00 late", "rank 0 out | 10:00:02 begun"));
  log.read(true, INT64_MAX, into(lines));
  EXPECT_EQ(lines.back(), "rank 0 out | 10:00:03 again");
}

TEST_F(CombinedLogs, PagesOfAnySizeMakeTheWhole) {
  for (int i = 0; i < 60; ++i) {
    write("rank-" + std::to_string(i % 3) + ".seg-" + std::to_string(1 + i / 40) + (i % 2 == 0 ? ".out" : ".err"),
          "10:00:" + std::to_string(10 + i % 40) + " " + std::string(static_cast<size_t>(i), 'x') + "\n");
  }
  write("rank-0.seg-2.out", std::string(200'000, 'y') + "\nz");  // more than one piece
  const std::vector<std::string> whole = all();
  for (const int64_t bytes : {int64_t{1}, int64_t{50}, int64_t{1000}, int64_t{100'000}}) {
    std::vector<std::string> lines;
    std::string cursor;
    for (bool more = true; more;) {
      const auto log = cursor.empty() ? std::make_unique<CombinedLog>(run_)
                                      : std::make_unique<CombinedLog>(run_, std::nullopt, cursor);
      more = log->read(true, bytes, into(lines));
      cursor = log->cursor();
    }
    EXPECT_EQ(lines, whole) << bytes;
    EXPECT_FALSE(CombinedLog(run_, std::nullopt, cursor).read(true, bytes, into(lines)));
    EXPECT_EQ(lines.size(), whole.size());
  }
}

// An empty log takes no share of the bytes.
TEST_F(CombinedLogs, EndWithTheLastBytes) {
  write("rank-0.seg-2.err", "");
  write("rank-0.seg-1.out", "10:00:00 old\n");
  write("rank-0.seg-2.out", "10:00:01 aaaa\n10:00:03 cccc\n");
  write("rank-1.seg-2.out", "10:00:02 bbbb\n10:00:04 dddd\n");
  std::vector<std::string> lines;
  CombinedLog log(run_, std::nullopt, int64_t{40});
  log.read(true, INT64_MAX, into(lines));
  EXPECT_THAT(lines, ElementsAre("rank 0 out | 10:00:03 cccc", "rank 1 out | 10:00:04 dddd"));
}

TEST_F(CombinedLogs, WhatIsNoCursorIsRefused) {
  for (const char* bad : {"1", "1:2", "a:0:0", "1:-2:0", "1:0:0,,1", "1:0:0,x", "9999999999999999999999:0:0",
                          "1:0:9000000000000000000"}) {
    EXPECT_THROW(CombinedLog(run_, std::nullopt, std::string(bad)), UserError) << bad;
  }
  std::vector<std::string> lines;
  write("rank-0.seg-1.out", "a\n");
  EXPECT_FALSE(CombinedLog(run_, std::nullopt, std::string("1:0:1000000000000")).read(true, INT64_MAX, into(lines)));
  EXPECT_FALSE(CombinedLog(run_, std::nullopt, std::string("7:0:")).read(true, INT64_MAX, into(lines)));
  EXPECT_THAT(lines, IsEmpty());
}

}  // namespace
}  // namespace mlbench::report
