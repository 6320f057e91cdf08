#include "mlbench/record/collectives.h"

#include <gmock/gmock.h>

#include <cmath>

#include "mlbench/base/test_error.h"

namespace mlbench::record {
namespace {

using testing::HasSubstr;

TEST(TimeSummary, PercentilesByHand) {
  const std::vector<double> values = {10, 20, 30, 40, 50};
  EXPECT_EQ(percentile(values, 0), 10);
  EXPECT_EQ(percentile(values, 0.5), 30);
  EXPECT_EQ(percentile(values, 1), 50);
  EXPECT_DOUBLE_EQ(percentile(values, 0.95), 48);  // place 3.8: 40 + 0.8 * 10
  EXPECT_DOUBLE_EQ(percentile(values, 0.1), 14);   // place 0.4
  EXPECT_EQ(percentile(std::vector<double>{7}, 0.99), 7);
}

TEST(TimeSummary, ByHand) {
  const TimeSummary summary = summarise({4, 2, 9, 5});
  EXPECT_EQ(summary.count, 4);
  EXPECT_EQ(summary.min_us, 2);
  EXPECT_EQ(summary.max_us, 9);
  EXPECT_EQ(summary.mean_us, 5);
  EXPECT_EQ(summary.p50_us, 4.5);
  EXPECT_DOUBLE_EQ(summary.p95_us, 8.4);                    // place 2.85: 5 + 0.85 * 4
  EXPECT_DOUBLE_EQ(summary.p99_us, 8.88);                   // place 2.97
  EXPECT_DOUBLE_EQ(summary.stdev_us, std::sqrt(26.0 / 3));  // 1 + 9 + 16 + 0
  EXPECT_DOUBLE_EQ(summary.cv, std::sqrt(26.0 / 3) / 5);
  EXPECT_EQ(summary.p50_low_us, std::nullopt) << "four times say too little";
  const TimeSummary one = summarise({3});
  EXPECT_EQ(one.stdev_us, 0);
  EXPECT_EQ(one.cv, 0);
}

// P(B <= j) for B binomial (n, 1/2): 1/128 for n = 7, j = 0; 1/512 and 10/512 for n = 9; 21/2^20 and 211/2^20 and
// 1351/2^20 and 6196/2^20 (0.0059) and 21700/2^20 (0.0207) for n = 20, j = 1 to 5.
TEST(TimeSummary, TheIntervalOfTheMedianIsMadeOfOrderStatistics) {
  EXPECT_EQ(median_interval(0), std::nullopt);
  EXPECT_EQ(median_interval(6), std::nullopt);
  EXPECT_EQ(median_interval(7), std::pair(size_t{0}, size_t{6}));
  EXPECT_EQ(median_interval(9), std::pair(size_t{0}, size_t{8}));
  EXPECT_EQ(median_interval(20), std::pair(size_t{4}, size_t{15}));
  EXPECT_EQ(median_interval(100), std::pair(size_t{38}, size_t{61}));
  const auto exact = median_interval(1000), approximate = median_interval(1001);
  EXPECT_NEAR(static_cast<double>(exact->first), 464, 1);
  EXPECT_NEAR(static_cast<double>(approximate->first), static_cast<double>(exact->first), 2);
  EXPECT_LE(approximate->first, exact->first + 1);
  const TimeSummary summary = summarise({7, 1, 6, 2, 5, 3, 4});
  EXPECT_EQ(summary.p50_low_us, 1);
  EXPECT_EQ(summary.p50_high_us, 7);
}

CollectiveForm full_form() {
  CollectiveForm form;
  form.time_us = 12.125;
  form.alg_bw = 0.1;
  form.bus_bw = 0.15;
  form.wrong = 3;
  form.iterations = summarise({1, 2, 3, 4, 5, 6, 7});
  form.copies = true;
  form.capped = true;
  form.raw_times_us = {{1, 2}, {3, 4}};
  return form;
}

TEST(CollectiveRow, JsonIsExactlyInvertible) {
  CollectiveRow full{"all_reduce", 2, 64, 16, "float32", "avg", -1, full_form(), full_form()};
  full.device = "cuda";
  const CollectiveRow bare{"reduce", 1, 64, 16, "bfloat16", "sum", 3, std::nullopt, CollectiveForm{}};
  const CollectiveRow barrier{"barrier", 1, 0, 0, "", "", -1, full_form(), std::nullopt};
  for (const CollectiveRow& row : {full, bare, barrier}) {
    const Json json = to_json(row);
    EXPECT_EQ(collective_row_from_json(Json::parse(json.dump()), "here"), row) << json.dump(1);
  }
}

TEST(CollectiveRow, HasTheNamesOfNcclTests) {
  const CollectiveRow row{"all_reduce", 1, 64, 16, "float32", "sum", -1, full_form(), std::nullopt};
  const Json json = to_json(row);
  EXPECT_EQ(json["size"], 64);
  EXPECT_EQ(json["count"], 16);
  EXPECT_EQ(json["type"], "float");
  EXPECT_EQ(json["redop"], "sum");
  EXPECT_EQ(json["root"], -1);
  EXPECT_EQ(json["out_of_place"]["time"], 12.125);
  EXPECT_EQ(json["out_of_place"]["alg_bw"], 0.1);
  EXPECT_EQ(json["out_of_place"]["bus_bw"], 0.15);
  EXPECT_EQ(json["out_of_place"]["nwrong"], 3);
  EXPECT_EQ(json["in_place"], nullptr);
  EXPECT_EQ(json["actual_iterations"], 7);
  const Json barrier = to_json(CollectiveRow{"barrier", 1, 0, 0, "", "", -1, CollectiveForm{}, std::nullopt});
  EXPECT_EQ(barrier["type"], "none");
  EXPECT_EQ(barrier["redop"], "none");
  EXPECT_EQ(barrier["out_of_place"]["nwrong"], nullptr);
}

TEST(CollectiveRow, WrongJsonIsNamed) {
  const auto error_with = [](const char* pointer, const Json& value) {
    Json json = to_json(CollectiveRow{"all_reduce", 1, 64, 16, "float32", "sum", -1, full_form(), full_form()});
    json[Json::json_pointer(pointer)] = value;
    return error_of([&] { collective_row_from_json(json, "a.json, results[3]"); });
  };
  EXPECT_THAT(error_with("/in_place/time", "fast"), HasSubstr("a.json, results[3]: 'in_place.time' is \"fast\""));
  EXPECT_THAT(error_with("/size", nullptr), HasSubstr("'size' is null; expected an integer"));
  EXPECT_THAT(error_with("/operation", "all"), HasSubstr("unknown operation"));
  EXPECT_THAT(error_with("/dtype", "float7"), HasSubstr("unknown type"));
  EXPECT_THAT(error_with("/redop", "=1+1"), HasSubstr("unknown reduction"));
  EXPECT_THAT(error_with("/device", "tpu"), HasSubstr("'device' is \"tpu\": did you mean 'cpu'? valid: cpu, cuda"));
  EXPECT_EQ(error_with("/of_a_later_version", 1), "no error");
  EXPECT_THAT(error_of([] { collective_row_from_json(7, "x"); }), HasSubstr("x: expected an object, got 7"));
}

TEST(PairMatrix, JsonIsExactlyInvertible) {
  PairMatrix pairs;
  pairs.hosts = {"node-1", "node-2"};
  pairs.latency_bytes = 8;
  pairs.bandwidth_bytes = 65536;
  pairs.window = 64;
  pairs.disjoint = true;
  pairs.latency_us = {{0, 1.5}, {2.5, 0}};
  pairs.bandwidth = {{0, 10}, {5, 0}};
  pairs.slow = {{"bandwidth", "direction", {1, 0}, {"node-2", "node-1"}, 0.5}};
  pairs.verdict = "slow";
  const Json json = to_json(pairs);
  EXPECT_EQ(json["latency"][0][0], nullptr);
  EXPECT_EQ(json["latency"][0][1], 1.5);
  EXPECT_EQ(pair_matrix_from_json(Json::parse(json.dump()), "here"), pairs);
  Json small = json;
  small["latency"].erase(1);
  EXPECT_THAT(error_of([&] { pair_matrix_from_json(small, "x"); }), HasSubstr("not as large as 'hosts' says"));
}

}  // namespace
}  // namespace mlbench::record
