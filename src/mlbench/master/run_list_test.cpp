#include "mlbench/master/run_list.h"

#include <gmock/gmock.h>

#include "mlbench/base/run_folder.h"
#include "mlbench/master/http/openapi.h"
#include "mlbench/master/repeats.h"
#include "mlbench/master/test_runs.h"
#include "mlbench/master/tracked_runs.h"
#include "mlbench/report/study/significance.h"
#include "mlbench/report/study/test_comparisons.h"

namespace mlbench::master {
namespace {

using report::make_record;
using report::RecordJson;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

class RunListTest : public testing::Test {
 protected:
  Json list(const ListQuery& query) { return Json::parse(list_of_runs(runs_.index(), query)); }
  std::vector<std::string> names(const ListQuery& query) {
    std::vector<std::string> names;
    const Json page = list(query);
    for (const Json& run : page["runs"]) names.push_back(run["name"]);
    return names;
  }
  MadeRuns runs_;
};

RecordJson changed(RecordJson record, const std::string& key, const Json& value) {
  record[key] = value;
  return record;
}

TEST_F(RunListTest, FiltersByEachOfItsNames) {
  runs_.add(changed(make_record("a-1", 1, 60, 100, true), "state", "failed"));
  runs_.add(changed(make_record("b-2", 2, 60, 100, true), "task", "2a"));
  runs_.add(changed(make_record("c-4", 4, 60, 100, true), "executor", "slurm"), "", {"", "", {"deep", "x y"}});
  runs_.add(changed(make_record("d-8", 8, 60, 100, true), "division", "open"));
  EXPECT_THAT(names({}), ElementsAre("d-8", "c-4", "b-2", "a-1"));
  EXPECT_THAT(names({.filters = {{"state", "failed"}}}), ElementsAre("a-1"));
  EXPECT_THAT(names({.filters = {{"task", "2a"}}}), ElementsAre("b-2"));
  EXPECT_THAT(names({.filters = {{"workers", "4"}}}), ElementsAre("c-4"));
  EXPECT_THAT(names({.filters = {{"executor", "slurm"}}}), ElementsAre("c-4"));
  EXPECT_THAT(names({.filters = {{"tag", "x y"}}}), ElementsAre("c-4"));
  EXPECT_THAT(names({.filters = {{"tag", "x"}}}), IsEmpty());
  EXPECT_THAT(names({.filters = {{"label", "open"}}}), ElementsAre("d-8"));
  EXPECT_THAT(names({.filters = {{"state", "finished"}, {"workers", "2"}}}), ElementsAre("b-2"));
  const Json choices = list({.filters = {{"state", "failed"}}, .limit = 1})["choices"];
  EXPECT_EQ(choices["state"], (Json{{"failed", 1}, {"finished", 3}}));
  EXPECT_EQ(choices["workers"], (Json{{"1", 1}, {"2", 1}, {"4", 1}, {"8", 1}}));
  EXPECT_EQ(choices["tag"], (Json{{"deep", 1}, {"x y", 1}}));
  EXPECT_EQ(choices["label"]["open"], 1);
  for (const std::string& filter : list_filters()) EXPECT_TRUE(choices.contains(filter)) << filter;
}

TEST_F(RunListTest, SearchesForAllWordsInNamesNotesAndTexts) {
  runs_.add(make_record("first-1", 1, 60, 100, true), "", {"bigger batches", "80 %_", {}});
  runs_.add(changed(make_record("other-1", 1, 60, 100, true), "backend", "shm"));
  for (const char* text : {"BIGGER", "batches first", "80 %_", "gloo first"}) {
    EXPECT_THAT(names({.search = text}), ElementsAre("first-1")) << text;
  }
  EXPECT_THAT(names({.search = "shm"}), ElementsAre("other-1"));
  EXPECT_THAT(names({.search = "shm bigger"}), IsEmpty());
  EXPECT_THAT(names({.search = "%%"}), IsEmpty());
  EXPECT_THAT(names({.search = "' OR 1=1 --"}), IsEmpty());
}

TEST_F(RunListTest, OrdersByAFigureAndPages) {
  runs_.add(make_record("a-10", 4, 9, 100, true));
  runs_.add(changed(make_record("a-2", 2, 30, 100, true), "clocks", Json::object()));
  runs_.add(make_record("A-1", 1, 20, 300, false));
  EXPECT_THAT(names({.sort = "train_s", .descending = false}), ElementsAre("a-10", "A-1", "a-2"));
  EXPECT_THAT(names({.sort = "train_s", .descending = true}), ElementsAre("A-1", "a-10", "a-2"));
  EXPECT_THAT(names({.sort = "name", .descending = false}), ElementsAre("A-1", "a-2", "a-10"));
  EXPECT_THAT(names({.sort = "workers", .descending = false}), ElementsAre("A-1", "a-2", "a-10"));
  EXPECT_THAT(names({.sort = "task", .descending = true}), ElementsAre("A-1", "a-2", "a-10")) << "the newest first";
  EXPECT_THAT(names({.sort = "goal", .descending = false}).front(), "A-1") << "not reached";
  EXPECT_THAT(names({.sort = "id", .descending = false, .limit = 1, .offset = 1}), ElementsAre("a-2"));
  EXPECT_EQ(list({.limit = 1, .offset = 7})["total"], 3);
  for (const std::string& order : list_orders()) EXPECT_EQ(names({.sort = order}).size(), 3U) << order;
}

// The page draws its columns from these rows: each has a value in a summary, an order, and a form that is described.
TEST_F(RunListTest, ServesTheFiguresOfItsSummaries) {
  runs_.add(make_record("a-1", 1, 20, 300, false));
  const Json run = list({})["runs"][0];
  const Json document = Json::parse(openapi_document());
  const Json& row = document["components"]["schemas"]["Figures"]["properties"]["figures"]["items"]["properties"];
  std::vector<std::string> keys;
  const Json figures = list_figures();
  for (const Json& figure : figures) {
    const std::string& key = keys.emplace_back(figure["key"]);
    EXPECT_THAT(list_orders(), Contains(key));
    EXPECT_NE(figure["title"], "") << key;
    EXPECT_THAT(row["form"]["enum"], Contains(figure["form"])) << key;
    if (key == "experiment") continue;  // of runs of MLflow's clients
    EXPECT_TRUE(key.starts_with("goal_") ? run["goal"].contains(key.substr(5)) : run.contains(key)) << key;
  }
  for (const auto& [key, unused] : run.items()) {
    EXPECT_TRUE(document["components"]["schemas"]["RunSummary"]["properties"].contains(key))
        << "api/openapi.json: " << key;
  }
  EXPECT_THAT(keys, testing::IsSupersetOf({"state", "task", "goal", "goal_metric", "goal_target", "goal_value",
                                           "goal_epoch", "energy_joules", "created_at", "experiment"}));
  EXPECT_THAT(keys, Not(Contains("labels")));
}

TEST_F(RunListTest, RepeatsHaveTheMeansOfCompare) {
  std::vector<record::Record> records;
  for (const double seconds : {60.0, 66.0, 63.0}) {
    const std::string name = records.empty() ? "r-2" : fmt::format("r-2.{}", records.size() + 1);
    const RecordJson record = make_record(name, 2, seconds, 6000 / seconds, true);
    records.push_back(record);
    runs_.add(record, "r-2");
    if (records.size() == 1) runs_.add(make_record("s-2", 2, 61, 100, true));
  }
  const Json compared = report::to_json(report::significance_of({{"r-2", records}}, {}))["runs"][0];
  const Json answer = list({.together = true});
  EXPECT_EQ(answer["total"], 2);
  EXPECT_EQ(answer["count"], 4);
  EXPECT_THAT(names({.together = true}), ElementsAre("r-2", "r-2.2", "r-2.3", "s-2"));
  const Json page = list({});
  for (const Json& run : page["runs"]) {
    if (run["configuration"] != "r-2") continue;
    EXPECT_EQ(run["repeats"]["runs"], 3);
    EXPECT_EQ(run["repeats"]["reached"], compared["reached"]);
    EXPECT_EQ(run["repeats"]["time_to_goal_s"], compared["time_to_goal_s"]);
    EXPECT_EQ(run["repeats"]["samples_per_s"], compared["samples_per_s"]);
    EXPECT_THAT(run["repeats"]["time_to_goal_s"]["interval"], testing::SizeIs(2));
  }
  EXPECT_THAT(names({.sort = "time_to_goal_s", .descending = false, .together = true}),
              ElementsAre("s-2", "r-2", "r-2.2", "r-2.3"))
      << "by the mean";
  EXPECT_THAT(names({.search = "r-2.3", .together = true}), ElementsAre("r-2", "r-2.2", "r-2.3")) << "all of the row";
  EXPECT_THAT(names({.together = true, .limit = 1, .offset = 1}), ElementsAre("s-2"));
}

TEST_F(RunListTest, ARepeatThatMissedTheGoalLeavesNoTime) {
  runs_.add(make_record("r-1", 1, 60, 100, true), "r-1");
  runs_.add(make_record("r-1.2", 1, 60, 120, false), "r-1");
  runs_.add(make_record("s-1", 1, 99, 100, true));
  const Json repeats = list({.together = true})["runs"][1]["repeats"];
  EXPECT_EQ(repeats["reached"], 1);
  EXPECT_EQ(repeats["time_to_goal_s"]["mean"], nullptr);
  EXPECT_EQ(repeats["samples_per_s"]["values"], (Json{100.0, 120.0}));
  EXPECT_THAT(names({.sort = "time_to_goal_s", .descending = true, .together = true}),
              ElementsAre("s-1", "r-1", "r-1.2"));
}

TEST_F(RunListTest, DamagedRunsRepeatNone) {
  store::IndexedRun damaged = indexed_run({{"id", nullptr}, {"name", "x-1"}, {"state", "damaged"}}, "");
  runs_.add(make_record("x-1.2", 1, 60, 100, true), "x-1");
  runs_.index().put({damaged});
  const Json runs = list({.together = true})["runs"];
  EXPECT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[1]["configuration"], nullptr);
  EXPECT_EQ(list({.together = true})["total"], 2);
}

TEST_F(RunListTest, RunsOfMlflowsClientsStandAmongTheOthers) {
  const TemporaryFolder folder;
  store::Tracking tracking(folder.path());
  const auto experiment = tracking.create_experiment({0, "grid", {}, 0}).value();
  const std::string id(32, 'a');
  store::TrackedRun tracked;
  tracked.id = id;
  tracked.experiment = experiment;
  tracked.name = "first \"try\"";
  tracked.user = "eve";
  tracked.start_ms = 1'800'000'000'000;  // later than the others
  tracking.create_run(tracked);
  runs_.add(make_record("a-1", 1, 60, 100, true));
  runs_.add(make_record("b-1", 1, 60, 100, true));
  const auto list_all = [&](const ListQuery& query) {
    return Json::parse(list_of_runs(runs_.index(), query, tracked_runs(tracking)));
  };
  Json runs = list_all({.sort = "created_at", .together = true})["runs"];
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0]["name"], "mlflow:" + id);
  EXPECT_EQ(runs[0]["title"], "first \"try\"");
  EXPECT_EQ(runs[0]["state"], "running");
  EXPECT_EQ(runs[0]["experiment"], "grid");
  EXPECT_EQ(runs[0]["experiment_id"], std::to_string(experiment));
  EXPECT_EQ(runs[0]["configuration"], nullptr);
  EXPECT_EQ(runs[0]["finished_at"], nullptr);
  EXPECT_EQ(list_all({.sort = "time_to_goal_s"})["runs"][2]["name"], "mlflow:" + id);
  EXPECT_EQ(list_all({.filters = {{"label", "mlflow"}}})["total"], 1);
  EXPECT_EQ(list_all({.search = "TRY eve grid"})["total"], 1);
  EXPECT_EQ(list_all({.search = "a-1"})["total"], 1);
  tracking.update_run(id, "KILLED", 1'800'000'001'500, "");
  runs = list_all({.filters = {{"state", "stopped"}}})["runs"];
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0]["finished_at"], "2027-01-15T08:00:01.500000Z");
}

TEST(Repeats, AreThoseOfCompare) {
  const TemporaryFolder home;
  Repeats repeats(home.path());
  const auto write = [&](const std::string& name, const std::string& backend) {
    RecordJson record = report::told_record(name, 2);
    record["backend"] = backend;
    record["comm_stack"] = backend;
    const auto folder = runs_dir(home.path()) / name;
    std::filesystem::create_directories(folder);
    write_json_file(record_path(folder), record.json());
    return repeats.changed(name, record);
  };
  EXPECT_TRUE(write("r-2", "gloo"));
  EXPECT_TRUE(write("r-2.2", "gloo"));
  EXPECT_TRUE(write("r-2.3", "shm"));
  EXPECT_TRUE(write("r-2.4", "shm"));
  EXPECT_FALSE(write("r-2.4", "shm")) << "nothing changed";
  using Configurations = std::map<std::string, std::string>;
  const std::vector<std::string> names = {"r-2", "r-2.2", "r-2.3", "r-2.4"};
  const Configurations expected = {{"r-2", "r-2"}, {"r-2.2", "r-2"}, {"r-2.3", "r-2.3"}, {"r-2.4", "r-2.3"}};
  EXPECT_EQ(repeats.configurations(names), expected);
  EXPECT_EQ(Repeats(home.path()).configurations(names), expected) << "by another master";
  EXPECT_TRUE(write("r-2.3", "gloo"));
  EXPECT_EQ(repeats.configurations(names),
            (Configurations{{"r-2", "r-2"}, {"r-2.2", "r-2"}, {"r-2.3", "r-2"}, {"r-2.4", "r-2.4"}}));
  EXPECT_EQ(repeats.configurations({"r-2.4"}), (Configurations{{"r-2.4", "r-2"}}));
  std::filesystem::remove_all(runs_dir(home.path()) / "r-2");
  repeats.gone("r-2");
  EXPECT_EQ(repeats.configurations({"r-2", "r-2.2"}), (Configurations{{"r-2", ""}, {"r-2.2", "r-2"}}));
}

}  // namespace
}  // namespace mlbench::master
