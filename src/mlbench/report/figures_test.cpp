#include "mlbench/report/figures.h"

#include <gmock/gmock.h>

#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

using testing::ElementsAre;

TEST(Figures, OfARecord) {
  const RunFigures figures = figures_of(make_record("r-2", 2, 40, 5000, true));
  EXPECT_EQ(figures.name, "r-2");
  EXPECT_EQ(figures.workers, 2);
  EXPECT_EQ(figures.time_to_goal_s, 40);
  EXPECT_EQ(figures.train_legacy_s, 39);
  EXPECT_EQ(figures.communication_share, 0.25);
  EXPECT_EQ(figures.evaluation, "Prec@1 85.25");
  EXPECT_THAT(figures.labels, ElementsAre("light"));
}

TEST(Figures, WaitAndTransferAreSharesOfRank0) {
  RecordJson record = make_record("r-2", 2, 40, 5000, true);
  EXPECT_FALSE(figures_of(record).wait_share);
  EXPECT_FALSE(figures_of(record).transfer_share);
  EXPECT_FALSE(figures_of(record).hidden_share);
  record["exchange"] = {{"wait_s", {6.0, 0.0}}, {"transfer_s", {2.0, 2.0}}, {"exact", true}};
  EXPECT_EQ(figures_of(record).wait_share, 0.15);
  EXPECT_EQ(figures_of(record).transfer_share, 0.05);
  EXPECT_TRUE(figures_of(record).exchange_exact);
  EXPECT_FALSE(figures_of(record).hidden_share) << "it is not told";
  EXPECT_FALSE(figures_of(record).hides());
  record["exchange"]["hidden_s"] = {5.0, 0.0};
  EXPECT_EQ(figures_of(record).hidden_share, 0.125);
  EXPECT_TRUE(figures_of(record).hides());
  record["exchange"] = nullptr;
  EXPECT_FALSE(figures_of(record).wait_share);
}

TEST(Figures, WallToGoalEndsWithTheEvaluationThatMetIt) {
  RecordJson record = make_record("r-2", 2, 40, 5000, true);
  EXPECT_EQ(figures_of(record).wall_to_goal_s, 45);  // the run ended there
  record["limits"]["to_the_end"] = true;
  EXPECT_FALSE(figures_of(record).wall_to_goal_s);
  record["evaluations"][1]["wall_s"] = 43.5;
  EXPECT_EQ(figures_of(record).wall_to_goal_s, 43.5);
  record["goal"]["reached"] = false;
  EXPECT_FALSE(figures_of(record).wall_to_goal_s);
}

TEST(Figures, AnAcceleratorIsUsedWhereItDoesNotWaitForData) {
  RecordJson record = make_record("r-2", 2, 40, 5000, true);
  EXPECT_DOUBLE_EQ(figures_of(record).accelerator_utilisation.value(), 30.5 / 31.5);
  record["effective"] = {{"device", "cuda:0"}};
  EXPECT_FALSE(figures_of(record).accelerator_utilisation) << "the host does not see the passes of a GPU";
  record["emulated_step_s"] = 0.15;
  EXPECT_DOUBLE_EQ(figures_of(record).accelerator_utilisation.value(), 30.5 / 31.5);
  record["steps_s"].erase("batch_load");
  EXPECT_FALSE(figures_of(record).accelerator_utilisation);
}

TEST(Figures, ASharedHostIsALabel) {
  RecordJson record = make_record("r-2", 2, 40, 5000, true);
  EXPECT_FALSE(figures_of(record).shared_host);
  record["shared_host"] = true;
  EXPECT_TRUE(figures_of(record).shared_host);
  EXPECT_THAT(figures_of(record).labels, ElementsAre("light", "shared host"));
}

TEST(Figures, BadImagesAreALabelWhereThereAreAny) {
  RecordJson record = make_record("r-2", 2, 40, 5000, true);
  record["data"]["bad_images"] = {{"allowed", 5}, {"count", 0}, {"first", Json::array()}};
  EXPECT_THAT(figures_of(record).labels, ElementsAre("light"));
  record["data"]["bad_images"]["count"] = 1;
  EXPECT_THAT(figures_of(record).labels, ElementsAre("1 bad image", "light"));
  record["data"]["bad_images"]["count"] = 3;
  EXPECT_THAT(figures_of(record).labels, ElementsAre("3 bad images", "light"));
}

TEST(Figures, MissingOnesAreEmptyNotZero) {
  const RunFigures figures = figures_of(record::Record());
  EXPECT_FALSE(figures.time_to_goal_s);
  EXPECT_FALSE(figures.wall_s);
  EXPECT_FALSE(figures.samples_per_s);
  EXPECT_FALSE(figures.communication_share);
  EXPECT_EQ(figures.evaluation, "");
}

TEST(Figures, LabelsSayWhatAReaderMustKnow) {
  RecordJson record = make_record("r-2", 2, 40, 5000, false);
  record["data"]["official"] = false;
  record["division"] = "open";
  record["oversubscribed"] = true;
  record["segments"].push_back({{"index", 2}});
  EXPECT_THAT(figures_of(record).labels,
              ElementsAre("unofficial data", "open", "light", "oversubscribed", "2 segments"));
  record["data"]["synthetic"] = true;
  record["division"] = "own";
  record["limits"]["to_the_end"] = true;
  EXPECT_THAT(figures_of(record).labels,
              ElementsAre("synthetic", "own task", "light", "to the end", "oversubscribed", "2 segments"));
  record["comm_stack"] = "check(netem(ring(gloo)))";
  EXPECT_THAT(figures_of(record).labels, testing::Contains("synthetic network"));
  record["comm_stack"] = "check(gloo)";
  EXPECT_THAT(figures_of(record).labels, testing::Not(testing::Contains("emulated")));
  record["emulated_step_s"] = 0.15;
  record["data"]["fixed_batch"] = true;
  EXPECT_THAT(figures_of(record).labels, testing::IsSupersetOf({"fixed batch", "emulated"}));
  record["data"].erase("fixed_batch");
  record.erase("emulated_step_s");
  EXPECT_THAT(figures_of(record).labels, testing::Not(testing::Contains("synthetic network")));

  record["limits"].erase("to_the_end");
  record["division"] = "throughput";
  record["goal"] = nullptr;
  EXPECT_THAT(figures_of(record).labels,
              ElementsAre("synthetic", "throughput only", "light", "oversubscribed", "2 segments"));
  EXPECT_FALSE(figures_of(record).has_goal);
}

}  // namespace
}  // namespace mlbench::report
