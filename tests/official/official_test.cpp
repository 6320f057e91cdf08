// Attempts to pass as an official run, or to meet a goal early: each is refused, or says what it is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/plan/plan.h"
#include "mlbench/record/build_record.h"
#include "mlbench/report/figures.h"
#include "mlbench/spec/task_hash.h"
#include "mlbench/train/train_test.h"

namespace mlbench {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::string task_file(const std::string& name) {
  for (const spec::TaskSource& source : spec::embedded_tasks()) {
    if (source.name == name) return std::string(source.text);
  }
  throw InternalError("no task file " + name);
}

void replace(std::string& text, const std::string& piece, const std::string& by) {
  const size_t at = text.find(piece);
  MLBENCH_CHECK(at != std::string::npos, piece);
  text.replace(at, piece.size(), by);
}

bool is_division(const std::string& outcome) {
  return outcome == "closed" || outcome == "open" || outcome == "own" || outcome == "throughput";
}

// ---- what is asked for ----------------------------------------------------------------------------------------------

// Runs of fashion-mnist, or of the file whose text is given.
struct Asked {
  spec::RunOptions options;
  std::string text;  // "": the task that is built in

  void edit(const std::string& piece, const std::string& by) {
    if (text.empty()) text = task_file("fashion-mnist.toml");
    replace(text, piece, by);
  }
  void set(const std::string& override) { options.overrides.push_back(override); }
};

struct Attempt {
  const char* what;
  std::function<void(Asked&)> make;
  const char* outcome;  // the division, or a part of the refusal
};

const std::vector<Attempt>& attempts() {
  static const std::vector<Attempt> kAttempts = {
      // Copies of a task file.
      {"an easier goal", [](Asked& asked) { asked.edit("target = 91.5", "target = 88"); }, "own"},
      {"an easier light goal",
       [](Asked& asked) {
         asked.edit("light_target = 85", "light_target = 12");
         asked.options.light = true;
       },
       "own"},
      {"another learning rate", [](Asked& asked) { asked.edit("lr = 0.05", "lr = 0.06"); }, "own"},
      {"more epochs", [](Asked& asked) { asked.edit("epochs = 40", "epochs = 80"); }, "own"},
      {"a smaller batch", [](Asked& asked) { asked.edit("batch_size = 100", "batch_size = 50"); }, "own"},
      {"another title", [](Asked& asked) { asked.edit("CNN on Fashion", "A CNN on Fashion"); }, "own"},
      {"the name of another task", [](Asked& asked) { asked.edit("\"fashion-mnist\"", "\"mnist\""); }, "own"},
      {"a rule set of its own", [](Asked& asked) { asked.edit("workers =", "rules = \"2021\"\nworkers ="); }, "own"},
      {"more evaluations", [](Asked& asked) { asked.edit("every_samples = 15000", "every_samples = 100"); }, "own"},
      {"more worker counts",
       [](Asked& asked) {
         asked.edit("workers = [1, 2,", "workers = [1, 2, 3,");
         asked.options.workers = {"3"};
       },
       "own"},
      {"the goal on training data", [](Asked& asked) { asked.edit("split = \"test\"", "split = \"train\""); }, "own"},
      {"a variant of its own",
       [](Asked& asked) {
         asked.edit("workers =", "variants = [\"usual\", \"fast\"]\nworkers =");
         asked.text += "\n[variant.fast.optimizer]\nlr = 0.1\n";
         asked.options.variant = "fast";
       },
       "own"},
      {"a changed variant under its official name",
       [](Asked& asked) {
         asked.text = task_file("1a-2018.toml");
         replace(asked.text, "[variant.v1-32.model]", "[variant.v1-32.goal]\ntarget = 75\n[variant.v1-32.model]");
         asked.options.variant = "v1-32";
         asked.options.workers = {"2"};
       },
       "own"},
      {"another schedule", [](Asked& asked) { asked.edit("warmup_epochs = 5", "warmup_epochs = 1"); }, "own"},
      {"another data set",
       [](Asked& asked) { asked.edit("[data]\nname = \"fashion-mnist\"", "[data]\nname = \"mnist\""); }, "own"},
      {"one more option of the optimizer",
       [](Asked& asked) { asked.edit("momentum = 0.9", "momentum = 0.9\ndampening = 0.1"); }, "own"},
      {"a time of its own",
       [](Asked& asked) { asked.text = task_file("fashion-mnist.toml") + "[limits]\nmax_time_s = 60\n"; }, "own"},
      {"a copy with an override",
       [](Asked& asked) {
         asked.edit("lr = 0.05", "lr = 0.06");
         asked.set("optimizer.lr=0.05");
       },
       "own"},
      // These are the same task, however it is written.
      {"other comments and another order",
       [](Asked& asked) {
         asked.edit("target = 91.5\nlight_target = 85", "light_target = 85.0  # easy\ntarget = 91.5");
       },
       "closed"},
      // Overrides.
      {"--set of a rate", [](Asked& asked) { asked.set("optimizer.lr=0.1"); }, "open"},
      {"--set of the rate that it has", [](Asked& asked) { asked.set("optimizer.lr=0.05"); }, "open"},
      {"--set of the goal", [](Asked& asked) { asked.set("goal.target=86"); }, "open"},
      {"--set of the cadence", [](Asked& asked) { asked.set("evaluation.every_samples=100"); }, "open"},
      {"--set of the precision", [](Asked& asked) { asked.set("precision=bf16"); }, "open"},
      {"--set of the model's version",
       [](Asked& asked) {
         asked.options.task = "1a";
         asked.set("model.version=v2-mlbench");
       },
       "open"},
      {"--set behind one that leaves it closed",
       [](Asked& asked) {
         asked.set("optimizer.bucket_mb=25");
         asked.set("epochs=80");
       },
       "open"},
      {"--set of the division of the gradient", [](Asked& asked) { asked.set("optimizer.bucket_mb=25"); }, "closed"},
      {"--set of the worker counts", [](Asked& asked) { asked.set("workers=[3]"); }, "cannot be set"},
      {"--set of the name", [](Asked& asked) { asked.set("name=mnist"); }, "cannot be set"},
      {"--set of the time", [](Asked& asked) { asked.set("limits.max_time_s=60"); }, "cannot be set"},
      {"--set of a metric that nobody has", [](Asked& asked) { asked.set(R"(evaluation.metrics=["Prec@1","easy"])"); },
       "unknown metric 'easy'"},
      // Choices.
      {"a number of workers that is not on the list", [](Asked& asked) { asked.options.workers = {"3"}; }, "open"},
      {"today's model as a variant",
       [](Asked& asked) {
         asked.options.task = "1a";
         asked.options.variant = "v2-mlbench-20";
       },
       "unknown variant 'v2-mlbench-20'"},
      {"a variant of other rules",
       [](Asked& asked) {
         asked.options.task = "1a";
         asked.options.variant = "v2-56";
       },
       "unknown variant 'v2-56'"},
      {"data of another dimension",
       [](Asked& asked) {
         asked.options.task = "2a";
         asked.options.data = "madelon";
       },
       "open"},
      {"a fixed batch",
       [](Asked& asked) {
         asked.options.fixed_batch = true;
         asked.options.max_steps = "5";
       },
       "throughput"},
      {"a fixed batch of a copy",
       [](Asked& asked) {
         asked.edit("lr = 0.05", "lr = 0.06");
         asked.options.fixed_batch = true;
         asked.options.max_steps = "5";
       },
       "throughput"},
      {"an emulated step", [](Asked& asked) { asked.options.compute = "emulated=150ms"; }, "throughput"},
      {"a fixed batch with a goal",
       [](Asked& asked) {
         asked.options.fixed_batch = asked.options.light = true;
         asked.options.max_steps = "5";
       },
       "has no goal"},
      {"a time that the rules do not name", [](Asked& asked) { asked.options.max_time = "official"; }, "names no time"},
      // Limits leave a run as it is, and are in its record.
      {"all limits at once",
       [](Asked& asked) {
         asked.options.light = asked.options.to_the_end = true;
         asked.options.max_steps = "5";
         asked.options.max_epochs = "0.5";
         asked.options.max_time = "1s";
       },
       "closed"},
      {"a goal on training data that the rules have",
       [](Asked& asked) {
         asked.options.task = "2a";
         asked.options.rules = "2018";
         asked.options.variant = "train-goal";
       },
       "closed"},
  };
  return kAttempts;
}

class Official : public testing::Test {
 protected:
  Official() {
    facts_.home = folder_.path();
    facts_.cores = 8;
    const auto table = [](const char* name) { return Json::array({{{"name", name}, {"available", true}}}); };
    facts_.catalog = {{"frameworks", table("null")}, {"backends", table("gloo")}};
  }

  spec::RunSpec plan(const std::function<void(Asked&)>& make) const {
    Asked asked;
    asked.options.name = "a";
    asked.options.workers = {"1"};
    asked.options.task = "fashion-mnist";
    asked.options.synthetic = true;
    make(asked);
    if (!asked.text.empty()) {
      asked.options.task = "copy.toml";
      asked.options.task_text = asked.text;
    }
    spec::RunSpec run = plan::plan_runs(asked.options, facts_).front();
    run.created_at = "2026-01-31T12:00:00.000000Z";
    return run;
  }

  TemporaryFolder folder_;
  plan::PlanFacts facts_;
};

TEST_F(Official, WhatIsAskedForIsRefusedOrLabelled) {
  EXPECT_GE(attempts().size(), 30U);
  for (const Attempt& attempt : attempts()) {
    SCOPED_TRACE(attempt.what);
    try {
      const spec::RunSpec run = plan(attempt.make);
      EXPECT_EQ(run.division, attempt.outcome);
      EXPECT_EQ(spec::is_official(run.task.hash),
                run.division == "closed" || run.division == "open" ||
                    (run.division == "throughput" && run.task.task.optimizer.lr == 0.05));
      // In the file, in the record, in every table.
      EXPECT_EQ(spec::run_spec_from_json(Json::parse(spec::to_json(run).dump())), run);
      const record::Record made = record::build_record(run, {});
      const Json record = to_json(made);
      EXPECT_EQ(record["division"], run.division);
      const auto labels = report::figures_of(made).labels;
      EXPECT_THAT(labels, Contains("synthetic"));
      const std::string label = run.division == "own"          ? "own task"
                                : run.division == "throughput" ? "throughput only"
                                                               : "open";
      if (run.division == "closed") {
        EXPECT_THAT(labels, Not(Contains("open")));
      } else {
        EXPECT_THAT(labels, Contains(label));
      }
      if (spec::measures_throughput(run)) {
        EXPECT_EQ(record["goal"], nullptr);
      }
      EXPECT_EQ(record["limits"]["light"], run.limits.light);
      EXPECT_EQ(record["limits"]["to_the_end"], run.limits.to_the_end);
    } catch (const UserError& error) {
      EXPECT_FALSE(is_division(attempt.outcome)) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(attempt.outcome));
    }
  }
}

// ---- the run's file, edited -----------------------------------------------------------------------------------------

TEST_F(Official, AnEditedFileIsRefusedOrLabelled) {
  const auto closed = [](Asked&) {};
  const auto open = [](Asked& asked) { asked.set("goal.target=86"); };
  const auto own = [](Asked& asked) { asked.edit("target = 91.5", "target = 86"); };
  const std::string official = plan(closed).task.hash;
  const struct {
    const char* what;
    std::function<void(Asked&)> made;
    const char* pointer;
    Json value;
    const char* outcome;
  } edits[] = {
      {"an easier goal", closed, "/task/canonical/goal/target", 86, "task.hash is"},
      {"an easier light goal", closed, "/task/canonical/goal/light_target", 12, "task.hash is"},
      {"more evaluations", closed, "/task/canonical/evaluation/every_samples", 100, "task.hash is"},
      {"more worker counts", closed, "/task/canonical/workers", {1, 2, 3}, "task.hash is"},
      {"another precision", closed, "/precision", "bf16", "precision is bf16"},
      {"the overrides taken out", open, "/overrides", Json::array(), "task.hash is"},
      {"the division of a run with overrides", open, "/division", "closed", "open"},
      {"and its mark", open, "/task/open", false, "open"},
      {"the division of one's own task", own, "/division", "closed", "own"},
      {"its hash", own, "/task/hash", official, "task.hash is"},
      {"a number of workers that is not on the list", closed, "/workers", 3, "open"},
      {"a fixed batch", closed, "/fixed_batch", true, "throughput"},
      {"an emulated step", closed, "/emulated_step_s", 0.15, "throughput"},
  };
  for (const auto& edit : edits) {
    SCOPED_TRACE(edit.what);
    Json file = spec::to_json(plan(edit.made));
    file[Json::json_pointer(edit.pointer)] = edit.value;
    try {
      EXPECT_EQ(spec::run_spec_from_json(file).division, edit.outcome);
    } catch (const UserError& error) {
      EXPECT_FALSE(is_division(edit.outcome)) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(edit.outcome));
    }
  }
}

// ---- the goal, early ------------------------------------------------------------------------------------------------

// Epochs of 3 steps, each evaluated at its end; after s steps the first s of 6 test samples are right.
struct Early {
  const char* what;
  std::function<void(spec::RunSpec&)> limit;
  bool reached;
  const char* reason;
};

const Early kEarly[] = {
    {"--max-steps", [](spec::RunSpec& run) { run.limits.max_steps = 2; }, false, "max_steps"},
    {"--max-steps behind an evaluation",
     [](spec::RunSpec& run) {
       run.task.task.goal.target = run.workers == 1 ? 60 : 101;  // of 50 and 67, of 100 and 100
       run.limits.max_steps = 4;
     },
     false, "max_steps"},
    {"--max-epochs", [](spec::RunSpec& run) { run.limits.max_epochs = 0.5; }, false, "max_epochs"},
    {"--max-epochs, training data",
     [](spec::RunSpec& run) {
       run.task.task.goal.split = "train";
       run.task.task.goal.target = 1;
       run.limits.max_epochs = 0.9;
       run.task.task.epochs = 0.6;
     },
     false, "epochs"},
    {"--max-time", [](spec::RunSpec& run) { run.limits.max_time_s = 0.1; }, false, "max_time"},
    {"--light with a limit",
     [](spec::RunSpec& run) {
       run.limits.light = true;
       run.limits.max_steps = 1;
       run.task.task.goal.light_target = 10;
     },
     false, "max_steps"},
    {"--to-the-end with a limit",
     [](spec::RunSpec& run) {
       run.limits.to_the_end = true;
       run.limits.max_steps = 2;
     },
     false, "max_steps"},
    {"another seed",
     [](spec::RunSpec& run) {
       run.seed = 43;
       run.repeat = 2;
       run.limits.max_steps = 2;
     },
     false, "max_steps"},
    {"a checkpoint at each step",
     [](spec::RunSpec& run) {
       run.checkpoint.every_steps = 1;
       run.limits.max_steps = 2;
     },
     false, "max_steps"},
    {"the end of a task between its evaluations", [](spec::RunSpec& run) { run.task.task.epochs = 0.5; }, false,
     "epochs"},
    {"a limit where an evaluation is due", [](spec::RunSpec& run) { run.limits.max_steps = 3; }, true, "goal"},
    {"an epoch as the limit", [](spec::RunSpec& run) { run.limits.max_epochs = 1; }, true, "goal"},
    {"time that is up at an evaluation", [](spec::RunSpec& run) { run.limits.max_time_s = 0.25; }, true, "goal"},
    {"past the goal", [](spec::RunSpec& run) { run.limits.to_the_end = true; }, true, "epochs"},
};

Json record_of(const train::test::TestRun& test, int64_t segments = 1) {
  record::RunProgress progress;
  progress.state = record::RunState::kFinished;
  for (int64_t index = 1; index <= segments; ++index) {
    record::Segment info;
    info.index = index;
    info.exit_codes.emplace_back(0);
    progress.segments.push_back(info);
  }
  spec::RunSpec run = test.run;
  run.task.canonical = spec::to_json(run.task.task);
  return record::to_json(record::build_record(run, progress));
}

TEST(Goal, IsMetAtTheTasksOwnCadenceAlone) {
  for (const Early& early : kEarly) {
    for (const int64_t workers : {1, 2}) {
      SCOPED_TRACE(std::string(early.what) + ", workers " + std::to_string(workers));
      train::test::TestRun test(workers);
      test.run.task.task.goal.target = 15;  // any evaluation has as much
      early.limit(test.run);
      test.start();
      const Json record = record_of(test);
      EXPECT_EQ(record["goal"]["reached"], early.reached) << record["evaluations"];
      EXPECT_EQ(record["stop_reason"], early.reason);
      ASSERT_FALSE(record["evaluations"].empty());
      for (const Json& one : record["evaluations"])
        EXPECT_EQ(one["cadence"], one["step"].get<int64_t>() % 3 == 0) << one;
      if (test.run.task.task.goal.split == "test") {
        EXPECT_GE(record["goal"]["best"]["value"], 15);
      }
      if (early.reached) {
        EXPECT_EQ(record["goal"]["step"], 3);
      }
    }
  }
}

// From each checkpoint with a limit one step later: every step is evaluated, and only those count that are due.
TEST(Goal, IsNotMetByResumingFromLimitToLimit) {
  train::test::TestRun test;
  test.run.task.task.goal.target = 15;
  test.run.limits.to_the_end = true;  // the goal of step 3 must not stop it
  test.run.limits.max_steps = 1;
  test.start();
  for (int64_t segment = 2; segment <= 5; ++segment) {
    test.run.limits.max_steps = segment;
    test.start({.segment = segment, .resume_step = segment - 1});
    const Json record = record_of(test, segment);
    EXPECT_EQ(record["goal"]["reached"], segment >= 3) << segment;
    EXPECT_EQ(record["evaluations"].size(), static_cast<size_t>(segment));
  }
  const Json goal = record_of(test, 5)["goal"];
  EXPECT_EQ(goal["step"], 3);
  EXPECT_EQ(goal["value"], 50);
  EXPECT_NEAR(goal["best"]["value"].get<double>(), 500 / 6.0, 1e-9);
}

}  // namespace
}  // namespace mlbench
