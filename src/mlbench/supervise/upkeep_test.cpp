#include "mlbench/supervise/upkeep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/supervise/progress.h"

namespace mlbench::supervise {
namespace {

using namespace std::chrono_literals;

class UpkeepTest : public testing::Test {
 protected:
  UpkeepTest() {
    clock_.advance(1h);
    run_.name = "r-1";
    run_.run_dir = folder_.path();
    spec::set_command(run_, {{"true"}});
  }
  Json record() const { return read_json_file(folder_ / "run.json"); }
  LeaseContent lease() const { return read_lease(folder_.path()).value(); }

  TemporaryFolder folder_;
  ManualClock clock_;
  spec::RunSpec run_;
  record::RunProgress progress_;
  Lease lease_ = Lease::take(folder_.path()).value();
  Upkeep upkeep_{run_, progress_, lease_, clock_};
};

TEST_F(UpkeepTest, TheCounterOfTheLeaseMovesEachSecond) {
  upkeep_.keep_lease_fresh();
  const int64_t first = lease().counter;
  clock_.advance(999ms);
  upkeep_.keep_lease_fresh();
  EXPECT_EQ(lease().counter, first);
  clock_.advance(1ms);
  upkeep_.keep_lease_fresh();
  EXPECT_EQ(lease().counter, first + 1);
}

TEST_F(UpkeepTest, TheLeaseNamesTheRanksOfThisHost) {
  upkeep_.remember({getpid(), std::nullopt});
  upkeep_.refresh_lease();
  ASSERT_EQ(lease().ranks.size(), 1u);
  EXPECT_EQ(lease().ranks[0].pid, getpid());
  EXPECT_TRUE(alive(lease().ranks[0]));
}

TEST_F(UpkeepTest, TheRecordIsDueAtOnceAndThenEachTwoSeconds) {
  upkeep_.begin_segment();
  EXPECT_TRUE(upkeep_.record_is_due());
  upkeep_.update_record();
  EXPECT_FALSE(upkeep_.record_is_due());
  clock_.advance(1999ms);
  EXPECT_FALSE(upkeep_.record_is_due());
  clock_.advance(1ms);
  EXPECT_TRUE(upkeep_.record_is_due());
}

TEST_F(UpkeepTest, WallTimeGoesOnBehindEarlierSegments) {
  progress_.wall_s = 50;
  clock_.advance(1min);
  upkeep_.count_time();
  EXPECT_EQ(progress_.wall_s, 50) << "it waits for the cores";
  upkeep_.begin_segment();
  clock_.advance(3s);
  upkeep_.count_time();
  clock_.advance(4s);
  upkeep_.update_record();
  EXPECT_EQ(progress_.wall_s, 57);
  EXPECT_EQ(read_progress(folder_.path()).value().wall_s, 57);
  EXPECT_EQ(record().at("clocks").at("wall_s"), 57);
}

TEST_F(UpkeepTest, WhatWaitsInAQueueHasNotBegun) {
  progress_.wall_s = 50;
  upkeep_.begin_segment();
  clock_.advance(1s);
  upkeep_.withdraw_segment();
  clock_.advance(1h);
  upkeep_.update_record();
  EXPECT_EQ(progress_.wall_s, 50);
  EXPECT_TRUE(progress_.utilisation.is_null());
  upkeep_.begin_segment();
  clock_.advance(2s);
  upkeep_.count_time();
  EXPECT_EQ(progress_.wall_s, 52);
}

TEST_F(UpkeepTest, UtilisationIsThatOfTheTimeWhenAllRanksWereThere) {
  upkeep_.begin_segment();
  clock_.advance(10s);
  upkeep_.update_record({{exec::RankUsage{4.5}, exec::RankUsage{3}}, 3});
  const Json all = progress_.utilisation;
  EXPECT_EQ(all.at("cpu"), 0.25);
  clock_.advance(1h);
  upkeep_.update_record({{exec::RankUsage{5}, std::nullopt}, 3});
  EXPECT_EQ(progress_.utilisation, all);
}

TEST_F(UpkeepTest, TheRecordHasTheEnergyOfAMeter) {
  const std::filesystem::path zone = folder_ / "powercap" / "intel-rapl:0";
  std::filesystem::create_directories(zone);
  const auto use = [&](int64_t joules) { std::ofstream(zone / "energy_uj") << joules * 1'000'000 << "\n"; };
  std::ofstream(zone / "name") << "package-0\n";
  std::ofstream(zone / "max_energy_range_uj") << "1000000000\n";
  use(100);
  Upkeep metered(run_, progress_, lease_, clock_, folder_ / "powercap");
  metered.begin_segment();
  use(130);
  clock_.advance(2s);
  metered.update_record();
  EXPECT_EQ(record()["energy"]["joules"], 30.0);
  use(150);
  metered.end_segment(exec::GroupUsage{});
  EXPECT_TRUE(metered.save());
  EXPECT_EQ(record()["energy"]["joules"], 50.0);
  EXPECT_EQ(record()["energy"]["hosts"][0]["meter"], "RAPL: package-0");
  metered.begin_segment();
  use(170);
  metered.end_segment();
  EXPECT_TRUE(metered.save());
  EXPECT_EQ(record()["energy"]["joules"], 50.0) << "no rank ran";
}

TEST_F(UpkeepTest, TheRecordHasTheEnergyOfOtherHosts) {
  upkeep_.begin_segment();
  clock_.advance(2s);
  upkeep_.update_record({{}, 1, {{"n1", "RAPL: package-0", 30}, {"n2", "", {}}}});
  EXPECT_EQ(record()["energy"]["joules"], nullptr) << "no sum of some of the hosts";
  EXPECT_EQ(record()["energy"]["hosts"][1]["host"], "n2");
  upkeep_.end_segment(exec::GroupUsage{{}, 1, {{"n1", "RAPL: package-0", 40}, {"n2", "RAPL: package-0", 50}}});
  EXPECT_TRUE(upkeep_.save());
  EXPECT_EQ(record()["energy"]["joules"], 90.0);
}

TEST_F(UpkeepTest, UtilisationIsOfTheCpusThatContainersAreLimitedTo) {
  run_.workers = 2;
  run_.cpus = 2.5;
  upkeep_.begin_segment();
  clock_.advance(10s);
  upkeep_.update_record({{exec::RankUsage{4.5}, exec::RankUsage{3}}, 4});
  EXPECT_EQ(progress_.utilisation.at("cpu"), 0.15);
}

TEST_F(UpkeepTest, UtilisationIsThatOfTheTimeWhenItWasSeen) {
  upkeep_.begin_segment();
  clock_.advance(2s);
  upkeep_.update_record({{exec::RankUsage{0.5, 0, 2s}}, 1});
  EXPECT_TRUE(progress_.utilisation.is_null()) << "of no time at all";
  clock_.advance(8s);
  upkeep_.update_record({{exec::RankUsage{2, 0, 1s}, exec::RankUsage{2, 0, 3s}}, 2});
  EXPECT_EQ(progress_.utilisation.at("cpu"), 0.25);
}

TEST_F(UpkeepTest, ARecordThatCannotBeWrittenIsTriedAgain) {
  run_.run_dir = (folder_ / "gone").string();
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  EXPECT_FALSE(upkeep_.save());
  EXPECT_FALSE(upkeep_.save());
  const std::string said = testing::internal::GetCapturedStderr() + testing::internal::GetCapturedStdout();
  EXPECT_THAT(said, testing::HasSubstr("cannot write the record of r-1"));
  EXPECT_EQ(said.find("cannot write the record of r-1"), said.rfind("cannot write the record of r-1")) << "said once";
  std::filesystem::create_directory(folder_ / "gone");
  EXPECT_TRUE(upkeep_.save());
  EXPECT_TRUE(std::filesystem::exists(folder_ / "gone/run.json"));
}

TEST(ReservedRoom, IsThereUntilTheLastRecord) {
  const TemporaryFolder folder;
  EXPECT_THROW(reserve_room(folder.path()), IoError) << "no folder control/";
  std::filesystem::create_directory(folder / "control");
  reserve_room(folder.path());
  EXPECT_EQ(std::filesystem::file_size(folder / "control/reserve"), 1u << 20);
  release_room(folder.path());
  EXPECT_FALSE(std::filesystem::exists(folder / "control/reserve"));
}

}  // namespace
}  // namespace mlbench::supervise
