#include "mlbench/report/study/comparison.h"

#include <gmock/gmock.h>

#include <set>

#include "mlbench/base/files.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/record/record_fields.h"
#include "mlbench/report/draw/charts.h"
#include "mlbench/report/study/scaling.h"
#include "mlbench/report/study/significance.h"
#include "mlbench/report/study/study.h"
#include "mlbench/report/study/test_comparisons.h"
#include "mlbench/report/summary.h"
#include "mlbench/spec/algorithm.h"

namespace mlbench::report {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> names_of(const Keys& keys) {
  std::vector<std::string> names;
  for (const ComparisonKey* key : keys) names.emplace_back(key->name);
  return names;
}

std::vector<std::string> differences(const record::Record& a, const record::Record& b) {
  return names_of(Conditions(a).differences(Conditions(b)));
}

std::vector<Study> studies_of(const std::vector<record::Record>& records, const std::vector<std::string>& lines = {}) {
  std::vector<MeasuredRun> runs;
  for (const record::Record& record : records) runs.push_back({record, {}, ""});
  std::vector<std::string> notes;
  return make_studies(runs, {1, BilledClock::kTrain, lines}, notes);
}

TEST(Comparison, EveryKeyIsTried) {
  std::set<std::string> tried = {"workers"};  // the tests of speed-ups try this key
  for (const Change& change : changes_of_one_key()) tried.insert(change.key);
  for (const ComparisonKey& key : comparison_keys()) EXPECT_TRUE(tried.contains(std::string(key.name))) << key.name;
}

TEST(Comparison, EveryOptionIsComparedByAKeyOrSaysWhyNot) {
  std::set<std::string_view> keys;
  for (const ComparisonKey& key : comparison_keys()) keys.insert(key.name);
  for (const spec::RunOption& option : catalog::run_options()) {
    EXPECT_NE(option.compared.empty(), option.not_compared.empty()) << option.name;
    EXPECT_TRUE(option.compared.empty() || keys.contains(option.compared)) << option.name;
  }
}

// The runs have the same numbers of workers and hosts, but 2 + 2 ranks on them, and 3 + 1.
TEST(Comparison, HowRanksAreSpreadIsADifference) {
  const auto spread = [](const std::vector<const char*>& hosts) {
    RecordJson record = told_record("a-4", 4);
    record["hosts"].push_back(record["hosts"][0]);
    for (size_t rank = 0; rank < hosts.size(); ++rank) record["placement"][rank]["host"] = hosts[rank];
    return record;
  };
  const RecordJson even = spread({"n1", "n1", "n2", "n2"}), uneven = spread({"n1", "n1", "n1", "n2"});
  EXPECT_THAT(differences(even, uneven), ElementsAre("hosts"));
  EXPECT_THAT(differences(even, spread({"n2", "n1", "n2", "n1"})), IsEmpty());
  EXPECT_EQ(Conditions(uneven).value(key_named("hosts")), "2 hosts with 3 + 1 ranks");
}

// One run asked for the partition by its name; Slurm gave it to the other, which had not asked for one.
TEST(Comparison, APartitionIsTheOneThatSlurmGave) {
  RecordJson asked = told_record("a-1", 1), given = asked;
  asked["engine"]["slurm"] = {"exclusive", "partition=short"};
  given["engine"]["slurm"] = {"exclusive"};
  asked["allocation"]["partition"] = given["allocation"]["partition"] = "short";
  EXPECT_THAT(differences(asked, given), IsEmpty());
  EXPECT_EQ(Conditions(given).value(key_named("slurm")), "slurm exclusive partition=short");
}

TEST(Comparison, RecordsDifferInThatKeyAlone) {
  const RecordJson record = told_record("a-1", 1);
  for (const Change& change : changes_of_one_key()) {
    EXPECT_THAT(differences(record, with(record, change)), ElementsAre(change.key)) << change.what;
  }
  for (const Change& change : changes_of_no_key()) {
    EXPECT_THAT(differences(record, with(record, change)), IsEmpty()) << change.what;
  }
}

// Official variants of a task may have algorithms of their own.
TEST(Comparison, VariantsOfOneProblemDifferInTheirAlgorithmAlone) {
  RecordJson sgd = told_record("a-1", 1), lars = told_record("b-1", 1);
  sgd["problem_hash"] = lars["problem_hash"] = std::string(64, 'e');
  sgd["variant"] = "v1-20";
  lars["variant"] = "v1-20-lars";
  lars["task_hash"] = std::string(64, 'f');
  lars["algorithm"]["rule"] = "lars";
  EXPECT_THAT(differences(sgd, lars), ElementsAre("algorithm"));
  lars["problem_hash"] = std::string(64, 'd');
  EXPECT_THAT(differences(sgd, lars), ElementsAre("task", "algorithm"));
}

// A record of an earlier program tells its algorithm by the hash of its task, and by its overrides.
TEST(Comparison, EarlierRecordsHaveTheAlgorithmOfTheirTask) {
  const auto task = spec::find_task("1a", "2018", "v1-20", {});
  RecordJson earlier = told_record("a-1", 1);
  earlier.erase("algorithm");
  earlier["task_hash"] = task.hash;
  RecordJson now = earlier;
  now["algorithm"] = record::written(record::algorithm_of(task, {}));
  now["problem_hash"] = spec::problem_hash_of(task.canonical);
  EXPECT_THAT(differences(earlier, now), IsEmpty());
  earlier["overrides"] = given_override("optimizer.lr", "1");
  earlier["division"] = "open";
  EXPECT_THAT(differences(earlier, now), ElementsAre("algorithm"));
  EXPECT_THAT(Conditions(earlier).value(key_named("algorithm")),
              AllOf(HasSubstr("sgd, dampening=0.0, momentum=0.9, nesterov=true"), HasSubstr("lr=1, multistep ")));
}

TEST(Comparison, SaysHowRatesWereChosenOfAlgorithmsThatDiffer) {
  RecordJson sgd = told_record("a-1", 1), lars = told_record("b-1", 1);
  const auto notes = [&] { return significance_of({{"a-1", {sgd}}, {"b-1", {lars}}}, {}).notes; };
  lars["algorithm"]["rule"] = "lars";
  EXPECT_THAT(notes(), IsEmpty()) << "each has the rates of its task";
  lars["algorithm"]["rates"] = "task_for_another";
  EXPECT_THAT(notes(), ElementsAre("learning rates were not tuned alike: b-1 the task's, made for another algorithm; "
                                   "a-1 the task's"));
}

// The record is as build_record() makes it: what the script chooses is not told.
RecordJson declared_record(const std::string& name, const std::string& script) {
  RecordJson record = told_record(name, 1);
  record["custom"] = declared_custom(script);
  record["division"] = record["framework"] = "custom";
  record["algorithm"] = record["comm_stack"] = record["communication"] = nullptr;
  record["data"] = {{"name", "fashion-mnist"}, {"synthetic", false}};
  record["effective"] = {{"device", nullptr}};
  record["storage"] = {{"kind", "not known"}, {"endpoint", nullptr}};
  return record;
}

TEST(Comparison, ACommandThatDeclaresATaskDiffersFromItsRunsInTheCommandAlone) {
  const RecordJson task = told_record("a-1", 1), ours = declared_record("b-1", "ours.py");
  EXPECT_THAT(differences(task, ours), ElementsAre("command"));
  EXPECT_THAT(differences(ours, declared_record("b-1.2", "ours.py")), IsEmpty());
  EXPECT_THAT(differences(ours, declared_record("c-1", "theirs.py")), ElementsAre("command"));
  RecordJson other = declared_record("d-1", "ours.py");
  other["goal"]["target"] = 80;
  EXPECT_THAT(differences(ours, other), ElementsAre("goal"));
  EXPECT_THAT(differences(task, other), ElementsAre("command", "goal"));
  other = declared_record("d-1", "ours.py");
  other["data"]["name"] = "mnist";
  EXPECT_THAT(differences(task, other), ElementsAre("command", "data"));
  RecordJson made = task;
  made["data"]["synthetic"] = true;
  EXPECT_THAT(differences(made, ours), ElementsAre("command", "data"));
  RecordJson undeclared = ours;
  undeclared["custom"].erase("declared");
  undeclared["task"] = "custom";
  EXPECT_THAT(differences(task, undeclared), Contains("task"));
}

// Each comparison says so.
TEST(Comparison, ACommandThatVariesGetsANote) {
  const RecordJson task = told_record("a-1", 1), ours = declared_record("b-1", "ours.py");
  const auto note = HasSubstr(
      "the command varies, and with it all that a command chooses: mlbench-worker (a-1), python3 ours.py (b-1)");
  const Significance compared = significance_of({{"a-1", {task}}, {"b-1", {ours}}}, {});
  EXPECT_THAT(compared.notes, Contains(note));
  EXPECT_EQ(compared.runs.at(1).no_ratio, "");
  EXPECT_THAT(compared.runs.at(1).differs_in, ElementsAre("command"));
  const std::vector<Study> studies = studies_of({task, ours});
  ASSERT_EQ(studies.size(), 1U);
  EXPECT_THAT(studies[0].notes, Contains(note));
  EXPECT_THAT(studies[0].lines_differ_in, ElementsAre("command"));
}

// Report 1: mlbench compare.
TEST(Comparison, CompareGivesTheRatiosThatAreAllowed) {
  const RecordJson record = told_record("a-1", 1);
  for (const Change& change : changes_of_one_key()) {
    const RecordJson other = with(told_record("b-1", 1), change);
    const Significance significance = significance_of({{"a-1", {record}}, {"b-1", {other}}}, {});
    const RepeatedFigures& second = significance.runs[1];
    EXPECT_THAT(second.differs_in, ElementsAre(change.key));
    EXPECT_EQ(second.rate_ratio.has_value(), ratio_allowed(change)) << change.what;
    EXPECT_EQ(second.no_ratio.empty(), ratio_allowed(change)) << change.what;
    if (!ratio_allowed(change)) {
      EXPECT_FALSE(second.time_ratio || second.value_ratio) << change.what;
      EXPECT_THAT(significance_text(significance),
                  AllOf(HasSubstr("b-1: no ratio: " + in_words({&key_named(change.key)})), Not(HasSubstr("Ratio to"))));
      EXPECT_FALSE(significance_of({{"a-1", {record}}, {"b-1", {other}}}, {{}, keys_to_vary()}).runs[1].rate_ratio)
          << "fixed keys cannot be varied: " << change.what;
    }
  }
}

TEST(Comparison, CompareVariesSeveralKeysOnlyWhenTheyAreNamed) {
  const RecordJson record = told_record("a-1", 1);
  RecordJson other = told_record("b-1", 1);
  other["framework"] = "native";
  other["threads_per_worker"] = 2;
  const auto compared = [&](const std::vector<std::string>& vary) {
    return significance_of({{"a-1", {record}}, {"b-1", {other}}}, {{}, vary});
  };
  EXPECT_THAT(compared({}).notes,
              ElementsAre("b-1: no ratio: framework and threads per worker differ; --vary framework,threads_per_worker "
                          "compares them all the same"));
  EXPECT_FALSE(compared({"framework"}).runs[1].rate_ratio);
  EXPECT_TRUE(compared({"threads_per_worker", "framework"}).runs[1].rate_ratio);
  EXPECT_THAT(significance_text(compared({"threads_per_worker", "framework"})),
              HasSubstr("framework, threads_per_worker\n"));
  other["workers"] = 4;
  EXPECT_FALSE(compared({"threads_per_worker", "framework"}).runs[1].rate_ratio);
  EXPECT_TRUE(compared({"threads_per_worker", "framework", "workers"}).runs[1].rate_ratio);
}

TEST(Comparison, RepeatsThatDifferInAKeyAreRunsOfTheirOwn) {
  const RecordJson record = told_record("a-1", 1);
  for (const Change& change : changes_of_one_key()) {
    const Significance significance = significance_of({{"a-1", {record, with(told_record("a-1.2", 1), change)}}}, {});
    ASSERT_EQ(significance.runs.size(), 2U) << change.what;
    EXPECT_EQ(significance.runs[1].name, "a-1.2");
    EXPECT_THAT(significance.notes, Contains(HasSubstr("a-1.2 is no repeat of a-1: other"))) << change.what;
  }
  for (const Change& change : changes_of_no_key()) {
    EXPECT_EQ(significance_of({{"a-1", {record, with(record, change)}}}, {}).runs.size(), 1U) << change.what;
  }
}

// Reports 2 and 3: the tables of mlbench charts, and what it draws.
TEST(Comparison, StudiesAndChartsHaveTheSpeedUpsThatAreAllowed) {
  std::vector<Change> changes = changes_of_one_key();
  for (const Change& change : changes_of_no_key()) changes.push_back(change);
  for (const Change& change : changes) {
    const std::vector<record::Record> records = {told_record("a-1", 1), with(told_record("a-2", 2), change)};
    std::vector<MeasuredRun> runs = {{records[0], {}, ""}, {records[1], {}, ""}};
    bool speed_up = false, shared_line = false, cost_ratio = false;
    for (const Study& study : studies_of(records)) {
      for (const StudyLine& line : study.lines) {
        for (const StudyPoint& point : line.points) {
          EXPECT_EQ(point.runs.size(), 1U) << change.what;
          speed_up = speed_up || point.speed_up.value_or(1) != 1;
          cost_ratio = cost_ratio || point.price_index.value_or(1) != 1;
        }
      }
      for (const Chart& chart : charts_of(study, runs, {})) {
        if (chart.x_label != "workers" || chart.kind == ChartKind::kStackedBars) continue;
        for (const ChartSeries& series : chart.series) {
          shared_line = shared_line || (!series.guide && series.points.size() > 1);
        }
      }
    }
    EXPECT_EQ(speed_up, speed_up_allowed(change)) << change.what;
    EXPECT_EQ(cost_ratio, speed_up_allowed(change)) << change.what;
    EXPECT_EQ(shared_line, speed_up_allowed(change)) << change.what;
  }
}

TEST(Comparison, StudiesNeverMergeWhatDiffers) {
  for (const Change& change : changes_of_one_key()) {
    if (change.key == "shared_host") continue;  // in no study
    std::set<std::string> names;
    size_t lines = 0;
    for (const Study& study : studies_of({told_record("a-1", 1), with(told_record("a-1.2", 1), change)})) {
      for (const StudyLine& line : study.lines) {
        ++lines;
        names.insert(study.title + line.name);
        for (const StudyPoint& point : line.points) EXPECT_EQ(point.runs.size(), 1U) << change.what;
      }
    }
    EXPECT_EQ(lines, 2U) << change.what;
    EXPECT_EQ(names.size(), 2U) << change.what << ": titles and lines say what differs";
  }
  for (const Change& change : changes_of_no_key()) {
    const auto studies = studies_of({told_record("a-1", 1), with(told_record("a-1.2", 1), change)});
    EXPECT_EQ(studies.at(0).lines.at(0).points.at(0).runs.size(), 2U) << change.what;
  }
}

// Report 4: the table after a command; REST /compare, which says the same, is tried in master's tests.
TEST(Comparison, ResultsHaveTheSpeedUpsThatAreAllowed) {
  std::vector<Change> changes = changes_of_one_key();
  for (const Change& change : changes_of_no_key()) changes.push_back(change);
  for (const Change& change : changes) {
    const std::vector<record::Record> records = {told_record("a-1", 1), with(told_record("a-2", 2), change)};
    const ScaledRuns scaled = scale_runs(records);
    EXPECT_EQ(scaled.runs[1].rate.has_value(), speed_up_allowed(change)) << change.what;
    EXPECT_EQ(scaled.runs[0].rate.has_value(), speed_up_allowed(change)) << change.what;
    EXPECT_EQ(scaled.runs[1].no_ratio.empty(), speed_up_allowed(change)) << change.what;
    EXPECT_EQ(scaled.baseline_workers, speed_up_allowed(change) ? 1 : 0) << change.what;
    if (!speed_up_allowed(change)) {
      EXPECT_FALSE(scaled.runs[1].to_goal) << change.what;
      EXPECT_THAT(results_table(records), AllOf(HasSubstr("a-2: no speed-up: " + in_words({&key_named(change.key)})),
                                                Not(HasSubstr("Scaling"))));
    }
  }
}

// A baseline is the median of repeats alone, and each run has that of its own kind.
TEST(Comparison, EachKindOfHostHasItsBaseline) {
  const Change other = {"hardware", "", [](Json& record) { record["hosts"][0]["cpu"] = "Intel Xeon"; }};
  const ScaledRuns scaled =
      scale_runs({told_record("a-1", 1), told_record("a-2", 2), with(told_record("b-1", 1), other),
                  with(told_record("b-4", 4), other), with(told_record("b-1.2", 1), other)});
  EXPECT_EQ(scaled.runs[1].baseline, "a-1");
  EXPECT_EQ(scaled.runs[3].baseline, "b-1, b-1.2");
  EXPECT_DOUBLE_EQ(scaled.runs[3].rate->speed_up, 4);
  EXPECT_EQ(scaled.baseline_workers, 0) << "there are two";
  EXPECT_THAT(results_table({told_record("a-1", 1), told_record("a-2", 2), with(told_record("b-1", 1), other),
                             with(told_record("b-2", 2), other)}),
              AllOf(HasSubstr("against\n"), HasSubstr("b-1\n")));
}

TEST(Comparison, HostsFollowFromWorkersButNotWithinOne) {
  const Change two = {"hosts", "", [](Json& record) { record["hosts"].push_back(record["hosts"][0]); }};
  const auto studies = studies_of({told_record("a-1", 1), told_record("a-2", 2), with(told_record("b-2", 2), two),
                                   with(told_record("b-4", 4), two)});
  ASSERT_EQ(studies.at(0).lines.size(), 2U);
  EXPECT_EQ(studies[0].lines[0].name, "1 host");
  EXPECT_EQ(studies[0].lines[1].name, "2 hosts");
  EXPECT_EQ(studies[0].lines[1].points[1].speed_up, 2);
  EXPECT_THAT(studies[0].lines_differ_in, ElementsAre("hosts"));
}

TEST(Comparison, AFormerNameOfTheFrameworkIsTheSameFramework) {
  RecordJson now = told_record("a-1", 1), before = told_record("b-1", 1);
  now["framework"] = "native";
  before["framework"] = "onednn";
  EXPECT_TRUE(significance_of({{"a-1", {now}}, {"b-1", {before}}}, {}).runs[1].rate_ratio);
  EXPECT_EQ(studies_of({now, before}).at(0).lines.size(), 1U);
}

TEST(Comparison, LinesByWhatIsChosen) {
  RecordJson fast = told_record("b-1", 1), other = told_record("c-1", 1);
  fast["hosts"][0]["cpu"] = "Intel Xeon";
  other["framework"] = "native";
  const auto all = studies_of({told_record("a-1", 1), fast, other});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].lines.size(), 3U);
  EXPECT_THAT(all[0].notes, Contains(HasSubstr("The lines differ in framework and hardware")));
  const auto by_hardware = studies_of({told_record("a-1", 1), fast, other}, {"hardware"});
  ASSERT_EQ(by_hardware.size(), 2U) << "one of each framework";
  EXPECT_EQ(by_hardware[0].lines.size() + by_hardware[1].lines.size(), 3U);
  EXPECT_THAT(by_hardware[0].title + by_hardware[1].title, AllOf(HasSubstr("(torch)"), HasSubstr("(native)")));
  for (const Study& study : by_hardware) EXPECT_THAT(study.lines_differ_in, Each("hardware"));
}

// Records of other programs hold less.
TEST(Comparison, WhatIsNotToldEqualsOnlyWhatIsNotTold) {
  const RecordJson told = told_record("a-1", 1), old = make_record("a-2", 2, 30, 6000, true);
  EXPECT_THAT(differences(old, make_record("a-2.2", 2, 31, 6000, true)), IsEmpty());
  EXPECT_THAT(differences(told, old),
              ElementsAre("task", "algorithm", "data", "device", "precision", "workers", "inter_op_threads",
                          "shared_host", "hardware", "network", "storage", "checkpoints"));
  EXPECT_TRUE(differences(record::Record(), record::Record()).empty());
  EXPECT_TRUE(scale_runs({make_record("a-1", 1, 60, 3000, true), old}).runs[1].to_goal);
}

// A run that is open for its number of workers: its division is that of no closed run, whatever its precision.
TEST(Comparison, OpenForThePrecisionIsNoOtherDivision) {
  RecordJson open = told_record("a-1", 1), half = open;
  open["division"] = half["division"] = "open";
  half["overrides"] = given_override("precision", "bf16");
  half["effective"]["precision"] = "bf16";
  EXPECT_THAT(differences(open, half), ElementsAre("precision"));
  EXPECT_THAT(differences(told_record("a-1", 1), half), ElementsAre("precision"));
  EXPECT_THAT(differences(told_record("a-1", 1), open), ElementsAre("division"));
  half["overrides"].push_back(given_override("batch_size", "1")[0]);
  EXPECT_THAT(differences(open, half), ElementsAre("overrides", "precision"));
}

TEST(Comparison, OpenForHowRanksCommunicateIsNoOtherDivision) {
  RecordJson cast = told_record("a-1", 1);
  cast["division"] = "open";
  cast["comm_stack"] = "cast[float16](gloo)";
  cast["communication"] = {{"wire_dtype", "float16"}, {"netem", nullptr}};
  EXPECT_THAT(differences(told_record("a-1", 1), cast), ElementsAre("backend"));
}

TEST(Comparison, KindsOfHostsAreASet) {
  RecordJson mixed = told_record("a-1", 1), twice = mixed;
  mixed["hosts"].push_back(mixed["hosts"][0]);
  mixed["hosts"][1]["cpu"] = "Intel Xeon";
  EXPECT_THAT(differences(told_record("a-1", 1), mixed), ElementsAre("hosts", "hardware"));
  twice["hosts"] = {mixed["hosts"][1], mixed["hosts"][0]};
  EXPECT_THAT(differences(mixed, twice), IsEmpty());
}

TEST(Comparison, OtherVersionsGetANote) {
  RecordJson second = told_record("a-2", 2);
  second["environment"]["git_describe"] = "def";
  const auto note = HasSubstr("different versions of the program: 1.0.0 abc (a-1), 1.0.0 def (a-2)");
  EXPECT_THAT(scale_runs({told_record("a-1", 1), second}).notes, ElementsAre(note));
  EXPECT_THAT(studies_of({told_record("a-1", 1), second}).at(0).notes, Contains(note));
  EXPECT_THAT(significance_of({{"a-1", {told_record("a-1", 1)}}, {"a-2", {second}}}, {}).notes, Contains(note));
}

// Each row of the table in docs/rules.md begins with a key's name and says what it is to a ratio.
TEST(Comparison, TheRulesNameEveryKey) {
  const std::string page = read_file(MLBENCH_RULES_PAGE);
  for (const ComparisonKey& key : comparison_keys()) {
    const char* what = key.kind == KeyKind::kFixed            ? "must be equal"
                       : key.kind == KeyKind::kWorkers        ? "what a speed-up varies"
                       : key.kind == KeyKind::kFollowsWorkers ? "follows from `workers`"
                                                              : "may vary";
    EXPECT_THAT(page, HasSubstr("\n| `" + std::string(key.name) + "` | " + what + " |"));
  }
}

}  // namespace
}  // namespace mlbench::report
