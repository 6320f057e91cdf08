#include "mlbench/worker/bfloat16.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "mlbench/base/errors.h"
#include "mlbench/catalog/worker/frameworks.h"
#include "mlbench/models/layer_kinds.h"

namespace mlbench::worker {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

// Steps that take times of their own on a clock that nobody else moves.
class Bfloat16 : public testing::Test {
 protected:
  record::Bfloat16Speed compare(milliseconds float32, milliseconds bfloat16) {
    return compare_steps(models::kConvolutions, step("f", float32), step("b", bfloat16), clock_);
  }
  Step step(const char* name, milliseconds time) {
    return [this, name, time] {
      const bool first = std::ranges::count(calls_, *name) == 0;
      calls_ += name;
      clock_.advance(first ? milliseconds(1'000) : time);  // the first step makes what the others find
    };
  }
  ManualClock clock_;
  std::string calls_;
};

TEST_F(Bfloat16, IsComparedByTurnsOfWhichEachBeginsEveryOther) {
  const record::Bfloat16Speed speed = compare(milliseconds(3), milliseconds(5));
  EXPECT_EQ(speed.verdict, record::kSlower);
  EXPECT_DOUBLE_EQ(speed.ratio.value(), 0.6) << "without the first steps";
  EXPECT_DOUBLE_EQ(speed.low.value(), 0.6);
  EXPECT_EQ(calls_.size(), 2U + 2 * kEnoughPairs);
  EXPECT_THAT(calls_, StartsWith("fb"
                                 "fb"
                                 "bf"
                                 "fb"
                                 "bf"));
  EXPECT_EQ(compare(milliseconds(5), milliseconds(3)).verdict, record::kFaster);
  EXPECT_EQ(compare(milliseconds(3), milliseconds(3)).verdict, record::kUndecided);
}

TEST_F(Bfloat16, IsComparedAsLongAsAVerdictNeedsWhereItIsVerySlow) {
  const record::Bfloat16Speed speed = compare(milliseconds(4), milliseconds(400));
  EXPECT_EQ(speed.verdict, record::kSlower);
  EXPECT_DOUBLE_EQ(speed.ratio.value(), 0.01);
  EXPECT_EQ(calls_.size(), 2U + 2 * 7);
}

TEST_F(Bfloat16, IsNotKnownWhereTheFrameworkRefusesIt) {
  catalog::FrameworkRow row = catalog::frameworks().front();
  row.make = [](const framework::FrameworkOptions& options) -> std::unique_ptr<framework::Framework> {
    throw UserError("no " + options.precision + " here");
  };
  const record::Bfloat16Speed speed = measure_bfloat16(row, models::kProducts, clock_);
  EXPECT_EQ(speed.work, models::kProducts);
  EXPECT_EQ(speed.verdict, record::kNotKnown);
  EXPECT_EQ(speed.reason, "no float32 here");
  EXPECT_FALSE(speed.ratio);
  EXPECT_THROW(measure_bfloat16({"mlbench-worker", catalog::frameworks()}, "keras"), UserError);
}

TEST_F(Bfloat16, IsMeasuredForEachFrameworkThatHasIt) {
  for (const catalog::FrameworkRow& row : catalog::frameworks()) {
    if (!row.computes || !row.available().available) continue;
    for (const std::string_view work : {models::kConvolutions, models::kProducts}) {
      const record::Bfloat16Speed speed = measure_bfloat16(row, work, SystemClock());
      SCOPED_TRACE(record::describe_bfloat16(speed, row.name));
      EXPECT_EQ(speed.work, work);
      if (speed.verdict == record::kNotKnown) {
        EXPECT_THAT(speed.reason, HasSubstr("neither AVX512-BF16 nor AMX"));
        continue;
      }
      EXPECT_GT(speed.ratio.value(), 0);
      EXPECT_LE(speed.low.value(), speed.ratio.value());
      EXPECT_GE(speed.high.value(), speed.ratio.value());
    }
  }
}

}  // namespace
}  // namespace mlbench::worker
