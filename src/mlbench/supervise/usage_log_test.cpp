#include "mlbench/supervise/usage_log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/usage_lines.h"

namespace mlbench::supervise {
namespace {

using namespace std::chrono_literals;
using exec::RankUsage;

class UsageLogTest : public testing::Test {
 protected:
  UsageLogTest() {
    std::filesystem::create_directory(folder_ / "spool");
    clock_.advance(1h);
  }
  void add(std::vector<std::optional<RankUsage>> ranks, const std::optional<RankUsage>& host = {}) {
    log_.add(folder_.path(), 7, {std::move(ranks), 4}, host);
  }
  std::vector<record::UsageLine> lines() const {
    std::vector<record::UsageLine> lines;
    std::ifstream in(usage_path(folder_.path()));
    for (std::string text; std::getline(in, text);) lines.push_back(record::parse_usage_line(text).value());
    return lines;
  }

  TemporaryFolder folder_;
  ManualClock clock_;
  UsageLog log_{clock_};
};

TEST_F(UsageLogTest, CoresInUseAreThoseSinceTheLookBefore) {
  add({RankUsage{1, 100}, std::nullopt});
  clock_.advance(2s);
  add({RankUsage{4, 200}, RankUsage{1, 50}});
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_FALSE(lines()[0].ranks.at(0).cpu_cores);
  EXPECT_EQ(lines()[0].ranks.at(0).memory_bytes, 100);
  EXPECT_FALSE(lines()[0].ranks.at(1).memory_bytes);
  EXPECT_EQ(lines()[1].ranks.at(0).cpu_cores, 1.5);
  EXPECT_EQ(lines()[1].ranks.at(1).memory_bytes, 50);
  EXPECT_EQ(lines()[1].wall_s, 7);
  EXPECT_EQ(lines()[1].time_us, 3'602'000'000);
}

TEST_F(UsageLogTest, WhatComesLateCountsFromWhenItWasSeen) {
  add({RankUsage{1, 100, 1s}});
  clock_.advance(2s);
  add({RankUsage{1, 100, 3s}});  // nothing new came
  clock_.advance(2s);
  add({RankUsage{5, 100, 1s}});
  ASSERT_EQ(lines().size(), 3u);
  EXPECT_FALSE(lines()[1].ranks.at(0).cpu_cores);
  EXPECT_EQ(lines()[2].ranks.at(0).cpu_cores, 1.0);
}

TEST_F(UsageLogTest, NewRanksBeginAnew) {
  add({RankUsage{1, 100}});
  log_.begin_segment();
  clock_.advance(2s);
  add({RankUsage{2, 100}});
  EXPECT_FALSE(lines().at(1).ranks.at(0).cpu_cores);
}

TEST_F(UsageLogTest, TheNetworkIsInBytesPerSecond) {
  const auto seen = [](double cpu_s, int64_t in, int64_t out) {
    RankUsage usage{cpu_s, 100};
    usage.network = NetworkBytes{in, out};
    return usage;
  };
  add({seen(1, 1000, 50), RankUsage{1, 100}});
  clock_.advance(2s);
  add({seen(2, 5000, 50), RankUsage{2, 100}});
  clock_.advance(2s);
  add({seen(3, 10, 150), RankUsage{3, 100}});  // an interface went
  ASSERT_EQ(lines().size(), 3u);
  EXPECT_FALSE(lines()[0].ranks[0].network_in);
  EXPECT_EQ(lines()[1].ranks[0].network_in, 2000);
  EXPECT_EQ(lines()[1].ranks[0].network_out, 0);
  EXPECT_FALSE(lines()[1].ranks[1].network_in);
  EXPECT_EQ(lines()[1].ranks[1].cpu_cores, 0.5);
  EXPECT_FALSE(lines()[2].ranks[0].network_in);
  EXPECT_EQ(lines()[2].ranks[0].network_out, 50);
}

TEST_F(UsageLogTest, TheHostGoesOnOverSegments) {
  RankUsage host{100, 1 << 30};
  host.network = NetworkBytes{1000, 50};
  add({RankUsage{1, 100}}, host);
  log_.begin_segment();
  clock_.advance(2s);
  host.cpu_s += 7;
  host.network->received += 600;
  add({RankUsage{1, 100}}, host);
  EXPECT_FALSE(lines()[0].host.cpu_cores);
  EXPECT_EQ(lines()[0].host.memory_bytes, 1 << 30);
  EXPECT_EQ(lines()[1].host.cpu_cores, 3.5);
  EXPECT_EQ(lines()[1].host.network_in, 300);
  EXPECT_EQ(lines()[1].host.network_out, 0);
}

TEST_F(UsageLogTest, OfNobodyThereIsNoLine) {
  add({});
  add({std::nullopt});
  EXPECT_FALSE(std::filesystem::exists(usage_path(folder_.path())));
  std::filesystem::remove(folder_ / "spool");
  add({RankUsage{1, 100}});  // nor where the disk refuses
}

}  // namespace
}  // namespace mlbench::supervise
