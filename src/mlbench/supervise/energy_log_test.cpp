#include "mlbench/supervise/energy_log.h"

#include <gmock/gmock.h>

#include <fstream>

#include "mlbench/base/environment.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"

namespace mlbench::supervise {
namespace {

namespace fs = std::filesystem;

class EnergyLogTest : public testing::Test {
 protected:
  EnergyLogTest() {
    fs::create_directories(zone_);
    std::ofstream(zone_ / "name") << "package-0\n";
    std::ofstream(zone_ / "max_energy_range_uj") << "1000000000\n";
    use(100);
  }
  // The counter stands at `joules`.
  void use(uint64_t joules) const { std::ofstream(zone_ / "energy_uj") << joules * 1'000'000 << "\n"; }
  void look_at(double wall_s, uint64_t joules) {
    use(joules);
    progress_.wall_s = wall_s;
    log_.look(progress_, {});
  }
  static record::Record reached_at(double wall_s) {
    record::Record record;
    record.goal.emplace();
    record.goal->split = "test";
    record.goal->step = 30;
    record.goal->reached = true;
    for (const int64_t step : {20, 30, 40}) {
      record::Evaluation& one = record.evaluations.emplace_back();
      one.step = step;
      one.split = "test";
      one.wall_s = wall_s + static_cast<double>(step - 30);
    }
    return record;
  }

  const TemporaryFolder folder_;
  const fs::path zone_ = folder_ / "intel-rapl:0";
  record::RunProgress progress_;
  EnergyLog log_{folder_.path()};
};

TEST_F(EnergyLogTest, CountsTheSegmentsOfARun) {
  log_.begin_segment(progress_);
  EXPECT_TRUE(progress_.energy.is_null());
  look_at(10, 150);
  EXPECT_EQ(progress_.energy["joules"], 50.0);
  EXPECT_EQ(progress_.energy["hosts"],
            Json::array({{{"host", host_name()}, {"meter", "RAPL: package-0"}, {"joules", 50.0}}}));
  EXPECT_EQ(progress_.energy["to_goal_joules"], nullptr);
  log_.end_segment();
  look_at(10, 500);
  EXPECT_EQ(progress_.energy["joules"], 50.0) << "nobody works";
  log_.begin_segment(progress_);
  look_at(14, 530);
  EXPECT_EQ(progress_.energy["joules"], 80.0);
}

TEST_F(EnergyLogTest, EnergyToTheGoalLiesBetweenTwoLooks) {
  log_.begin_segment(progress_);
  look_at(2, 120);
  EXPECT_FALSE(log_.note_goal(reached_at(3), progress_)) << "the next look tells";
  look_at(4, 160);
  record::Record missed = reached_at(3);
  missed.goal->reached = false;
  EXPECT_FALSE(log_.note_goal(missed, progress_));
  EXPECT_TRUE(log_.note_goal(reached_at(3), progress_));
  EXPECT_EQ(progress_.energy["to_goal_joules"], 40.0);
  look_at(6, 200);
  EXPECT_FALSE(log_.note_goal(reached_at(3), progress_)) << "once";
  EXPECT_EQ(progress_.energy["to_goal_joules"], 40.0);
}

TEST_F(EnergyLogTest, WithoutAMeterTheEnergyIsNotKnown) {
  fs::remove(zone_ / "energy_uj");
  log_.begin_segment(progress_);
  progress_.wall_s = 5;
  log_.look(progress_, {});
  EXPECT_EQ(progress_.energy["joules"], nullptr);
  EXPECT_EQ(progress_.energy["hosts"], Json::array({{{"host", host_name()}, {"meter", nullptr}, {"joules", nullptr}}}));
  EXPECT_FALSE(log_.note_goal(reached_at(3), progress_));
}

TEST_F(EnergyLogTest, OfRanksElsewhereTheirHostsCountAndNotThisOne) {
  log_.begin_segment(progress_);
  use(900);
  log_.look(progress_, {{"n1", "RAPL: package-0", 3}, {"n2", "RAPL: package-0, dram", 4}});
  EXPECT_EQ(progress_.energy["joules"], 7.0);
  EXPECT_EQ(progress_.energy["hosts"],
            Json::array({{{"host", "n1"}, {"meter", "RAPL: package-0"}, {"joules", 3.0}},
                         {{"host", "n2"}, {"meter", "RAPL: package-0, dram"}, {"joules", 4.0}}}));
}

// A sum of some of the hosts would pass for the run's.
TEST_F(EnergyLogTest, AHostThatIsNotKnownIsNamedAndThereIsNoSum) {
  log_.begin_segment(progress_);
  progress_.wall_s = 2;
  log_.look(progress_, {{"n1", "RAPL: package-0", 3}, {"n2", "", {}}});
  EXPECT_EQ(progress_.energy["joules"], nullptr);
  EXPECT_EQ(progress_.energy["hosts"][0]["joules"], 3.0);
  EXPECT_EQ(progress_.energy["hosts"][1], (Json{{"host", "n2"}, {"meter", nullptr}, {"joules", nullptr}}));
  EXPECT_FALSE(log_.note_goal(reached_at(1), progress_));
  progress_.wall_s = 4;
  log_.look(progress_, {{"n1", "RAPL: package-0", 5}, {"n2", "RAPL: package-0", 7}});
  EXPECT_EQ(progress_.energy["joules"], 12.0) << "its guard has said it now";
  EXPECT_TRUE(log_.note_goal(reached_at(2), progress_));
  EXPECT_EQ(progress_.energy["to_goal_joules"], 6.0) << "half way from the begin";
}

TEST_F(EnergyLogTest, HostsOfAllSegmentsCount) {
  const exec::HostEnergy n1{"n1", "RAPL: package-0", 3}, n2{"n2", "RAPL: package-0", 4}, closed{"n2", "", {}};
  log_.begin_segment(progress_);
  log_.look(progress_, {n1, n2});
  log_.end_segment();
  log_.begin_segment(progress_);
  log_.look(progress_, {n2});
  EXPECT_EQ(progress_.energy["joules"], 11.0);
  EXPECT_EQ(progress_.energy["hosts"][1]["joules"], 8.0);
  log_.end_segment();
  log_.begin_segment(progress_);
  log_.look(progress_, {closed});
  EXPECT_EQ(progress_.energy["joules"], nullptr);
  log_.end_segment();
  log_.begin_segment(progress_);
  log_.look(progress_, {n1, n2});
  EXPECT_EQ(progress_.energy["joules"], nullptr) << "one segment's energy of n2 is not known";
  EXPECT_EQ(progress_.energy["hosts"][0]["joules"], 6.0);
}

}  // namespace
}  // namespace mlbench::supervise
