#include "mlbench/supervise/energy_log.h"

#include <gmock/gmock.h>

#include <fstream>

#include "mlbench/base/files.h"

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
    log_.look(progress_);
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
  EXPECT_EQ(progress_.energy["meter"], "RAPL: package-0");
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

TEST_F(EnergyLogTest, WithoutAMeterThereIsNoEnergy) {
  fs::remove(zone_ / "energy_uj");
  log_.begin_segment(progress_);
  progress_.wall_s = 5;
  log_.look(progress_);
  EXPECT_TRUE(progress_.energy.is_null());
  EXPECT_FALSE(log_.note_goal(reached_at(3), progress_));
}

}  // namespace
}  // namespace mlbench::supervise
