#include "mlbench/report/archive/zip.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "mlbench/base/choices.h"
#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/test_error.h"
#include "mlbench/record/usage_lines.h"
#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string content_of(const std::vector<ZipMember>& members, const std::string& name) {
  for (const ZipMember& member : members) {
    if (member.name == name) return member.content;
  }
  return "no member " + name;
}

class Download : public testing::Test {
 protected:
  void SetUp() override {
    for (int64_t rank = 0; rank < 2; ++rank) {
      start_spool(run_.path(), 1, rank);
      append_step(run_.path(), 1, rank, make_step(0, 20, 0, 2.0, 1'000'000, 20'000'000));
      append_step(run_.path(), 1, rank, make_step(20, 20, 0, 1.0, 1'000'000, 1'040'000'000));
      append_step(run_.path(), 1, rank, make_step(40, 5, 1, 0.5, 2'000'000, 2'000'000'000));
    }
    append_event(run_.path(), 1, 0,
                 {{"event", "epoch"},
                  {"epoch", 1},
                  {"end_ns", 1'041'000'000},
                  {"train_loss", 1.5},
                  {"metrics", {{"Prec@1", 60.5}, {"loss", 1.5}}}});
    append_event(run_.path(), 1, 0,
                 {{"event", "evaluation"},
                  {"split", "test"},
                  {"end_ns", 1'500'000'000},
                  {"metrics", {{"Prec@1", 85.25}, {"loss", 0.41}, {"../evil/\"x", 1.0}}}});
  }
  TemporaryFolder run_;
  RecordJson record_ = make_record("r-2", 2, 40, 5400, true);
};

TEST_F(Download, HasTheMembersOfTodaysArchives) {
  EXPECT_THAT(
      names_of(download_members(run_.path(), record_)),
      testing::IsSupersetOf({"result_train_loss @ 0.json", "result_train_loss @ 1.json", "result_train_Prec@1 @ 0.json",
                             "result_val_global_Prec@1 @ 0.json", "result_val_global_loss @ 0.json",
                             "result_fwd_pass @ 1.json", "result_CumulativeTrainTimeEpoch @ 1.json",
                             "result_global_cum_fwd_pass @ 0.json", "result_global_cum_agg @ 0.json",
                             "result_TotalCumulativeTrainTime @ 0.json", "official_result.txt", "run.json"}));
}

TEST_F(Download, NamesHoldNothingThatMeansAnythingInAPath) {
  for (const std::string& name : names_of(download_members(run_.path(), record_))) {
    EXPECT_EQ(name.find_first_of("/\\\""), std::string::npos) << name;
    EXPECT_EQ(name.find(".."), std::string::npos) << name;
  }
}

TEST_F(Download, PointsHaveDateValueAndCumulative) {
  const auto members = download_members(run_.path(), record_);
  EXPECT_EQ(content_of(members, "result_val_global_Prec@1 @ 0.json"),
            "[\n"
            "    {\n"
            "        \"date\": \"2026-01-31T12:00:01.500Z\",\n"
            "        \"value\": \"85.25\",\n"
            "        \"cumulative\": false\n"
            "    }\n"
            "]");
  // 20 + 20 steps make the first point of at least 25, the last 5 the second, on a whole second.
  const Json losses = Json::parse(content_of(members, "result_train_loss @ 1.json"));
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_EQ(losses[0]["value"], "1.5");
  EXPECT_EQ(losses[0]["date"], "2026-01-31T12:00:01.040Z");
  EXPECT_EQ(losses[1]["value"], "0.5");
  EXPECT_EQ(losses[1]["date"], "2026-01-31T12:00:02Z");
}

TEST_F(Download, HoldsWhatRanksUsed) {
  const int64_t start_us = unix_us(parse_utc("2026-01-31T12:00:00Z"));
  const std::vector<record::UsageLine> lines = {
      {start_us, 2, {{1.5, 3 << 20, 1 << 20, 1 << 19}, {std::nullopt, 1 << 19}}},
      {start_us + 2'000'000, 4, {{0.25, 4 << 20}, {1, std::nullopt}, {9, 9}}}};
  std::string text = "damaged\n";
  for (const record::UsageLine& line : lines) text += to_text(line) + "\n";
  write_file_atomically(usage_path(run_.path()), text);
  const auto members = download_members(run_.path(), record_);
  const auto values = [&](const std::string& name) {
    std::vector<std::string> all;
    for (const Json& point : Json::parse(content_of(members, name))) all.push_back(point["value"]);
    return all;
  };
  EXPECT_THAT(values("rank-0_cpu.json"), ElementsAre("1.5", "0.25"));
  EXPECT_THAT(values("rank-0_memory.json"), ElementsAre("3", "4")) << "MiB";
  EXPECT_THAT(values("rank-0_network_in.json"), ElementsAre("1")) << "MiB per second";
  EXPECT_THAT(values("rank-0_network_out.json"), ElementsAre("0.5"));
  EXPECT_THAT(values("rank-1_cpu.json"), ElementsAre("1"));
  EXPECT_THAT(values("rank-1_memory.json"), ElementsAre("0.5"));
  EXPECT_EQ(Json::parse(content_of(members, "rank-1_cpu.json"))[0]["date"], "2026-01-31T12:00:02Z");
  const auto names = names_of(members);
  EXPECT_EQ(std::count(names.begin(), names.end(), "rank-2_cpu.json"), 0) << "the run has two ranks";
}

TEST_F(Download, TimesAddUp) {
  const auto members = download_members(run_.path(), record_);
  const Json per_epoch = Json::parse(content_of(members, "result_fwd_pass @ 0.json"));
  ASSERT_EQ(per_epoch.size(), 2U);
  EXPECT_EQ(per_epoch[0]["value"], "0.04");
  EXPECT_EQ(per_epoch[1]["value"], "0.01");
  EXPECT_EQ(Json::parse(content_of(members, "result_global_cum_fwd_pass @ 0.json"))[0]["value"], "0.05");
  EXPECT_EQ(Json::parse(content_of(members, "result_TotalCumulativeTrainTime @ 0.json"))[0]["value"], "0.05");
}

TEST_F(Download, RunJsonIsTheRecord) {
  EXPECT_EQ(Json::parse(content_of(download_members(run_.path(), record_), "run.json")),
            to_json(record::Record(record_)));
}

TEST_F(Download, ZipReadsBackAndIsTheSameTwice) {
  const auto members = download_members(run_.path(), record_);
  const std::string zip = make_zip(members, 1769860800);
  EXPECT_EQ(zip.substr(0, 4), "PK\x03\x04");
  EXPECT_EQ(zip, make_zip(members, 1769860800));
  const auto read = read_zip(zip);
  ASSERT_EQ(names_of(read), names_of(members));
  for (size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i].content, members[i].content);
}

TEST_F(Download, IsWrittenToAFile) {
  const auto file = run_.path() / "r.zip";
  write_download(run_.path(), record_, file);
  EXPECT_EQ(names_of(read_zip(read_file(file))), names_of(download_members(run_.path(), record_)));
  EXPECT_THROW(write_download(run_.path(), record_, run_.path() / "none" / "r.zip"), IoError);
}

TEST_F(Download, HoldsWhatRanksWrote) {
  const auto log = [&](LogStream stream) { return rank_log_path(logs_dir(run_.path()), 1, 0, stream); };
  const std::string output(200'000, 'x');
  append(log(LogStream::kStdout), output.data(), output.size());
  append(log(LogStream::kStderr), "wrong\n", 6);
  append(supervisor_log_path(run_.path()), "", 0);
  const auto members = download_members(run_.path(), record_);
  EXPECT_TRUE(content_of(members, "rank-0.seg-1.out") == output);
  EXPECT_EQ(content_of(members, "rank-0.seg-1.err"), "wrong\n");
  EXPECT_EQ(content_of(members, "supervisor.log"), "no member supervisor.log") << "it is empty";
  std::vector<ZipPart> parts = download_of(run_.path(), record_).parts;
  append(log(LogStream::kStderr), "later", 5);
  const auto errors = std::ranges::find(parts, "rank-0.seg-1.err", &ZipPart::name);
  ASSERT_NE(errors, parts.end());
  EXPECT_EQ(errors->next(), "wrong\n") << "what it held when the download began";
  EXPECT_EQ(errors->next(), "");
}

// Whoever reads an archive derives nothing from its logs, which may be larger than what is read.
TEST_F(Download, LogsAreNotRead) {
  std::vector<ZipMember> members = download_members(run_.path(), record_);
  const std::vector<std::string> names = names_of(members);
  for (const char* log : {"rank-0.seg-1.out", "rank-0.seg-1.err", "supervisor.log"}) {
    members.insert(members.begin(), {log, std::string(100'000, 'x')});
  }
  EXPECT_EQ(names_of(read_zip(make_zip(members, 0), {.member_bytes = 50'000})), names);
}

TEST(Zip, ARunWithoutSpoolsHoldsItsRecord) {
  const TemporaryFolder run;
  record::Record record;
  record.workers = 1;
  EXPECT_THAT(names_of(download_members(run.path(), record)), ElementsAre("run.json"));
}

TEST(Zip, EmptyHasNoMembers) { EXPECT_TRUE(read_zip(make_zip({}, 0)).empty()); }

TEST(Zip, DamagedIsAnError) {
  EXPECT_THROW(read_zip("PK\x03\x04 not really"), UserError);
  EXPECT_THROW(read_zip("text"), UserError);
}

std::string refusal_of(const std::string& zip, const ZipLimits& limits = {}) {
  return error_of([&] { read_zip(zip, limits); });
}

TEST(Zip, CutAnywhereOrWithAFlippedBitIsAnError) {
  std::vector<ZipMember> members;
  for (char name = 'a'; name < 'f'; ++name) members.push_back({{name}, std::string(200, name) + "tail"});
  const std::string zip = make_zip(members, 0);
  ASSERT_EQ(refusal_of(zip), "no error");
  for (size_t size = 0; size < zip.size(); ++size) EXPECT_NE(refusal_of(zip.substr(0, size)), "no error") << size;
  // The first member's data is changed; its checksum shows that.
  std::string flipped = zip;
  flipped[zip.find("a") + 30] ^= 0x10;
  EXPECT_NE(refusal_of(flipped), "no error");
}

TEST(Zip, NamesWithAMeaningInAPathAreRefused) {
  for (const char* name : {"../evil.json", "/etc/passwd", "a/b", "..", ".", "a\\b", "folder/"}) {
    EXPECT_THAT(refusal_of(make_zip({{name, "x"}}, 0)),
                testing::AnyOf(HasSubstr("has a path"), HasSubstr("no plain file")))
        << name;
  }
  EXPECT_THAT(refusal_of(make_zip({{"a\x1b[31m", "x"}}, 0)), HasSubstr("'a\\x1b[31m' has a path"));
  EXPECT_THAT(refusal_of(make_zip({{std::string(300, 'n'), "x"}}, 0)), HasSubstr("more than 255 bytes"));
  EXPECT_THAT(refusal_of(make_zip({{"a", "x"}, {"a", "y"}}, 0)), HasSubstr("two members 'a'"));
}

TEST(Zip, WhatUnpacksToTooMuchIsRefused) {
  const std::string bomb = make_zip({{"zeros", std::string(40 << 20, '0')}}, 0);
  EXPECT_LT(bomb.size(), 100'000U);
  EXPECT_THAT(refusal_of(bomb), HasSubstr("more than 33554432 bytes in one member (member 'zeros')"));
  const std::string three = make_zip({{"a", std::string(100, 'a')}, {"b", std::string(100, 'b')}, {"c", ""}}, 0);
  EXPECT_THAT(refusal_of(three, {.members = 2}), HasSubstr("more than 2 members"));
  EXPECT_THAT(refusal_of(three, {.total_bytes = 150}), HasSubstr("more than 150 bytes (member 'b')"));
  EXPECT_EQ(refusal_of(three, {.members = 3, .member_bytes = 100, .total_bytes = 200}), "no error");
}

TEST(OfficialResult, HasMlbenchsSentence) {
  RecordJson record = make_record("r-2", 2, 40, 5400, true);
  EXPECT_EQ(
      official_result(record),
      "85% Top 1 Validation Accuracy reached in 39.000 seconds, Compute: 32.5 seconds, Communication: 10 seconds, "
      "Metrics Computation: 0.25 seconds, Pre-processing: 1 seconds");
  record["goal"]["metric"] = "Perplexity";
  record["goal"]["target"] = 70;
  record["steps_s"] = Json::object();
  EXPECT_EQ(official_result(record), "Validation Perplexity of 70 reached in 39.000 seconds");
  record["goal"]["reached"] = false;
  EXPECT_EQ(official_result(record), "");
}

// A script itself says what it reached, and when, since it may have gone on.
TEST(OfficialResult, OfACustomRunIsItsScripts) {
  RecordJson record = make_record("r-2", 2, 40, 5400, true);
  record["division"] = "custom";
  record["custom"] = {{"result", nullptr}};
  EXPECT_EQ(official_result(record), "");
  record["custom"]["result"] = "85% Top 1 Validation Accuracy reached in 30.000 seconds";
  EXPECT_EQ(official_result(record), "85% Top 1 Validation Accuracy reached in 30.000 seconds");
}

}  // namespace
}  // namespace mlbench::report
