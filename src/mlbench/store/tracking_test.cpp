#include "mlbench/store/tracking.h"

#include <gmock/gmock.h>

#include <cmath>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/store/journal.h"

namespace mlbench::store {
namespace {

using testing::ElementsAre;
using testing::Pair;

class TrackingTest : public testing::Test {
 protected:
  static TrackedRun run(const std::string& id, int64_t experiment = 0) {
    TrackedRun out;
    out.id = id;
    out.experiment = experiment;
    out.name = "name of " + id;
    return out;
  }
  TemporaryFolder folder_;
};

TEST_F(TrackingTest, ExperimentsHaveOneName) {
  Tracking tracking(folder_.path());
  EXPECT_EQ(tracking.experiment("Default")->id, 0);
  const auto id = tracking.create_experiment({0, "a", {{"k", "v"}}, 5});
  ASSERT_TRUE(id);
  EXPECT_FALSE(tracking.create_experiment({0, "a", {}, 6}));
  EXPECT_THAT(tracking.experiment(*id)->tags, ElementsAre(Pair("k", "v")));
  EXPECT_EQ(tracking.experiment("a")->created_ms, 5);
  EXPECT_FALSE(tracking.experiment("b"));
  EXPECT_EQ(tracking.experiments().size(), 2u);
}

TEST_F(TrackingTest, TheLastMetricIsTheOneOfTheLargestStep) {
  Tracking tracking(folder_.path());
  tracking.create_run(run("r"));
  tracking.log(
      "r", {{{"m", 3, 10, 2}, {"m", 9, 99, 1}, {"m", 4, 11, 2}, {"m", 1, 5, 2}, {"n", std::nan(""), 0, 0}}, {}, {}});
  const auto seen = tracking.run("r");
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->metrics.at("m").value, 4);
  EXPECT_TRUE(std::isnan(seen->metrics.at("n").value));
  std::vector<double> values;
  for (const TrackedMetric& one : tracking.history("r", "m", 1, 2)) values.push_back(one.value);
  EXPECT_THAT(values, ElementsAre(9, 4));
}

TEST_F(TrackingTest, ABatchIsAllOrNothing) {
  Tracking tracking(folder_.path());
  tracking.create_run(run("r"));
  tracking.log("r", {{}, {{"p", "1"}}, {{"t", "1"}}});
  EXPECT_THROW(tracking.log("r", {{{"m", 1, 0, 0}}, {{"p", "2"}}, {{"t", "2"}}}), UserError);
  const auto seen = tracking.run("r");
  EXPECT_TRUE(seen->metrics.empty());
  EXPECT_THAT(seen->params, ElementsAre(Pair("p", "1")));
  EXPECT_THAT(seen->tags, ElementsAre(Pair("t", "1")));
}

TEST_F(TrackingTest, LivesInTheJournalAndSurvives) {
  {
    const Journal journal(folder_.path());
    Tracking tracking(folder_.path());
    tracking.create_run(run("old"));
    tracking.create_run(run("new"));
    tracking.update_run("old", "FINISHED", 77, "");
  }
  const Journal journal(folder_.path());
  const Tracking tracking(folder_.path());
  const auto runs = tracking.runs({0});
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].id, "new");
  EXPECT_EQ(runs[1].status, "FINISHED");
  EXPECT_EQ(runs[1].end_ms, 77);
  EXPECT_EQ(runs[1].name, "name of old");
  EXPECT_FALSE(tracking.run("other"));
}

}  // namespace
}  // namespace mlbench::store
