#include "mlbench/report/course.h"

#include <gtest/gtest.h>

#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

// Evaluations at 8 s and 40 s of the train clock, each taking 1 s and 2 s: they end 9 s and 43 s after the first batch.
TEST(ValueAfter, CountsEvaluationsToo) {
  Json record = make_record("r-2", 2, 40, 5000, true);
  record["evaluations"][0]["duration_s"] = 1.0;
  record["evaluations"][1]["duration_s"] = 2.0;
  EXPECT_FALSE(value_after(record, 8.9));
  EXPECT_EQ(value_after(record, 9)->value, 78.5);
  EXPECT_EQ(value_after(record, 42.9)->value, 78.5);
  EXPECT_FALSE(value_after(record, 42.9)->ended);
  EXPECT_EQ(value_after(record, 43)->value, 85.25);
  EXPECT_EQ(value_after(record, 7200)->value, 85.25);
  EXPECT_TRUE(value_after(record, 7200)->ended);
  EXPECT_EQ(value_after(record, 7200)->metric, "Prec@1");
}

}  // namespace
}  // namespace mlbench::report
