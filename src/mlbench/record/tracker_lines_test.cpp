#include "mlbench/record/tracker_lines.h"
#include "mlbench/base/files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace mlbench::record {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class TrackerLines : public testing::Test {
 protected:
  TrackerLines() { std::filesystem::create_directories(folder_ / "metrics"); }
  void write(const std::string& text) { std::ofstream(folder_ / "metrics" / "rank-0.jsonl", std::ios::app) << text; }
  TemporaryFolder folder_;
};

// Whatever a clock said: numbers and times may go back where a script is started again.
TEST_F(TrackerLines, AreReadInTheOrderOfTheFile) {
  EXPECT_THAT(read_tracker_lines(folder_.path(), 0).lines, IsEmpty());
  write(R"({"rank":0,"sequence":12,"time":0.000005,"step":25,"epoch":1,"values":{"b":2,"bad":null,"word":"x"}})"
        "\n");
  write(R"({"rank":0,"sequence":11,"time":0.000004,"values":{"a":1}})"
        "\n");
  write("not json\n[1]\n\n");
  write(R"({"rank":0,"values":{"cut":1})");
  const auto lines = read_tracker_lines(folder_.path(), 0).lines;
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0].values, ElementsAre(Pair("b", 2), Pair("bad", testing::IsNan())));
  EXPECT_EQ(lines[0].step, 25);
  EXPECT_EQ(lines[0].time_us, 5);
  EXPECT_THAT(lines[1].values, ElementsAre(Pair("a", 1)));
  EXPECT_THAT(read_tracker_lines(folder_.path(), 1).lines, IsEmpty());
}

TEST_F(TrackerLines, BecomeFiguresOfARecord) {
  write(R"({"sequence":1,"step":10,"epoch":0,"values":{"train_loss":0.9}})"
        "\n");
  write(R"({"sequence":2,"step":10,"epoch":0,"values":{"CumulativeTrainTimeEpoch":4.5,"fwd_pass":3,"agg":1,"end":0.5}})"
        "\n");
  write(R"({"sequence":3,"time":7,"step":10,"epoch":1,"values":{"val_global_loss":0.7}})"
        "\n");
  write(R"({"sequence":4,"time":7.1,"step":10,"epoch":1,"values":{"val_global_Prec@1":75.5,"val_Prec@1":70}})"
        "\n");
  write(R"({"sequence":5,"step":20,"epoch":1,"values":{"CumulativeTrainTimeEpoch":4,"fwd_pass":2,"agg":1.5}})"
        "\n");
  write(R"({"sequence":6,"time":15,"step":20,"epoch":2,"values":{"val_global_Prec@1":81}})"
        "\n");
  write(R"({"sequence":7,"step":20,"epoch":2,"values":{"TotalCumulativeTrainTime":8.5,"global_cum_agg":2.5},)"
        R"("text":{"TaskResult":"80% ..."},"goal":{"metric":"Prec@1","split":"test","target":80,"value":81}})"
        "\n");
  write(R"({"sequence":8,"step":30,"epoch":2,"values":{"fwd_pass":100,"agg":50}})"
        "\n");
  const TrackerFigures figures = tracker_figures(read_tracker_lines(folder_.path(), 0).lines, 2'000'000);
  EXPECT_EQ(figures.train_s, 8.5);
  EXPECT_EQ(spec::find_number(figures.steps_s, "fwd_pass"), 105.0);
  EXPECT_EQ(spec::find_number(figures.steps_s, "agg"), 52.5);
  EXPECT_EQ(spec::find_number(figures.steps_s, "backprop"), 0.0);
  EXPECT_EQ(spec::find_number(*figures.goal->steps_s, "fwd_pass"), 5.0) << "the script went on past its goal";
  EXPECT_EQ(spec::find_number(*figures.goal->steps_s, "agg"), 2.5);
  ASSERT_EQ(figures.epochs.size(), 2U);
  EXPECT_EQ(figures.epochs[0].train_loss, 0.9);
  EXPECT_EQ(figures.epochs[1].train_loss, std::nullopt);
  ASSERT_EQ(figures.evaluations.size(), 2U);
  EXPECT_EQ(figures.evaluations[0].metrics, (NamedNumbers{{"loss", 0.7}, {"Prec@1", 75.5}}));
  EXPECT_EQ(figures.evaluations[0].train_s, 4.5);
  EXPECT_EQ(figures.evaluations[0].wall_s, 5.0);
  EXPECT_EQ(figures.evaluations[1].train_s, 8.5);
  EXPECT_EQ(figures.goal->reached, true);
  EXPECT_EQ(figures.goal->target, 80);
  EXPECT_EQ(figures.goal->higher_is_better, true);
  EXPECT_EQ(figures.goal->train_s, 8.5);
  EXPECT_EQ(figures.result, "80% ...");
  EXPECT_EQ(figures.steps, 30);
}

// Each line tells the clock, so that an evaluation within an epoch has its own time.
TEST_F(TrackerLines, HaveTheTrainClockAndTheSamples) {
  write(R"({"step":5,"train_s":2.5,"samples":500,"values":{"val_global_Prec@1":60}})"
        "\n");
  write(R"({"step":10,"train_s":4,"samples":1000,"values":{"CumulativeTrainTimeEpoch":4}})"
        "\n");
  // The script died, and is started again from its state at step 5, then without any.
  write(R"({"step":5,"train_s":2.5,"samples":500,"values":{"lr":0.1}})"
        "\n");
  write(R"({"step":7,"epoch":1,"train_s":3.25,"samples":700,"values":{"val_global_Prec@1":70}})"
        "\n");
  write(R"({"step":0,"values":{"x":1}})"
        "\n");
  write(R"({"step":2,"train_s":1,"samples":200,"values":{}})"
        "\n");
  write(R"({"step":4,"train_s":2,"samples":400,"values":{}})"
        "\n");
  for (const char* odd : {"-1", "null", "\"3\"", "1e300"}) {
    write(fmt::format("{{\"train_s\":{},\"samples\":{},\"values\":{{}}}}\n", odd, odd));
  }
  const auto lines = read_tracker_lines(folder_.path(), 0).lines;
  const TrackerFigures figures = tracker_figures(lines, 0);
  ASSERT_EQ(figures.evaluations.size(), 2U);
  EXPECT_EQ(figures.evaluations[0].train_s, 2.5);
  EXPECT_EQ(figures.evaluations[1].train_s, 4.75) << "what is done again counts twice";
  EXPECT_EQ(figures.train_s, 5.75);
  EXPECT_EQ(tracker_samples(lines), 1400);
  EXPECT_EQ(tracker_samples({}), std::nullopt);
}

// The values decide, not what the script says of itself.
TEST_F(TrackerLines, AreHeldAgainstADeclaredGoal) {
  const spec::GoalSpec accuracy{"Prec@1", "test", 80, 80, true};
  write(R"({"step":10,"train_s":4,"values":{"CumulativeTrainTimeEpoch":4,"fwd_pass":3}})"
        "\n");
  write(R"({"step":10,"epoch":1,"train_s":4,"values":{"val_global_Prec@1":79.9,"val_Prec@1":90},)"
        R"("goal":{"metric":"Prec@1","split":"test","target":70,"value":79.9}})"
        "\n");
  const auto judged = [&](const spec::GoalSpec& goal) {
    return *tracker_figures(read_tracker_lines(folder_.path(), 0).lines, 0, goal).goal;
  };
  Goal goal = judged(accuracy);
  EXPECT_FALSE(goal.reached);
  EXPECT_EQ(goal.target, 80);
  EXPECT_EQ(goal.higher_is_better, true);
  EXPECT_EQ(goal.value, 79.9);
  EXPECT_EQ(goal.step, 10);
  EXPECT_EQ(goal.train_s, 4);
  EXPECT_EQ(goal.steps_s, std::nullopt);

  write(R"({"step":20,"epoch":2,"train_s":8,"values":{"val_global_Prec@1":80}})"
        "\n");
  write(R"({"step":30,"epoch":3,"train_s":12,"values":{"val_global_Prec@1":85}})"
        "\n");
  write(R"({"step":30,"epoch":3,"train_s":12,"values":{"train_loss":0.5}})"
        "\n");
  write(R"({"step":30,"epoch":3,"train_s":12,"values":{"CumulativeTrainTimeEpoch":8}})"
        "\n");
  goal = judged(accuracy);
  EXPECT_TRUE(goal.reached);
  EXPECT_EQ(goal.value, 80);
  EXPECT_EQ(goal.step, 20);
  EXPECT_EQ(goal.epoch, 2);
  EXPECT_EQ(goal.train_s, 8);
  EXPECT_EQ(spec::find_number(*goal.steps_s, "fwd_pass"), 3.0);
  EXPECT_EQ(goal.best->value, 85);
  EXPECT_EQ(goal.best->step, 30);

  goal = judged({"loss", "train", 0.5, 0.5, false});
  EXPECT_TRUE(goal.reached);
  EXPECT_EQ(goal.train_s, 12);
  EXPECT_FALSE(judged({"loss", "test", 0.5, 0.5, false}).value.has_value());
}

TEST_F(TrackerLines, OfWhatIsNoNumberAreNull) {
  write(R"({"step":10,"epoch":0,"values":{"train_loss":0.9}})"
        "\n");
  write(R"({"step":10,"epoch":0,"values":{"train_loss":null}})"
        "\n");
  write(R"({"step":10,"epoch":0,"values":{"CumulativeTrainTimeEpoch":4.5,"fwd_pass":null}})"
        "\n");
  write(R"({"step":10,"epoch":0,"values":{"CumulativeTrainTimeEpoch":null}})"
        "\n");
  write(R"({"step":10,"epoch":1,"values":{"val_global_Perplexity":null,"val_global_Prec@1":0}})"
        "\n");
  const TrackerFigures figures = tracker_figures(read_tracker_lines(folder_.path(), 0).lines, 0);
  ASSERT_EQ(figures.epochs.size(), 1U);
  EXPECT_EQ(figures.epochs[0].train_loss, std::nullopt) << "the last, not one before it";
  EXPECT_EQ(figures.train_s, 4.5);
  EXPECT_EQ(spec::find_number(figures.steps_s, "fwd_pass"), 0.0);
  ASSERT_EQ(figures.evaluations.size(), 1U);
  EXPECT_TRUE(std::isnan(spec::find_number(figures.evaluations[0].metrics, "Perplexity").value()));
  EXPECT_EQ(spec::find_number(figures.evaluations[0].metrics, "Prec@1"), 0.0);
}

TEST_F(TrackerLines, OneThatIsNoneCostsItselfAlone) {
  write(R"({"sequence":1,"values":{"a":1}})"
        "\n");
  write(std::string(500'000, '[') + "\n" + R"({"sequence":2,"values":)" + std::string(500'000, '[') +
        std::string(500'000, ']') + "}\n\n" + R"({"sequence":3,"text":{"a":")" + std::string(5'000'000, 'x') +
        "\"}}\n");
  // What no metric can be is left out of its line.
  write(R"({"sequence":4,"values":{"good":2,"":3,"\u0001":4,")" + std::string(251, 'n') +
        R"(":5}})"
        "\n");
  const auto read = read_tracker_lines(folder_.path(), 0);
  EXPECT_EQ(read.left_out, 3);
  ASSERT_EQ(read.lines.size(), 2U);
  EXPECT_THAT(read.lines[1].values, ElementsAre(Pair("good", 2)));
}

TEST_F(TrackerLines, MakeNoRecordWithoutEnd) {
  std::vector<TrackerLine> lines(30'000);
  for (size_t i = 0; i < lines.size(); ++i) {
    lines[i].step = static_cast<int64_t>(i);
    lines[i].values = {{"val_global_a", 1.0}, {"CumulativeTrainTimeEpoch", 1.0}};
  }
  const TrackerFigures figures = tracker_figures(lines, 0);
  EXPECT_EQ(figures.evaluations.size(), 20'000);
  EXPECT_EQ(figures.epochs.size(), 20'000);
  EXPECT_EQ(figures.left_out, 20'000);
  EXPECT_EQ(figures.train_s, 30'000.0);
}

TEST_F(TrackerLines, NothingIsNothing) {
  const TrackerFigures figures = tracker_figures({}, 0);
  EXPECT_FALSE(figures.goal);
  EXPECT_EQ(figures.result, "");
  EXPECT_EQ(figures.train_s, 0.0);
  EXPECT_THAT(figures.evaluations, IsEmpty());
}

}  // namespace
}  // namespace mlbench::record
