#include "mlbench/spec/collectives.h"

#include <gmock/gmock.h>

#include <set>

#include "mlbench/base/test_error.h"
#include "mlbench/spec/collectives_options.h"

namespace mlbench::spec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Every field different from its default.
CollectivesSpec full_collectives() {
  CollectivesSpec spec;
  spec.operations = {Collective::kAllToAllV, Collective::kReduce};
  spec.dtypes = {DType::kBFloat16, DType::kInt8};
  spec.reductions = {Reduction::kAvg, Reduction::kProd};
  spec.root = kEveryRoot;
  spec.sizes = {4, 100, 12, 1};
  spec.counts = {1, 17};
  spec.out_of_place = false;
  spec.iterations = 7;
  spec.warm_up = 0;
  spec.aggregated = 3;
  spec.cycles = 2;
  spec.window = 8;
  spec.average = RankAverage::kMean;
  spec.blocking = true;
  spec.check = 2;
  spec.most_seconds_per_size = 1.5;
  spec.least_iterations = 4;
  spec.timeout_s = 9;
  spec.raw_times = true;
  spec.misaligned_elements = 1;
  spec.misaligned_bytes = 3;
  spec.communicator_memory = true;
  spec.pairs = {true, true, 16, 1024, 9, 2.5};
  return spec;
}

TEST(Collectives, TheTableIsInTheOrderOfTheEnumeration) {
  for (const CollectiveTraits& one : collectives()) EXPECT_EQ(traits_of(one.operation).name, one.name);
  EXPECT_EQ(collectives().size(), static_cast<size_t>(Collective::kBidirectionalBandwidth) + 1);
}

TEST(Collectives, NamesAreReadAsOthersWriteThem) {
  for (const CollectiveTraits& one : collectives()) {
    EXPECT_EQ(collective_named(std::string(one.name)), one.operation) << one.name;
  }
  EXPECT_EQ(collective_named("AllReduce"), Collective::kAllReduce);
  EXPECT_EQ(collective_named("all_reduce_perf"), Collective::kAllReduce);
  EXPECT_EQ(collective_named("alltoall_perf"), Collective::kAllToAll);
  EXPECT_EQ(collective_named("osu_bibw"), Collective::kBidirectionalBandwidth);
  EXPECT_EQ(collective_named("osu_bcast"), Collective::kBroadcast);
  EXPECT_EQ(collective_named("sendrecv_perf"), Collective::kSendRecv);
  EXPECT_THAT(error_of([] { collective_named("all_reduse"); }),
              testing::AllOf(HasSubstr("unknown operation 'all_reduse'"), HasSubstr("did you mean 'all_reduce'")));
}

TEST(Collectives, RawTimesFitIntoARow) {
  CollectivesSpec spec;
  spec.raw_times = true;
  spec.iterations = 12'500;
  check_collectives(spec, 2);
  EXPECT_THAT(
      error_of([&] { check_collectives(spec, 3); }),
      HasSubstr("--raw-times of 12500 iterations on 3 ranks in 2 forms are more than the 50000 times that a row "
                "holds: at most 8333 iterations (-n)"));
}

TEST(Collectives, AMatrixOfPairsHasItsSize) {
  CollectivesSpec spec;
  spec.pairs.measure = true;
  EXPECT_EQ(error_of([&] { check_collectives(spec, kMostPairRanks); }), "no error");
  for (const int64_t ranks : {int64_t{1}, kMostPairRanks + 1}) {
    EXPECT_THAT(error_of([&] { check_collectives(spec, ranks); }), HasSubstr("for 2 to 150 ranks")) << ranks;
  }
}

TEST(Collectives, TypesHaveTwoNames) {
  EXPECT_EQ(dtype_named("float"), DType::kFloat32);
  EXPECT_EQ(dtype_named("float32"), DType::kFloat32);
  EXPECT_EQ(dtype_named("half"), DType::kFloat16);
  std::set<std::string_view> names;
  for (const DType dtype : collective_dtypes()) {
    names.insert(nccl_name_of(dtype));
    EXPECT_EQ(dtype_named(std::string(nccl_name_of(dtype))), dtype);
  }
  EXPECT_EQ(names.size(), 8u);
  EXPECT_THAT(error_of([] { dtype_named("float8"); }), HasSubstr("valid: float32, float64, float16, bfloat16, int8"));
}

TEST(Collectives, SizesAreInPowersOf1024) {
  EXPECT_EQ(parse_size("8", "-b"), 8);
  EXPECT_EQ(parse_size("0", "-b"), 0);
  EXPECT_EQ(parse_size("1K", "-b"), 1024);
  EXPECT_EQ(parse_size("32m", "-b"), 32 << 20);
  EXPECT_EQ(parse_size("1G", "-b"), 1 << 30);
  EXPECT_EQ(parse_size("1.5K", "-b"), 1536);
  for (const char* wrong : {"", "K", "-1", "1KB", "1T", "0.3K", "1e3", "0x10", " 1", "nan", "inf", "2000G"}) {
    EXPECT_THAT(error_of([&] { parse_size(wrong, "-b"); }),
                HasSubstr("expected whole bytes from 0 to 1024G, such as 8, 4K, 1.5M or 1G"))
        << wrong;
  }
  EXPECT_EQ(size_text(8), "8");
  EXPECT_EQ(size_text(1536), "1.5K");
  EXPECT_EQ(size_text(1025), "1025");
  EXPECT_EQ(size_text(32 << 20), "32M");
}

TEST(Collectives, SizesGrowByAFactorOrAStep) {
  CollectivesSpec spec;
  const CollectiveCase floats{.dtype = DType::kFloat32}, bytes{.dtype = DType::kInt8};
  spec.sizes = {.begin_bytes = 8, .end_bytes = 100, .factor = 3};
  EXPECT_THAT(counts_of(spec, floats), ElementsAre(2, 6, 18));
  EXPECT_THAT(counts_of(spec, bytes), ElementsAre(8, 24, 72));
  EXPECT_EQ(most_buffer_bytes(spec), 72);
  spec.sizes = {.begin_bytes = 0, .end_bytes = 10, .step_bytes = 5, .factor = 1};
  EXPECT_THAT(counts_of(spec, bytes), ElementsAre(0, 5, 10));
  EXPECT_THAT(counts_of(spec, floats), ElementsAre(0, 1, 2)) << "whole elements";
  spec.counts = {3, 1};
  EXPECT_THAT(counts_of(spec, floats), ElementsAre(3, 1));
  EXPECT_EQ(most_buffer_bytes(spec), 12);
  EXPECT_THAT(counts_of(spec, {.operation = Collective::kBarrier}), ElementsAre(0));
}

// Cases are operation x type x reduction x root, each where the operation has it.
TEST(Collectives, WhichCombinationsThereAre) {
  CollectivesSpec spec;
  spec.operations = {Collective::kReduce, Collective::kAllGather, Collective::kBarrier};
  spec.dtypes = {DType::kFloat32, DType::kInt8};
  spec.reductions = {Reduction::kSum, Reduction::kMax};
  spec.root = kEveryRoot;
  const std::vector<CollectiveCase> cases = cases_of(spec, 3);
  ASSERT_EQ(cases.size(), size_t{2 * 2 * 3 + 2 + 1});
  EXPECT_EQ(cases[0], (CollectiveCase{Collective::kReduce, DType::kFloat32, Reduction::kSum, 0}));
  EXPECT_EQ(cases[2].root, 2);
  EXPECT_EQ(cases[3].reduction, Reduction::kMax);
  EXPECT_EQ(cases[12], (CollectiveCase{Collective::kAllGather, DType::kFloat32, std::nullopt, -1}));
  EXPECT_EQ(cases[14].operation, Collective::kBarrier);
  spec.root = 1;
  EXPECT_EQ(cases_of(spec, 3).size(), size_t{4 + 2 + 1});
  EXPECT_EQ(cases_of(spec, 3)[0].root, 1);
}

TEST(Collectives, WhatDoesNotFitIsRefused) {
  const auto wrong = [](void (*change)(CollectivesSpec&), int64_t ranks = 2) {
    return error_of([&] {
      CollectivesSpec spec;
      change(spec);
      check_collectives(spec, ranks);
    });
  };
  EXPECT_EQ(wrong([](CollectivesSpec&) {}), "no error");
  EXPECT_EQ(wrong([](CollectivesSpec& spec) { spec.operations.clear(); }), "no operation is given");
  EXPECT_EQ(wrong([](CollectivesSpec& spec) {
              spec.operations.clear();
              spec.pairs.measure = true;
            }),
            "no error");
  EXPECT_EQ(wrong([](CollectivesSpec& spec) { spec.operations = {Collective::kSendRecv}; }, 1),
            "the operation 'sendrecv' needs at least 2 ranks, this run has 1");
  EXPECT_EQ(wrong([](CollectivesSpec& spec) {
              spec.operations = {Collective::kReduce};
              spec.root = 2;
            }),
            "the root (-r) is 2; expected a rank from 0 to 1, or all");
  EXPECT_THAT(wrong([](CollectivesSpec& spec) { spec.pairs.measure = true; }, 1),
              HasSubstr("the matrix of pairs is for 2 to 150 ranks, this run has 1"));
  EXPECT_EQ(wrong([](CollectivesSpec& spec) {
              spec.sizes = {64, 32, 1, 2};
            }),
            "the smallest size (-b 64) is above the largest one (-e 32)");
  EXPECT_THAT(wrong([](CollectivesSpec& spec) { spec.sizes = {0, 32, 1, 2}; }), HasSubstr("give a step (-i)"));
  EXPECT_THAT(wrong([](CollectivesSpec& spec) {
                spec.sizes = {0, 1 << 20, 1, 1};
              }),
              HasSubstr("more than 10000 sizes"));
  EXPECT_EQ(wrong([](CollectivesSpec& spec) { spec.iterations = 0; }),
            "the number of iterations (-n) is 0; expected a whole number from 1 to 1000000");
  EXPECT_EQ(wrong([](CollectivesSpec& spec) { spec.dtypes = {DType::kInt8, DType::kInt8}; }), "a type is given twice");
  EXPECT_THAT(wrong([](CollectivesSpec& spec) { spec.in_place = spec.out_of_place = false; }), HasSubstr("neither"));
  EXPECT_THAT(wrong([](CollectivesSpec& spec) {
                spec.check_every = 2;
                spec.aggregated = 4;
              }),
              HasSubstr("leave one of both out"));
}

TEST(Collectives, JsonIsExactlyInvertible) {
  for (const CollectivesSpec& spec : {full_collectives(), CollectivesSpec(), task_0a()}) {
    const Json json = to_json(spec);
    const CollectivesSpec back = collectives_from_json(Json::parse(json.dump()));
    EXPECT_EQ(back, spec) << json.dump();
    EXPECT_EQ(to_json(back).dump(), json.dump());
  }
  CollectivesSpec pairs_alone;
  pairs_alone.operations.clear();
  pairs_alone.pairs.measure = true;
  EXPECT_EQ(collectives_from_json(to_json(pairs_alone)), pairs_alone);
}

TEST(Collectives, TheInversionIsTriedOnOtherValuesThanTheDefaults) {
  const Json full = to_json(full_collectives()), defaults = to_json(CollectivesSpec());
  for (const auto& [key, value] : full.items()) {
    if (key == "in_place" || key == "check_every") continue;  // each excludes another field
    EXPECT_NE(defaults.at(key), value) << key;
  }
}

TEST(Collectives, WrongJsonIsNamed) {
  const auto error_with = [](const char* pointer, const Json& value) {
    Json json = to_json(full_collectives());
    json[Json::json_pointer(pointer)] = value;
    return error_of([&] { collectives_from_json(json, "x.json"); });
  };
  EXPECT_THAT(error_with("/iterations", 0),
              HasSubstr("x.json: 'iterations' is 0; expected a number from 1 to 1000000"));
  EXPECT_THAT(error_with("/average", "median"), HasSubstr("; valid: rank0, avg, min, max"));
  EXPECT_THAT(error_with("/operations", {"all"}), HasSubstr("x.json: unknown operation 'all'"));
  EXPECT_THAT(error_with("/sizes/begin_bytes", "8"), HasSubstr("'sizes.begin_bytes' is \"8\"; expected an integer"));
  EXPECT_THAT(error_with("/more", 1), HasSubstr("unknown key 'more'"));
  EXPECT_THAT(error_of([] { collectives_from_json(Json::array()); }), HasSubstr("expected an object"));
}

// The values that numpy gives for np.logspace(0, 8, num=80).astype(int).
TEST(Task0a, Sizes) {
  const std::vector<int64_t> counts = task_0a_counts();
  ASSERT_EQ(counts.size(), 80u);
  EXPECT_THAT(std::vector<int64_t>(counts.begin(), counts.begin() + 12),
              ElementsAre(1, 1, 1, 2, 2, 3, 4, 5, 6, 8, 10, 12));
  EXPECT_EQ(counts[39], 8899);
  EXPECT_EQ(counts[78], 79'201'640);
  EXPECT_EQ(counts[79], 100'000'000);
  EXPECT_TRUE(std::is_sorted(counts.begin(), counts.end()));
}

TEST(Task0a, WhatOpensIt) {
  EXPECT_THAT(deviations_from_task_0a(task_0a()), IsEmpty());
  CollectivesSpec spec = task_0a();
  spec.dtypes = {DType::kFloat16};
  spec.out_of_place = true;
  spec.cycles = 3;
  spec.check = 5;
  EXPECT_THAT(deviations_from_task_0a(spec), IsEmpty());
  spec.most_seconds_per_size = 1;
  spec.dtypes.push_back(DType::kInt8);
  spec.iterations = 99;
  EXPECT_THAT(deviations_from_task_0a(spec), ElementsAre("types", "iterations", "a cap on the time of a size"));
}

CollectivesOptions asked_for(const std::string& operation) {
  CollectivesOptions options;
  options.operations = {operation};
  return options;
}

TEST(CollectivesOptions, NothingButAnOperationGivesTheDefaults) {
  EXPECT_EQ(collectives_spec(asked_for("all_reduce")), CollectivesSpec());
}

TEST(CollectivesOptions, EachFlagSetsItsField) {
  CollectivesOptions options;
  options.operations = {"reduce", "broadcast"};
  options.given["minbytes"] = "1K";
  options.given["maxbytes"] = "1M";
  options.given["stepfactor"] = "4";
  options.given["op"] = "prod,avg";
  options.given["datatype"] = "half,int8";
  options.given["root"] = "all";
  options.given["iters"] = "50";
  options.given["warmup-iters"] = "0";
  options.given["run-cycles"] = "3";
  options.given["average"] = "1";
  options.given["check"] = "0";
  options.given["blocking"] = "1";
  options.given["local-register"] = "1";
  options.given["timeout"] = "2m";
  options.given["form"] = "in_place";
  options.given["misalign"] = "1";
  options.given["misalign-bytes"] = "2";
  options.given["max-time-per-size"] = "1.5";
  options.given["min-iters"] = "2";
  options.given["window"] = "16";
  options.given["pairs"] = "true";
  options.given["pair-bytes"] = "1M";
  options.given["raw-times"] = "true";
  CollectivesSpec expected;
  expected.operations = {Collective::kReduce, Collective::kBroadcast};
  expected.sizes = {1024, 1 << 20, 1 << 20, 4};
  expected.reductions = {Reduction::kProd, Reduction::kAvg};
  expected.dtypes = {DType::kFloat16, DType::kInt8};
  expected.root = kEveryRoot;
  expected.iterations = 50;
  expected.warm_up = 0;
  expected.cycles = 3;
  expected.average = RankAverage::kMean;
  expected.check = 0;
  expected.blocking = true;
  expected.communicator_memory = true;
  expected.timeout_s = 120;
  expected.out_of_place = false;
  expected.misaligned_elements = 1;
  expected.misaligned_bytes = 2;
  expected.most_seconds_per_size = 1.5;
  expected.least_iterations = 2;
  expected.window = 16;
  expected.pairs.measure = true;
  expected.pairs.bandwidth_bytes = 1 << 20;
  expected.raw_times = true;
  EXPECT_EQ(collectives_spec(options), expected);
}

TEST(CollectivesOptions, ListsAndAll) {
  EXPECT_EQ(collectives_spec(asked_for("all")).operations.size(), collectives().size());
  CollectivesOptions options = asked_for("all_reduce");
  options.given["datatype"] = options.given["op"] = "all";
  EXPECT_EQ(collectives_spec(options).dtypes.size(), 8u);
  EXPECT_EQ(collectives_spec(options).reductions.size(), 5u);
  options.given["counts"] = "0a";
  EXPECT_EQ(collectives_spec(options).counts, task_0a_counts());
  options.given["counts"] = "1,17,4";
  EXPECT_THAT(collectives_spec(options).counts, ElementsAre(1, 17, 4));
}

TEST(CollectivesOptions, OneEndOfTheSizesAlone) {
  CollectivesOptions options = asked_for("all_reduce");
  options.given["minbytes"] = "64M";
  EXPECT_EQ(collectives_spec(options).sizes.end_bytes, 64 << 20) << "one size";
  options.given["minbytes"] = "";
  options.given["maxbytes"] = "4";
  EXPECT_EQ(collectives_spec(options).sizes.begin_bytes, 4);
  options.given["stepbytes"] = "2";
  EXPECT_EQ(collectives_spec(options).sizes.factor, 1);
}

TEST(CollectivesOptions, ErrorsNameTheFlag) {
  const auto error_with = [](const char* name, const char* text) {
    CollectivesOptions options = asked_for("all_reduce");
    options.given[name] = text;
    return error_of([&] { collectives_spec(options); });
  };
  EXPECT_THAT(error_with("minbytes", "1X"), HasSubstr("--minbytes '1X' is not a size"));
  EXPECT_THAT(error_with("iters", "many"), HasSubstr("--iters 'many' is not a whole number"));
  EXPECT_THAT(error_with("average", "4"), HasSubstr("--average '4' is not a whole number from 0 to 3"));
  EXPECT_THAT(error_with("op", "sum,mean"), HasSubstr("--op: unknown reduction 'mean'"));
  EXPECT_THAT(error_with("form", "inplace"), HasSubstr("did you mean 'in_place'"));
  EXPECT_THAT(error_with("run-cycles", "0"), HasSubstr("never end"));
  CollectivesOptions options = asked_for("all_reduce");
  options.given["counts"] = "1";
  options.given["stepfactor"] = "2";
  EXPECT_THAT(error_of([&] { collectives_spec(options); }), HasSubstr("--counts gives sizes in elements"));
  EXPECT_THAT(error_of([] { collectives_spec({}); }), HasSubstr("no operation is given"));
}

TEST(CollectivesOptions, EveryFlagHasOneRow) {
  std::set<std::string> flags;
  for (const CollectivesOption& option : collectives_options()) {
    EXPECT_FALSE(option.help.empty()) << option.flags;
    std::string all(option.flags);
    for (size_t at = 0; at <= all.size();) {
      const size_t end = std::min(all.find(',', at), all.size());
      EXPECT_TRUE(flags.insert(all.substr(at, end - at)).second) << all;
      at = end + 1;
    }
  }
}

}  // namespace
}  // namespace mlbench::spec
