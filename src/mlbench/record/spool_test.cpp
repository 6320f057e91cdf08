#include "mlbench/record/spool.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "mlbench/base/errors.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/spool_tail.h"
#include "mlbench/record/test_spool.h"

namespace mlbench::record {
namespace {

constexpr int64_t kOneStepBytes = 20 * 8;

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
  EXPECT_EQ(spool.steps[1].total_ns(), 7);
  EXPECT_EQ(spool.events.at(0)["event"], "begin");
}

TEST_F(Spool, RefusesTimesThatNoRunHas) {
  for (const int64_t ns : {int64_t{-1}, std::numeric_limits<int64_t>::max() / 2}) {
    write_spool(dir(), 1, 0, {step_record(0, 1, 5), step_record(1, 1, ns)}, {});
    EXPECT_THROW(read(), UserError) << ns;
  }
}

TEST_F(Spool, TheLastSegmentMayStandBehindOneWithoutFiles) {
  EXPECT_EQ(last_segment(dir()), 0);
  write_spool(dir(), 1, 0, {}, {});
  EXPECT_EQ(last_segment(dir()), 1);
  write_spool(dir(), 12, 3, {}, {});
  for (const char* name : {"rank-0.seg-x.steps", "rank-0.seg-999999999.steps"}) {
    std::ofstream(dir() / "spool" / name) << "none";
  }
  EXPECT_EQ(last_segment(dir()), 12);
}

TEST_F(Spool, IgnoresATornEnd) {
  for (int64_t lost = 1; lost <= kOneStepBytes; lost += 37) {
    write_spool(dir(), 1, 0, {step_record(0, 1, 5), step_record(1, 1, 6)},
                {{{"event", "begin"}}, {{"event", "end"}, {"step", 2}}});
    cut(steps(), -lost);
    cut(events(), -std::min<int64_t>(lost, 20));
    const RankSpool spool = read();
    EXPECT_EQ(spool.steps.size(), 1U) << lost;
    EXPECT_EQ(spool.events.size(), 1U) << lost;
  }
}

// A home that was made again at the same path finds spools of the old home on other hosts.
TEST_F(Spool, OfAnotherRunIsNotRead) {
  const std::string own(32, 'a'), other(32, 'b');
  const auto spec_of = [&](const Json& spec) { std::ofstream(dir() / "spec.json") << spec.dump(); };
  write_spool(dir(), 1, 0, {step_record(0, 1, 10, 10)}, {{{"event", "end"}, {"sequence", 0}, {"end_ns", 10}}}, 5,
              other);
  spec_of({{"identity", own}});
  EXPECT_THAT([&] { read(); },
              testing::ThrowsMessage<UserError>(testing::AllOf(testing::HasSubstr(steps().string()),
                                                               testing::HasSubstr("of another run (" + other + ")"))));
  EXPECT_THROW(SpoolTail(dir(), 1, 0), UserError);
  spec_of({{"identity", other}});
  EXPECT_EQ(read().steps.size(), 1U);
  EXPECT_EQ(read().header.identity, other);
  spec_of({{"id", 7}});
  EXPECT_THROW(read(), UserError) << "a folder that does not say which run it is of";
  write_spool(dir(), 1, 0, {step_record(0, 1, 10, 10)}, {}, 5, "");
  EXPECT_EQ(read().header.identity, "");
  spec_of({{"identity", own}});
  EXPECT_THAT([&] { read(); }, testing::ThrowsMessage<UserError>(
                                   testing::HasSubstr("of another run (without an identity), so it was not read")));
}

TEST_F(Spool, IgnoresATornHeader) {
  for (const int64_t left : {0, 3, 8, 63, 64, 500}) {
    write_spool(dir(), 1, 0, {step_record(0, 1, 5)}, {});
    cut(steps(), left);
    EXPECT_TRUE(read().steps.empty()) << left;
  }
}

TEST_F(Spool, EndsWhereBlocksWereNeverWritten) {
  write_spool(dir(), 1, 0, {step_record(0, 1, 5)}, {{{"event", "begin"}}});
  cut(steps(), static_cast<int64_t>(encode_header({}).size()) + 3 * kOneStepBytes);  // grows by zeros
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
  std::string header = encode_header({});
  for (const char other : {1, 3}) {
    header[8] = other;
    std::ofstream(steps()) << header;
    EXPECT_THAT(error(), testing::EndsWith(fmt::format(
                             "rank-0.seg-1.steps: a spool of version {:d}; this program reads version 2: use the "
                             "mlbench that wrote it",
                             other)));
  }
}

// The header of `columns` (name, type), as a later program might write it.
std::string header_of(const std::vector<std::pair<std::string, std::string>>& columns) {
  std::string bytes = encode_header({}).substr(0, 64);
  const auto count = static_cast<uint32_t>(columns.size()), size = 64 + 32 * count;
  bytes.replace(12, 4, reinterpret_cast<const char*>(&size), 4);
  bytes.replace(40, 4, reinterpret_cast<const char*>(&count), 4);
  for (auto [name, type] : columns) {
    name.resize(24);
    type.resize(8);
    bytes += name + type;
  }
  return bytes;
}

std::vector<std::pair<std::string, std::string>> known_columns() {
  const std::string header = encode_header({});
  std::vector<std::pair<std::string, std::string>> columns;
  for (size_t at = 64; at < header.size(); at += 32) {
    columns.emplace_back(header.substr(at, 24).c_str(), header.substr(at + 24, 8).c_str());
  }
  return columns;
}

TEST_F(Spool, ColumnsThatAReaderDoesNotKnowAreSkipped) {
  write_spool(dir(), 1, 0, {}, {});
  auto columns = known_columns();
  columns.insert(columns.begin() + 3, {"joules", "f64"});
  columns.insert(columns.end() - 2, {"waits_ns", "i64[]"});
  std::string bytes = header_of(columns);
  for (uint64_t sequence = 0; sequence < 2; ++sequence) {
    StepRecord record = step_record(2 * sequence, 2, 1000);
    record.sequence = sequence;
    record.exchange_ns = {7, 8};
    record.hidden_ns = {0, 5};
    std::string known;
    append_record(known, record);
    const size_t fixed = 8 * (columns.size() - 4);  // of the known ones
    bytes += known.substr(0, 24) + "01234567" + known.substr(24, fixed - 24);
    bytes += std::string(16, 'w') + known.substr(fixed);
  }
  std::ofstream(steps()) << bytes;
  const RankSpool spool = read();
  ASSERT_EQ(spool.steps.size(), 2U);
  EXPECT_EQ(spool.steps[1].first_step, 2U);
  EXPECT_EQ(spool.steps[1].samples, 20U);
  EXPECT_EQ(spool.steps[1].total_ns(), 1000);
  EXPECT_EQ(spool.steps[1].exchange_ns[1], 8);
  EXPECT_EQ(spool.steps[1].hidden_ns[1], 5);
}

TEST_F(Spool, NoMoreIsHiddenThanThereWas) {
  StepRecord record = step_record(0, 2, 1000);
  record.exchange_ns = {7, 8};
  record.hidden_ns = {7, 8};
  EXPECT_TRUE(is_plausible(record));
  record.hidden_ns = {7, 9};
  EXPECT_FALSE(is_plausible(record));
  record.hidden_ns = {-1, 8};
  EXPECT_FALSE(is_plausible(record));
}

TEST_F(Spool, RefusesAHeaderThatLacksOrRetypesAColumn) {
  write_spool(dir(), 1, 0, {}, {});
  for (const auto& [name, type] : known_columns()) {
    auto lacking = known_columns();
    std::erase_if(lacking, [&name = name](const auto& column) { return column.first == name; });
    std::ofstream(steps()) << header_of(lacking);
    EXPECT_THAT([&] { read(); }, testing::ThrowsMessage<UserError>(testing::EndsWith(
                                     "a spool without the column " + name + ": use the mlbench that wrote it")));
  }
  auto retyped = known_columns();
  retyped[4].second = "f64";
  std::string torn_list = encode_header({});
  torn_list[40] = 5;
  for (const auto& [bytes, words] : {std::pair(header_of(retyped), "column samples is of type 'f64'; expected 'u64'"),
                                     std::pair(torn_list, "a header of 704 bytes with 5 columns")}) {
    std::ofstream(steps()) << bytes;
    try {
      read();
      ADD_FAILURE() << words;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(words));
    }
  }
}

TEST_F(Spool, TheTailGivesEachThingOnceWhileTheFilesGrow) {
  SpoolTail tail(dir(), 1, 0);
  std::vector<uint64_t> seen;
  std::vector<std::string> events_seen;
  const auto look = [&](SpoolTail& from) {
    return from.read([&](const StepRecord& record) { seen.push_back(record.first_step); },
                     [&](const Json& event) { events_seen.push_back(event["event"]); });
  };
  EXPECT_FALSE(look(tail));
  EXPECT_FALSE(tail.has_header());
  write_spool(dir(), 1, 0, {step_record(0, 2, 5)}, {{{"event", "begin"}}}, 5);
  EXPECT_TRUE(look(tail));
  EXPECT_EQ(tail.header().start_wall_us, 5);
  EXPECT_FALSE(look(tail));
  StepRecord next = step_record(2, 1, 5);
  next.sequence = 1;
  std::string bytes;
  append_record(bytes, next);
  std::ofstream(steps(), std::ios::app) << bytes.substr(0, 20);
  EXPECT_FALSE(look(tail));
  std::ofstream(steps(), std::ios::app) << bytes.substr(20);
  std::ofstream(events(), std::ios::app) << "{\"event\": \"end\"}\nno event\n{\"event\"";
  SpoolTail other(dir(), 1, 0, tail.cursor());  // as a program that starts again
  EXPECT_TRUE(look(other));
  EXPECT_FALSE(look(other));
  EXPECT_THAT(seen, testing::ElementsAre(0, 2));
  EXPECT_THAT(events_seen, testing::ElementsAre("begin", "end"));
  EXPECT_EQ(other.cursor().events.left_out, 1);
}

TEST_F(Spool, TheTailGivesWhatStandsBeforeDamage) {
  StepRecord damaged = step_record(2, 1, 5);
  damaged.end_ns = -1;
  write_spool(dir(), 1, 0, {step_record(0, 1, 5), step_record(1, 1, 5), damaged}, {{{"event", "begin"}}});
  SpoolTail tail(dir(), 1, 0);
  int steps_seen = 0;
  const auto look = [&] { tail.read([&](const StepRecord&) { ++steps_seen; }, [](const Json&) {}); };
  EXPECT_THROW(look(), UserError);
  EXPECT_EQ(steps_seen, 2);
  EXPECT_THROW(look(), UserError);
  EXPECT_EQ(steps_seen, 2);
}

}  // namespace
}  // namespace mlbench::record
