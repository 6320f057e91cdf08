#include "mlbench/report/study/course.h"

#include <gtest/gtest.h>

#include "mlbench/base/test_odd_values.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

// Evaluations at 8 s and 40 s of the train clock, each taking 1 s and 2 s: they end 9 s and 43 s after the first batch.
RecordJson evaluated_run() {
  RecordJson record = make_record("r-2", 2, 40, 5000, true);
  record["evaluations"][0]["duration_s"] = 1.0;
  record["evaluations"][1]["duration_s"] = 2.0;
  return record;
}

TEST(ValueAfter, CountsEvaluationsToo) {
  const RecordJson record = evaluated_run();
  EXPECT_FALSE(value_after(record, 8.9));
  EXPECT_EQ(value_after(record, 9)->value, 78.5);
  EXPECT_EQ(value_after(record, 42.9)->value, 78.5);
  EXPECT_FALSE(value_after(record, 42.9)->ended);
  EXPECT_EQ(value_after(record, 43)->value, 85.25);
  EXPECT_EQ(value_after(record, 7200)->value, 85.25);
  EXPECT_TRUE(value_after(record, 7200)->ended);
  EXPECT_EQ(value_after(record, 7200)->metric, "Prec@1");
}

TEST(ValueAfter, TakesTheEndsThatTheRecordTells) {
  RecordJson record = evaluated_run();
  record["evaluations"][0]["elapsed_s"] = 10.0;
  record["evaluations"][1]["elapsed_s"] = 50.0;
  EXPECT_FALSE(value_after(record, 9.9));
  EXPECT_EQ(value_after(record, 10)->at_s, 10);
  EXPECT_EQ(value_after(record, 49.9)->value, 78.5);
  EXPECT_FALSE(value_after(record, 50)->ended);
}

// Stopped after 42 s of training and evaluation; the evaluation of the weights of that moment took until 44 s.
TEST(ValueAfter, OfARunThatWasStoppedThenIsThatOfItsWeights) {
  RecordJson record = evaluated_run();
  record["stop_reason"] = "max_time";
  record["limits"]["max_time_s"] = 42.0;
  record["evaluations"][1]["cadence"] = false;
  record["evaluations"][1]["elapsed_s"] = 44.0;
  EXPECT_EQ(value_after(record, 42)->value, 85.25);
  EXPECT_EQ(value_after(record, 42)->at_s, 44);
  EXPECT_FALSE(value_after(record, 42)->ended);
  EXPECT_EQ(value_after(record, 41.9)->value, 78.5) << "of another moment it is the last that had ended";
  EXPECT_EQ(value_after(record, 43)->value, 78.5);
  record["stop_reason"] = "goal";
  EXPECT_EQ(value_after(record, 42)->value, 78.5);
}

TEST(ValueAfter, IsThatOfThenAlsoWhereItIsNoNumber) {
  for (const Json& row : odd_values("value_after")) {
    SCOPED_TRACE(row.dump());
    RecordJson record = evaluated_run();
    const Json evaluation = record["evaluations"][0];
    record["evaluations"] = Json::array();
    for (size_t i = 0; i < row["values"].size(); ++i) {
      const double value = odd_value(row["values"][i]);
      Json one = evaluation;
      one["elapsed_s"] = 10.0 * static_cast<double>(i + 1);
      one["metrics"]["Prec@1"] = std::isfinite(value) ? Json(value) : Json(nullptr);
      record["evaluations"].push_back(one);
    }
    for (size_t i = 0; i < row["after"].size(); ++i) {
      const auto found = value_after(record, 10.0 * static_cast<double>(i + 1));
      EXPECT_EQ(found ? Json(found->value) : Json(nullptr), row["after"][i]) << i;
    }
  }
}

TEST(ValueAfter, TheLastEvaluationIsShownAsWhatItIs) {
  RecordJson record = evaluated_run();
  record["evaluations"][1]["metrics"]["Prec@1"] = nullptr;
  EXPECT_EQ(figures_of(record).evaluation, "Prec@1 nan");
}

// Epochs end at 10 s and 40 s of the train clock; the evaluation at 8 s took 1 s.
TEST(ValueAfter, OfAGoalOnTrainingDataCountsEvaluationsToo) {
  RecordJson record = evaluated_run();
  record["goal"]["split"] = "train";
  record["epochs"] = {{{"epoch", 1}, {"train_s", 10.0}, {"metrics", {{"Prec@1", 70.0}}}},
                      {{"epoch", 2}, {"train_s", 40.0}, {"metrics", {{"Prec@1", 90.0}}}}};
  EXPECT_FALSE(value_after(record, 10.9));
  EXPECT_EQ(value_after(record, 11)->value, 70);
  EXPECT_EQ(value_after(record, 41)->value, 90);
  EXPECT_FALSE(value_after(record, 41)->ended) << "an evaluation of 2 s followed";
  EXPECT_TRUE(value_after(record, 43.1)->ended);
}

}  // namespace
}  // namespace mlbench::report
