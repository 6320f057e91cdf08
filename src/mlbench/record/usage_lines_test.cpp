#include "mlbench/record/usage_lines.h"

#include <gtest/gtest.h>

#include "mlbench/record/points.h"

namespace mlbench::record {
namespace {

TEST(UsageLine, GoesBothWays) {
  const auto line =
      parse_usage_line(to_text({1'700'000'000'000'000, 12.5, {{0.5, 4096, 10.5, 0}, {std::nullopt, 8192}, {}}}));
  ASSERT_TRUE(line);
  EXPECT_EQ(line->time_us, 1'700'000'000'000'000);
  EXPECT_EQ(line->wall_s, 12.5);
  ASSERT_EQ(line->ranks.size(), 3u);
  EXPECT_EQ(line->ranks[0].cpu_cores, 0.5);
  EXPECT_EQ(line->ranks[0].memory_bytes, 4096);
  EXPECT_FALSE(line->ranks[1].cpu_cores);
  EXPECT_EQ(line->ranks[1].memory_bytes, 8192);
  EXPECT_FALSE(line->ranks[2].memory_bytes);
  EXPECT_EQ(line->ranks[0].network_in, 10.5);
  EXPECT_EQ(line->ranks[0].network_out, 0);
  EXPECT_FALSE(line->ranks[1].network_in || line->ranks[1].network_out);
}

TEST(UsageLine, OfOlderProgramsKnowsNoNetwork) {
  for (const char* more : {"", R"(, "network_in_bytes_per_s": [], "network_out_bytes_per_s": 3)"}) {
    const auto line = parse_usage_line(
        std::string(R"({"time_us": 1, "wall_s": 1, "cpu_cores": [1], "memory_bytes": [2])") + more + "}");
    ASSERT_TRUE(line) << more;
    EXPECT_EQ(line->ranks.at(0).memory_bytes, 2);
    EXPECT_FALSE(line->ranks[0].network_in || line->ranks[0].network_out);
  }
}

TEST(UsageLine, OthersAreNone) {
  for (const char* text : {"", "{}", "[]", R"({"time_us": 1, "wall_s": 1, "cpu_cores": [1], "memory_bytes": []})",
                           R"({"time_us": 1, "wall_s": -1, "cpu_cores": [], "memory_bytes": []})",
                           R"({"time_us": 1, "wall_s": 1e300, "cpu_cores": [], "memory_bytes": []})",
                           R"({"time_us": "1", "wall_s": 1, "cpu_cores": [], "memory_bytes": []})",
                           R"({"time_us": 1, "wall_s": 1, "cpu_cores": 1, "memory_bytes": 1})"}) {
    EXPECT_FALSE(parse_usage_line(text)) << text;
  }
}

TEST(UsageLine, ValuesThatAreNoAmountsAreNotKnown) {
  const auto line = parse_usage_line(
      R"({"time_us": 1, "wall_s": 1, "cpu_cores": [-1, 1e300, "2"], "memory_bytes": [1e300, -1, null]})");
  ASSERT_TRUE(line);
  for (const UsageLine::Rank& rank : line->ranks) EXPECT_FALSE(rank.cpu_cores || rank.memory_bytes);
}

TEST(UsageLine, ItsStepIsTheSecondOfTheRun) {
  Points points;
  add_points(points, UsageLine{5'000'000, 12.9, {{0.5, 4096}, {std::nullopt, 8192, 7, 9}}});
  ASSERT_EQ(points.size(), 5u);
  const auto& cores = points.at({"", "cpu_cores", 0});
  ASSERT_EQ(cores.size(), 1u);
  EXPECT_EQ(cores[0].time_us, 5'000'000);
  EXPECT_EQ(cores[0].step, 12);
  EXPECT_EQ(cores[0].value, 0.5);
  EXPECT_EQ(points.at({"", "memory_bytes", 1}).at(0).value, 8192);
  EXPECT_EQ(points.at({"", "network_in_bytes_per_s", 1}).at(0).value, 7);
  EXPECT_EQ(points.at({"", "network_out_bytes_per_s", 1}).at(0).value, 9);
}

}  // namespace
}  // namespace mlbench::record
