#include "mlbench/master/last_steps.h"

#include <gtest/gtest.h>

#include "mlbench/base/files.h"
#include "mlbench/record/events.h"
#include "mlbench/record/test_spool.h"

namespace mlbench::master {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class LastStepsTest : public testing::Test {
 protected:
  // A step of 0.5 s with 10 samples, of which 0.2 s are communication.
  void add(uint64_t step, uint32_t rank, int64_t exchange_ns = 0, uint32_t segment = 1) {
    record::StepRecord record;
    record.first_step = step;
    record.count = 1;
    record.samples = 10;
    record.loss_sum = 10 * (rank == 0 ? 1.0 : 2.0);
    record.end_ns = static_cast<int64_t>(step + 1) * kSecond / 2;
    record.kinds_ns[static_cast<size_t>(record::StepKind::kAggregate)] = kSecond / 5;
    record.kinds_ns[static_cast<size_t>(record::StepKind::kBackward)] = kSecond / 2 - kSecond / 5;
    record.exchange_ns[0] = exchange_ns;
    record::SpoolHeader header;
    header.rank = rank;
    header.segment = segment;
    steps_.take(7, header, record);
  }
  StepFigures of(int64_t workers) { return steps_.of(7, folder_.path(), workers).value_or(StepFigures{-1}); }

  TemporaryFolder folder_;
  LastSteps steps_;
};

TEST_F(LastStepsTest, RatesAreSummedAndSharesAreOverAllRanks) {
  EXPECT_FALSE(steps_.of(7, folder_.path(), 2));
  for (uint64_t step = 0; step < 4; ++step) {
    add(step, 0, kSecond / 10);
    add(step, 1, kSecond / 5);
  }
  const StepFigures figures = of(2);
  EXPECT_EQ(figures.steps_done, 4);
  EXPECT_DOUBLE_EQ(figures.samples_per_s.value(), 40);
  EXPECT_DOUBLE_EQ(figures.loss.value(), 1.5);
  EXPECT_DOUBLE_EQ(figures.communication_share.value(), 0.4);
  EXPECT_DOUBLE_EQ(figures.wait_share.value(), 0.1);  // rank 1 waits 0.1 s of its 0.5 s, rank 0 never
}

TEST_F(LastStepsTest, ARankAloneWaitsForNobody) {
  add(0, 0, kSecond / 10);
  EXPECT_FALSE(of(1).wait_share);
  EXPECT_EQ(of(1).samples_per_s, 20);
}

TEST_F(LastStepsTest, WithoutOneOfTheRanksThereAreNoRates) {
  add(0, 0);
  EXPECT_EQ(of(2).steps_done, 1);
  EXPECT_FALSE(of(2).samples_per_s);
  EXPECT_FALSE(of(2).loss);
}

TEST_F(LastStepsTest, StepsCountOnceAndOldOnesAreForgotten) {
  add(0, 0);
  add(0, 0);
  EXPECT_EQ(of(1).samples_per_s, 20);
  for (uint64_t step = 1; step < 1000; ++step) add(step, 0, 0);
  record::StepRecord slow = record::step_record(1000, 1, 2 * kSecond, 9000 * kSecond);
  steps_.take(7, {.segment = 1}, slow);
  EXPECT_EQ(of(1).samples_per_s, 5);
}

TEST_F(LastStepsTest, AResumedRunCountsFromItsCheckpoint) {
  for (uint64_t step = 0; step < 9; ++step) add(step, 0);
  add(3, 0, 0, 2);
  add(9, 0, 0, 1);  // a piece of the earlier segment that is read late
  EXPECT_EQ(of(1).steps_done, 4);
}

TEST_F(LastStepsTest, TheEndIsWhatRank0SaidAtTheBegin) {
  add(0, 0);
  EXPECT_FALSE(of(1).steps_expected);
  namespace member = record::member;
  const Json begin = record::make_event(record::EventKind::kBegin,
                                        {member::kEffective(Json::object()), member::kVersions(Json::object()),
                                         member::kCommStack("gloo"), member::kPeakRss(1), member::kLastStep(120)});
  record::write_spool(folder_.path(), 1, 0, {}, {begin});
  EXPECT_EQ(of(1).steps_expected, 120);
}

TEST_F(LastStepsTest, RunsThatEndedAreForgotten) {
  add(0, 0);
  steps_.keep_only({7});
  EXPECT_TRUE(steps_.of(7, folder_.path(), 1));
  steps_.keep_only({8});
  EXPECT_FALSE(steps_.of(7, folder_.path(), 1));
}

}  // namespace
}  // namespace mlbench::master
