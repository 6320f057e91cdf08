#include "mlbench/spec/declaration.h"

#include <gmock/gmock.h>

#include "mlbench/base/test_error.h"

namespace mlbench::spec {
namespace {

using testing::HasSubstr;

RunSpec declared_run(const std::vector<Override>& overrides = {}) {
  RunSpec run;
  run.limits.light = true;
  set_command(run, {{"python3", "train.py"}, "/work", {"A=1"}});
  declare(run, find_task("fashion-mnist", "", "", overrides), overrides, "mnist");
  return run;
}

TEST(Declaration, IsOfATaskAndOfACommand) {
  for (const auto& overrides : {std::vector<Override>{}, {{"goal.target", "95"}}}) {
    const RunSpec run = declared_run(overrides);
    EXPECT_TRUE(declares_task(run));
    EXPECT_FALSE(trains(run));
    EXPECT_FALSE(uses_worker(run));
    EXPECT_EQ(run.division, "custom");
    EXPECT_EQ(run.task.task.name, "fashion-mnist");
    EXPECT_EQ(run.data_name, "mnist");
    EXPECT_EQ(run_spec_from_json(to_json(run)), run);
  }
}

TEST(Declaration, IsMissingFromOtherRuns) {
  RunSpec command;
  set_command(command, {{"python3", "train.py"}});
  EXPECT_FALSE(declares_task(command));
  EXPECT_FALSE(declares_task(run_spec_from_json(to_json(command))));
  RunSpec training;
  set_task(training, find_task("fashion-mnist", "", "", {}), {});
  EXPECT_FALSE(declares_task(training));
}

TEST(Declaration, ThatWasChangedAfterTheRunWasMadeIsRefused) {
  Json json = to_json(declared_run());
  json["task"]["canonical"]["goal"]["target"] = 86;
  EXPECT_THAT(error_of([&] { run_spec_from_json(json); }), HasSubstr("changed after the run was made"));
}

}  // namespace
}  // namespace mlbench::spec
