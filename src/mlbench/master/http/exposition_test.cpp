#include "mlbench/master/http/exposition.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mlbench/base/errors.h"

namespace mlbench::master {
namespace {

TEST(Exposition, WritesMetricsWithTheirSamples) {
  Exposition out;
  out.metric("mlbench_runs", Exposition::Type::kGauge, "Runs.");
  out.sample({{"state", "queued"}}, 2);
  out.sample({{"state", "running"}, {"task", ""}}, 0.125);
  out.metric("mlbench_bytes_total", Exposition::Type::kCounter, "Bytes.");
  out.sample({}, 1e18);
  EXPECT_EQ(out.text(),
            "# HELP mlbench_runs Runs.\n# TYPE mlbench_runs gauge\n"
            "mlbench_runs{state=\"queued\"} 2\nmlbench_runs{state=\"running\",task=\"\"} 0.125\n"
            "# HELP mlbench_bytes_total Bytes.\n# TYPE mlbench_bytes_total counter\nmlbench_bytes_total 1e+18\n");
}

TEST(Exposition, ValuesMayBeNoNumbers) {
  Exposition out;
  out.metric("m", Exposition::Type::kGauge, "M.");
  for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL}) out.sample({}, value);
  EXPECT_TRUE(out.text().ends_with("\nm NaN\nm +Inf\nm -Inf\n")) << out.text();
}

TEST(Exposition, TextOfLabelsCannotEndItsQuotesOrItsLine) {
  Exposition out;
  out.metric("m", Exposition::Type::kGauge, "M.");
  out.sample({{"run", "a\"} 1\nevil 2 \\ \xff"}}, 3);
  EXPECT_TRUE(out.text().ends_with("\nm{run=\"a\\\"} 1\\\\nevil 2 \\\\ \\\\xff\"} 3\n")) << out.text();
}

TEST(Exposition, NamesThatTheFormatLacksAreBugsOfOurs) {
  Exposition out;
  for (const char* name : {"", "1st", "a-b", "a b", "a\n", "Up", "bytes_total"}) {
    EXPECT_THROW(out.metric(name, Exposition::Type::kGauge, "M."), InternalError) << name;
  }
  EXPECT_THROW(out.metric("bytes", Exposition::Type::kCounter, "M."), InternalError);
  out.metric("m", Exposition::Type::kGauge, "M.");
  EXPECT_THROW(out.sample({{"a=\"b\",c", "d"}}, 1), InternalError);
}

}  // namespace
}  // namespace mlbench::master
