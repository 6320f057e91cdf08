#include "mlbench/report/progress.h"

#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "mlbench/base/errors.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

TEST(ProgressReader, ReadsWhatIsAppended) {
  const TemporaryFolder run;
  ProgressReader reader(run.path());
  EXPECT_FALSE(reader.update());
  EXPECT_EQ(reader.progress().segment, 0);

  start_spool(run.path(), 1, 0);
  append_event(run.path(), 1, 0, {{"event", "prepared"}, {"prepare_s", 1.0}});
  EXPECT_TRUE(reader.update());
  EXPECT_EQ(reader.progress().segment, 1);
  EXPECT_TRUE(reader.progress().prepared);
  EXPECT_FALSE(reader.progress().training);
  EXPECT_FALSE(reader.update());

  append_event(run.path(), 1, 0,
               {{"event", "begin"}, {"start_step", 0}, {"steps_per_epoch", 600}, {"last_step", 24000}});
  append_step(run.path(), 1, 0, make_step(0, 25, 0, 2.0, 1'000'000, 25'000'000));
  EXPECT_TRUE(reader.update());
  EXPECT_TRUE(reader.progress().training);
  EXPECT_EQ(reader.progress().steps_done, 25);
  EXPECT_EQ(reader.progress().steps_per_epoch, 600);
  EXPECT_DOUBLE_EQ(*reader.progress().loss, 2.0);
  EXPECT_DOUBLE_EQ(*reader.progress().samples_per_s, 100'000);

  append_event(run.path(), 1, 0, {{"event", "evaluation"}, {"metrics", {{"Prec@1", 80.5}}}});
  append_event(run.path(), 1, 0, {{"event", "goal"}, {"value", 80.5}});
  append_event(run.path(), 1, 0, {{"event", "end"}, {"reason", "goal"}});
  EXPECT_TRUE(reader.update());
  EXPECT_EQ(reader.progress().evaluations, 1);
  EXPECT_EQ((*reader.progress().evaluation)["metrics"]["Prec@1"], 80.5);
  EXPECT_TRUE(reader.progress().goal);
  EXPECT_EQ((*reader.progress().end)["reason"], "goal");
}

TEST(ProgressReader, WaitsForTheRestOfARecord) {
  const TemporaryFolder run;
  start_spool(run.path(), 1, 0);
  const record::StepRecord step = make_step(0, 1, 0, 1.0, 1'000'000, 1'000'000);
  append(steps_path(run.path(), 1, 0), &step, 100);
  append(events_path(run.path(), 1, 0), "{\"event\":", 9);
  ProgressReader reader(run.path());
  reader.update();
  EXPECT_EQ(reader.progress().steps_done, 0);
  append(steps_path(run.path(), 1, 0), reinterpret_cast<const char*>(&step) + 100, sizeof step - 100);
  append(events_path(run.path(), 1, 0), "\"prepared\"}\n", 12);
  reader.update();
  EXPECT_EQ(reader.progress().steps_done, 1);
  EXPECT_TRUE(reader.progress().prepared);
}

TEST(ProgressReader, LossAndRateAreOfTheLastSeconds) {
  const TemporaryFolder run;
  start_spool(run.path(), 1, 0);
  append_step(run.path(), 1, 0, make_step(0, 1, 0, 9.0, 1'000'000'000, 1'000'000'000));
  append_step(run.path(), 1, 0, make_step(1, 1, 0, 1.0, 500'000'000, 20'000'000'000));
  ProgressReader reader(run.path());
  reader.update();
  EXPECT_DOUBLE_EQ(*reader.progress().loss, 1.0);
  EXPECT_DOUBLE_EQ(*reader.progress().samples_per_s, 200);
}

TEST(ProgressReader, FastStepsTakeTimeInProportionToTheirNumber) {
  constexpr int64_t kSteps = 200'000, kStepNs = 25'000;  // all end within five seconds
  const TemporaryFolder run;
  start_spool(run.path(), 1, 0);
  std::string steps;
  for (int64_t i = 0; i < kSteps; ++i) {
    record::StepRecord step = make_step(static_cast<uint64_t>(i), 1, 0, 2.0, kStepNs, (i + 1) * kStepNs);
    step.sequence = static_cast<uint64_t>(i);
    record::append_record(steps, step);
  }
  append(steps_path(run.path(), 1, 0), steps.data(), steps.size());
  ProgressReader reader(run.path());
  const std::clock_t before = std::clock();
  reader.update();
  const double processor_s = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_EQ(reader.progress().steps_done, kSteps);
  EXPECT_DOUBLE_EQ(*reader.progress().loss, 2.0);
  EXPECT_LT(processor_s, 2);
}

TEST(ProgressReader, GoesOnToTheNextSegment) {
  const TemporaryFolder run;
  start_spool(run.path(), 1, 0);
  append_step(run.path(), 1, 0, make_step(0, 25, 0, 2.0, 1'000'000, 25'000'000));
  append_event(run.path(), 1, 0, {{"event", "failure"}, {"kind", "comm_error"}});
  ProgressReader reader(run.path());
  reader.update();
  EXPECT_TRUE(reader.progress().failure);
  start_spool(run.path(), 2, 0);
  append_event(run.path(), 2, 0, {{"event", "begin"}, {"start_step", 20}, {"steps_per_epoch", 600}});
  reader.update();
  EXPECT_EQ(reader.progress().segment, 2);
  EXPECT_FALSE(reader.progress().failure);
  EXPECT_EQ(reader.progress().steps_done, 20);
}

TEST(ProgressReader, PassesByASegmentThatCouldNotStart) {
  const TemporaryFolder run;
  start_spool(run.path(), 1, 0);
  ProgressReader reader(run.path());
  reader.update();
  start_spool(run.path(), 3, 0);
  append_event(run.path(), 3, 0, {{"event", "begin"}, {"start_step", 20}, {"steps_per_epoch", 600}});
  reader.update();
  EXPECT_EQ(reader.progress().segment, 3);
  EXPECT_EQ(reader.progress().steps_done, 20);
}

TEST(ProgressReader, RefusesAnotherFormat) {
  const TemporaryFolder run;
  const std::string other(64, 'x');
  append(steps_path(run.path(), 1, 0), other.data(), other.size());
  ProgressReader reader(run.path());
  EXPECT_THROW(reader.update(), UserError);
}

}  // namespace
}  // namespace mlbench::report
