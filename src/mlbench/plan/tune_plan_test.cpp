#include "mlbench/plan/tune_plan.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "mlbench/base/errors.h"

namespace mlbench::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TuneOptions with_grid(const std::vector<std::string>& grid) {
  TuneOptions options;
  options.run.name = "a";
  for (const std::string& text : grid) options.grid.push_back(parse_axis(text));
  return options;
}

TuneOptions with_space(const std::vector<std::string>& space, int64_t trials) {
  TuneOptions options;
  options.trials = trials;
  for (const std::string& text : space) options.space.push_back(parse_axis(text));
  return options;
}

std::vector<std::string> values(const TuneOptions& options, size_t axis = 0) {
  std::vector<std::string> found;
  for (const TunePoint& point : tune_points(options)) found.push_back(point.settings.at(axis).value);
  return found;
}

// The grid of document 001.
TEST(TunePlan, ARangeOfAGridIsItsPowersOfTen) {
  EXPECT_THAT(values(with_grid({"optimizer.lr=0.001..1000"})),
              ElementsAre("0.001", "0.01", "0.1", "1", "10", "100", "1000"));
  EXPECT_THAT(values(with_grid({"optimizer.lr=1..16/5"})), ElementsAre("1", "2", "4", "8", "16"));
  EXPECT_THAT(values(with_grid({"optimizer.lr=0.3,x"})), ElementsAre("0.3", "x"));
}

TEST(TunePlan, AGridIsAllCombinationsTheLastAxisFirst) {
  std::vector<std::string> words;
  for (const TunePoint& point : tune_points(with_grid({"a.b=1,2", "c.d=x,y"}))) {
    words.push_back(point.settings[0].key + point.settings[0].value + point.settings[1].value);
  }
  EXPECT_THAT(words, ElementsAre("a.b1x", "a.b1y", "a.b2x", "a.b2y"));
}

TEST(TunePlan, WhatIsNoAxisIsRefused) {
  EXPECT_THAT([] { parse_axis("optimizer.lr"); }, ThrowsMessage<UserError>(HasSubstr("expected KEY=VALUE")));
  EXPECT_THAT([] { parse_axis("lr=1,,2"); }, ThrowsMessage<UserError>(HasSubstr("one of its values is empty")));
  EXPECT_THAT([] { parse_axis("lr=2..1"); }, ThrowsMessage<UserError>(HasSubstr("not above its begin")));
  EXPECT_THAT([] { parse_axis("lr=0..1"); }, ThrowsMessage<UserError>(HasSubstr("the begin of 'lr=0..1'")));
  EXPECT_THAT([] { parse_axis("lr=1..2/1"); }, ThrowsMessage<UserError>(HasSubstr("from 2 to 1000")));
  EXPECT_THAT([] { tune_points(with_grid({"lr=1..3"})); }, ThrowsMessage<UserError>(HasSubstr("needs /COUNT")));
  EXPECT_THAT(
      [] {
        tune_points(with_grid({"a=1..2/1000", "b=1..2/1000"}));
      },
      ThrowsMessage<UserError>(HasSubstr("more than 10000 points")));
}

TEST(TunePlan, WithoutAxesTheTaskIsTriedAsItIs) {
  TuneOptions options = with_grid({});
  options.studies = 3;
  const std::vector<TunePoint> points = tune_points(options);
  ASSERT_EQ(points.size(), 3U);
  EXPECT_THAT(points[2].settings, IsEmpty());
  EXPECT_EQ(points[2].study, 2);
}

// Each quarter of the logarithms has a quarter of the points, whatever the shift: no draw at random does this.
TEST(TunePlan, PointsOfASpaceFillItEvenly) {
  TuneOptions options = with_space({"lr=0.0001..1", "momentum=0.9,0.99"}, 64);
  std::vector<int> quarters(4);
  for (const std::string& text : values(options)) {
    const double value = std::stod(text);
    ASSERT_TRUE(value >= 0.0001 && value <= 1) << text;
    ++quarters[static_cast<size_t>(std::min(3.0, std::log10(value) + 4))];
  }
  for (const int count : quarters) EXPECT_NEAR(count, 16, 1);
  const std::vector<std::string> listed = values(options, 1);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(listed, "0.9")), 32, 3);
}

TEST(TunePlan, TheSameSeedDrawsTheSamePoints) {
  TuneOptions options = with_space({"lr=0.001..1"}, 5);
  options.studies = 2;
  const std::vector<std::string> first = values(options);
  EXPECT_EQ(values(options), first);
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()).size(), 10U) << "studies have other points";
  options.run.seed = "7";
  EXPECT_NE(values(options), first);
}

TEST(TunePlan, ATrialIsARunWithItsSettingsOnHeldOutSamples) {
  TuneOptions options = with_grid({"optimizer.lr=1,2"});
  options.holdout = 0.2;
  options.run.overrides = {"batch_size=8"};
  options.run.seed = "10";
  const std::vector<TunePoint> points = tune_points(options);
  const spec::RunOptions run = trial_options(options, points[1], 1, 3);
  EXPECT_EQ(run.name, "a.t2");
  EXPECT_EQ(run.seed, "11");
  EXPECT_THAT(run.overrides, ElementsAre("batch_size=8", "optimizer.lr=2", "data.holdout=0.2"));
  options.studies = 2;
  const spec::RunOptions other = trial_options(options, tune_points(options)[2], 1, 3);
  EXPECT_EQ(other.name, "a.s2.t1");
  EXPECT_EQ(other.seed, "14");
}

}  // namespace
}  // namespace mlbench::plan
