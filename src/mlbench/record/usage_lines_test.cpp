#include "mlbench/record/usage_lines.h"

#include <gtest/gtest.h>

#include "mlbench/record/points.h"

namespace mlbench::record {
namespace {

TEST(UsageLine, GoesBothWays) {
  const auto line = parse_usage_line(
      to_text({1'700'000'000'000'000, 12.5, {{0.5, 4096, 10.5, 0}, {std::nullopt, 8192}, {}}, {3.5, 1 << 30, 5, 6}}));
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
  EXPECT_EQ(line->host.cpu_cores, 3.5);
  EXPECT_EQ(line->host.memory_bytes, 1 << 30);
  EXPECT_EQ(line->host.network_in, 5);
  EXPECT_EQ(line->host.network_out, 6);
}

TEST(UsageLine, OthersAreNone) {
  const Json good = Json::parse(to_text({1, 1, {{0.5, 4096, 7, 9}}}));
  const auto parse = [](const Json& line) { return parse_usage_line(line.dump()); };
  ASSERT_TRUE(parse(good));
  for (const char* text : {"", "{}", "[]"}) EXPECT_FALSE(parse_usage_line(text)) << text;
  for (const auto& [key, value] : good.items()) {
    Json line = good;
    line.erase(key);
    EXPECT_EQ(parse(line).has_value(), key == "host") << "without " << key;  // which earlier versions did not write
    for (const Json& wrong : {Json("1"), Json::array(), Json(value.is_array() || value.is_object() ? 1 : 1e300)}) {
      line[key] = wrong;
      EXPECT_FALSE(parse(line)) << line;
    }
  }
}

TEST(UsageLine, ValuesThatAreNoAmountsAreNotKnown) {
  Json json = Json::parse(to_text({1, 1, {{}, {}, {}}}));
  for (const char* key : {"cpu_cores", "memory_bytes", "network_in_bytes_per_s", "network_out_bytes_per_s"}) {
    json[key] = {-1, 1e300, "2"};
  }
  const auto line = parse_usage_line(json.dump());
  ASSERT_TRUE(line);
  ASSERT_EQ(line->ranks.size(), 3u);
  for (const UsageLine::Rank& rank : line->ranks) {
    EXPECT_FALSE(rank.cpu_cores || rank.memory_bytes || rank.network_in || rank.network_out);
  }
}

TEST(UsageLine, ItsStepIsTheSecondOfTheRun) {
  Points points;
  add_points(points, UsageLine{5'000'000, 12.9, {{0.5, 4096}, {std::nullopt, 8192, 7, 9}}, {2.5, {}, {}, 8}});
  ASSERT_EQ(points.size(), 7u);
  EXPECT_EQ(points.at({"", "host_cpu_cores", kAllRanks}).at(0).value, 2.5);
  EXPECT_EQ(points.at({"", "host_network_out_bytes_per_s", kAllRanks}).at(0).value, 8);
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
