#include "mlbench/report/study/score.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/report/study/submissions.h"
#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

constexpr double kMissed = std::numeric_limits<double>::infinity();

// a: 10 s and 30 s; b: 20 s and 20 s. Ratios: a 1 and 1.5, b 2 and 1.
std::vector<Submission> two() {
  return {{"a", {{"u", {{10}, {}}}, {"v", {{30}, {}}}}}, {"b", {{"u", {{20}, {}}}, {"v", {{20}, {}}}}}};
}

TEST(Score, IsTheMeanOfTheProfile) {
  const Scores scores = score(two(), "");
  EXPECT_THAT(scores.workloads, ElementsAre("u", "v"));
  // To 4: each workload adds (4 - ratio) / 3.
  EXPECT_DOUBLE_EQ(scores.submissions[0].score_4, (1 + 2.5 / 3) / 2);
  EXPECT_DOUBLE_EQ(scores.submissions[1].score_4, (2.0 / 3 + 1) / 2);
  EXPECT_DOUBLE_EQ(scores.submissions[0].score_2, (1 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(scores.submissions[1].score_2, 0.5);
  EXPECT_DOUBLE_EQ(scores.submissions[1].score_8, (6.0 / 7 + 1) / 2);
  // 100 points are 99 steps of 1 / 33: b's profile is 1/2 up to the point before tau = 2 (the 33rd step), then 1.
  EXPECT_NEAR(scores.submissions[1].published, (32 * 0.5 + 0.75 + 66) / 99, 1e-12);
  EXPECT_DOUBLE_EQ(scores.submissions[0].leave_one_out.low, 2.5 / 3);
  EXPECT_DOUBLE_EQ(scores.submissions[0].leave_one_out.high, 1);
  EXPECT_FALSE(scores.submissions[0].over_repeats);
  EXPECT_FALSE(scores.submissions[0].beside_reference);
}

TEST(Score, BesideAReferenceDoesNotDependOnTheField) {
  std::vector<Submission> submissions = two();
  const Scores before = score(submissions, "b");
  EXPECT_DOUBLE_EQ(*before.submissions[0].beside_reference, (1 + 2.5 / 3) / 2);
  EXPECT_DOUBLE_EQ(*before.submissions[0].speed_up, std::sqrt(2 * 2.0 / 3));
  EXPECT_DOUBLE_EQ(*before.submissions[1].speed_up, 1);
  submissions.push_back({"c", {{"u", {{1}, {}}}, {"v", {{1}, {}}}}});
  const Scores after = score(submissions, "b");
  EXPECT_EQ(after.submissions[0].beside_reference, before.submissions[0].beside_reference);
  EXPECT_LT(after.submissions[0].score_4, before.submissions[0].score_4);
  EXPECT_THAT([&] { score(submissions, "d"); }, ThrowsMessage<UserError>(HasSubstr("reference 'd'")));
}

TEST(Score, AMissAddsNothingAndRepeatsHaveTheirMedian) {
  std::vector<Submission> submissions = two();
  submissions[0].workloads["u"].target_s = {10, kMissed, 12};
  submissions[1].workloads["u"].target_s = {20, kMissed, kMissed};
  submissions[1].workloads.erase("v");
  const Scores scores = score(submissions, "");
  EXPECT_THAT(scores.submissions[0].target_s, ElementsAre(12, 30));
  EXPECT_EQ(scores.submissions[0].score_4, 1);
  EXPECT_EQ(scores.submissions[1].score_4, 0);
  EXPECT_THAT(scores_text(scores), HasSubstr("missed"));
  const Interval over_repeats = *scores.submissions[1].over_repeats;
  EXPECT_EQ(over_repeats.low, 0);
  EXPECT_GT(over_repeats.high, 0) << "a draw may have the repeat that reached the target twice";
  EXPECT_EQ(score(submissions, "").submissions[1].over_repeats->high, over_repeats.high) << "the same draws";
}

TEST(Score, AMissedVariantIsAMissOfItsBase) {
  std::vector<Submission> submissions = two();
  submissions[0].workloads["u_gelu"].target_s = {kMissed};
  submissions[1].workloads["u_gelu"].target_s = {50};
  const Scores scores = score(submissions, "", {{"u_gelu", "u"}});
  EXPECT_THAT(scores.workloads, ElementsAre("u", "v"));
  EXPECT_THAT(scores.submissions[0].target_s, ElementsAre(std::nullopt, 30));
  EXPECT_EQ(scores.submissions[1].score_4, 1);
}

TEST(Score, VariantsChangeNothingOfBasesThatAreReached) {
  // 5 times the fastest: beyond the variant's limit of 4, and within a score to 8.
  std::vector<Submission> submissions = two();
  submissions[1].workloads["u"].target_s = {50};
  for (Submission& one : submissions) one.workloads["u_gelu"].target_s = {50};
  const Scores scores = score(submissions, "", {{"u_gelu", "u"}});
  EXPECT_THAT(scores.submissions[1].target_s, ElementsAre(50, 20));
  EXPECT_DOUBLE_EQ(scores.submissions[1].score_8, (3.0 / 7 + 1) / 2);
}

TEST(Score, NamesRepeatsOnUnlikeMachines) {
  std::vector<Submission> submissions = two();
  submissions[0].workloads["v"].step_s = {0.1, 0.105};
  EXPECT_THAT(score(submissions, "").notes, IsEmpty());
  submissions[0].workloads["v"].step_s = {0.1, 0.25};
  EXPECT_THAT(score(submissions, "").notes,
              ElementsAre("a on v: seconds per step of its repeats differ by a factor of 2.5"));
}

class Submitted : public testing::Test {
 protected:
  void trial(const std::string& folder, const std::string& rows) {
    write_file_atomically(folder_ / folder / "eval_measurements.csv", [&] {
      make_folder(folder_ / folder);
      return "accumulated_submission_time,global_step,score,validation/accuracy\n" + rows;
    }());
  }
  void targets() {
    write_file_atomically(folder_ / "workload_targets.json",
                          R"({"base_workloads": ["net", "lm"],
                              "workloads": {"net": {"target_metric_name": "accuracy", "validation_target_value": 0.5}}})");
  }
  Submissions read(const std::vector<std::string>& names) {
    std::vector<fs::path> folders;
    for (const std::string& name : names) folders.push_back(folder_ / name);
    return read_submissions(folders, "");
  }

  TemporaryFolder folder_;
};

// The second trial needs one evaluation less, though more time; the third never gets there.
TEST_F(Submitted, TheTrialOfFewestEvaluationsCounts) {
  trial("a/study_0/net_jax/trial_1", "1,1,1,0.1\n2,2,2,0.4\n3,3,3,0.6\n");
  trial("a/study_0/net_jax/trial_2", "10,1,10,0.1\n20,2,20,0.5\n");
  trial("a/study_0/net_jax/trial_3", "1,1,1,0.1\n");
  trial("a/study_1/net_jax/trial_1", "1,1,1,\n2,2,2,nan\n");
  targets();
  const Submissions found = read({"a"});
  ASSERT_EQ(found.list.size(), 1U);
  EXPECT_EQ(found.list[0].name, "a");
  EXPECT_THAT(found.list[0].workloads.at("net").target_s, ElementsAre(20, kMissed));
  EXPECT_THAT(found.list[0].workloads.at("net").step_s, ElementsAre(10));
  EXPECT_THAT(found.notes, ElementsAre("no submission was measured on lm: it does not count"));
}

TEST_F(Submitted, WhatIsWrongIsNamed) {
  trial("a/study_0/net_jax/trial_1", "1,1,1,0.1\n2,2,two,0.6\n");
  EXPECT_THAT([&] { read({"a"}); }, ThrowsMessage<UserError>(HasSubstr("has no targets")));
  targets();
  EXPECT_THAT([&] { read({"a"}); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("trial_1/eval_measurements.csv"), HasSubstr("column score"))));
  trial("b/study_0/web_jax/trial_1", "1,1,1,0.1\n");
  EXPECT_THAT([&] { read({"b"}); }, ThrowsMessage<UserError>(HasSubstr("no target is known of the workload 'web'")));
  write_file_atomically(folder_ / "a/study_0/net_jax/trial_1/eval_measurements.csv", "score,global_step\n1,1\n");
  EXPECT_THAT([&] { read({"a"}); }, ThrowsMessage<UserError>(HasSubstr("accumulated_submission_time")));
  EXPECT_THAT([&] { read({"c"}); }, testing::Throws<UserError>());
}

TEST_F(Submitted, RunsOfMlbenchAreWorkloadsWithRepeats) {
  for (const auto& [file, reached] :
       {std::pair("sgd/r-1.json", true), {"sgd/r-2.json", false}, {"lars/q-1.json", true}}) {
    make_folder((folder_ / file).parent_path());
    RecordJson record = make_record(fs::path(file).stem(), 2, 30, 100, reached);
    record["throughput"]["steps"] = 60;
    write_json_file(folder_ / file, record.json());
  }
  const Submissions found = read({"sgd/", "lars"});
  const WorkloadTimes& times = found.list[0].workloads.at("fashion-mnist light k=2");
  EXPECT_THAT(times.target_s, ElementsAre(30, kMissed));
  EXPECT_EQ(found.list[1].name, "lars");
  RecordJson easier = make_record("r-1", 2, 10, 100, true);
  easier["overrides"] = Json::array({Json{{"key", "goal.target"}, {"value", "60"}}});
  easier["goal"]["target"] = 60;
  write_json_file(folder_ / "lars/q-1.json", easier.json());
  EXPECT_TRUE(read({"lars"}).list[0].workloads.contains("fashion-mnist light Prec@1>=60 k=2")) << "a goal of its own";
  EXPECT_THAT([&] { read({"sgd", "sgd"}); }, ThrowsMessage<UserError>(HasSubstr("two folders are called sgd")));
}

// The published scores: mlcommons/submissions_algorithms, version 0.6, external tuning.
TEST(ScoreOnRealData, OfAlgoPerfsLogs) {
  const auto data = environment_variable("MLBENCH_DATA_DIR");
  const fs::path archive = fs::path(data.value_or("")) / "algoperf-v06" / "algoperf-v06.tar.xz";
  if (!data || !fs::exists(archive)) GTEST_SKIP() << "missing capability: algoperf-v06 in MLBENCH_DATA_DIR";
  const TemporaryFolder folder;
  ProcessOptions unpack;
  unpack.arguments = {"tar", "-xJf", archive, "-C", folder.path()};
  ASSERT_EQ(run_process(unpack, std::chrono::minutes(1)).end.code, 0);
  const fs::path logs = folder / "algoperf-v06";
  const Submissions found = read_submissions({logs / "baseline", logs / "shampoo"}, "");
  const Scores scores = score(found.list, "baseline", found.held_out);
  EXPECT_EQ(scores.workloads.size(), 8U);
  EXPECT_NEAR(scores.submissions[0].published, 0.4590, 5e-5);
  EXPECT_NEAR(scores.submissions[1].published, 0.6244, 5e-5);
  EXPECT_NEAR(scores.submissions[0].score_4, 0.4580, 5e-5);
  EXPECT_NEAR(scores.submissions[1].score_4, 0.6239, 5e-5);
  EXPECT_THAT(scores.notes, Contains(HasSubstr("shampoo on fastmri: seconds per step")));
  EXPECT_THAT(found.notes, ElementsAre("no submission was measured on finewebedu_lm: it does not count"));
}

}  // namespace
}  // namespace mlbench::report
