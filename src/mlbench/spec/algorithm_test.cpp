#include "mlbench/spec/algorithm.h"

#include <gmock/gmock.h>

#include <set>

#include "mlbench/base/errors.h"

namespace mlbench::spec {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Algorithm, NamesStandForTheirThreeChoices) {
  const Algorithm algorithm = algorithm_of({"ef_sign_sgd", 0.1, {{"momentum", 0.9}}});
  EXPECT_EQ(algorithm, (Algorithm{"sgd", "ef_sign", "centralized", {{"momentum", 0.9}}}));
  std::set<std::string> names;
  for (const NamedAlgorithm& row : named_algorithms()) EXPECT_TRUE(names.insert(row.name).second) << row.name;
  EXPECT_THAT(
      [] {
        algorithm_of({"sdg", 0.1, Json::object()});
      },
      ThrowsMessage<UserError>(HasSubstr("optimizer 'sdg'")));
}

TEST(Algorithm, OptionsChooseOtherParts) {
  const Json options = {{"rule", "lars"}, {"compression", "top_k"}, {"pattern", "local"}, {"share", 0.01}};
  EXPECT_EQ(algorithm_of({"centralized_sgd", 0.1, options}), (Algorithm{"lars", "top_k", "local", {{"share", 0.01}}}));
}

// It does not matter what is said first. Task files and records of runs take these names, too.
TEST(Algorithm, NamesElsewhereStandForOurs) {
  const auto frozen = [](const std::vector<Override>& overrides) { return find_task("1a", "2018", "", overrides); };
  const std::string hash = frozen({}).hash;
  std::set<std::string> names;
  for (const NameElsewhere& row : names_elsewhere()) {
    SCOPED_TRACE(row.name);
    EXPECT_TRUE(names.insert(row.name).second);
    std::vector<Override> ours = {{"optimizer." + row.chooses, row.stands_for}};
    for (const auto& [key, value] : row.options.items()) ours.push_back({"optimizer." + key, value.dump()});
    const FrozenTask theirs = frozen({{"optimizer." + row.chooses, row.name}});
    EXPECT_EQ(theirs, frozen(ours));
    EXPECT_EQ(theirs.hash, hash);
    EXPECT_EQ(theirs.canonical.dump().find(row.name + "\""), std::string::npos) << "records have one name";
  }
  for (const char* name :
       {"fp16_compress_hook", "bf16_compress_hook", "powerSGD_hook", "batched_powerSGD_hook", "post_localSGD_hook",
        "ZeroRedundancyOptimizer", "CentralizedSGD", "DecentralizedSGD", "SignSGD"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  const Override hook = {"optimizer.compression", "powerSGD_hook"}, given = {"optimizer.compression_start", "2"};
  for (const std::vector<Override>& both : {std::vector{hook, given}, std::vector{given, hook}}) {
    const Algorithm algorithm = algorithm_of(frozen(both).task.optimizer);
    EXPECT_EQ(algorithm.coder, "power_sgd");
    EXPECT_EQ(algorithm.options["compression_start"], 2) << "what is given stays";
  }
  Json file = frozen({}).canonical;
  file["optimizer"]["name"] = "SignSGD";
  EXPECT_EQ(task_from_json(file).optimizer.name, "sign_sgd");
}

TEST(Algorithm, ListsHaveTheNamesElsewhere) {
  const Json rows = with_names_elsewhere("compression", {{{"name", "half"}}, {{"name", "top_k"}}});
  const Json fp16 = {{"name", "fp16_compress_hook"}, {"of", "PyTorch"}, {"options", {{"type", "float16"}}}};
  EXPECT_EQ(rows[0]["also"].size(), 2U);
  EXPECT_EQ(rows[0]["also"][0], fp16);
  EXPECT_EQ(rows[1]["also"], Json::array());
  const Json patterns = with_names_elsewhere("pattern", {{{"name", "half"}}});
  EXPECT_EQ(patterns[0]["also"], Json::array()) << "no coder is a pattern";
}

TEST(Algorithm, UnknownNamesHintAtThoseElsewhere) {
  const auto refusal = [](const std::string& chooses, const std::string& given) {
    try {
      check_name(chooses, given, {"none", "half"});
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal("compression", "half"), "none");
  EXPECT_THAT(refusal("compression", "powersgd_hook"), HasSubstr("did you mean 'powerSGD_hook'? valid: none, half, "));
  EXPECT_EQ(refusal("pattern", "powerSGD_hook"),
            "unknown pattern 'powerSGD_hook': PyTorch has it as what another option chooses; expected "
            "--set optimizer.compression=powerSGD_hook");
  EXPECT_THAT(
      [] {
        algorithm_of({"CentralisedSGD", 0.1, Json::object()});
      },
      ThrowsMessage<UserError>(HasSubstr("unknown optimizer 'CentralisedSGD': did you mean 'CentralizedSGD' or ")));
}

TEST(Algorithm, HowAGradientTravelsIsNoPartOfIt) {
  const Json options = {{"momentum", 0.9}, {"overlap", true}, {"bucket_mb", 25}, {"by_layer", false}};
  EXPECT_EQ(algorithm_of({"centralized_sgd", 0.1, options}).options, Json({{"momentum", 0.9}}));
  EXPECT_FALSE(is_of_algorithm({"optimizer.overlap", "true"}));
  EXPECT_TRUE(is_of_algorithm({"optimizer.rule", "lars"}));
  EXPECT_FALSE(is_of_rates({"optimizer.rule", "lars"}));
  for (const char* key : {"optimizer.lr", "schedule.decay"}) {
    EXPECT_TRUE(is_of_algorithm({key, "1"}) && is_of_rates({key, "1"})) << key;
  }
  EXPECT_FALSE(is_of_algorithm({"batch_size", "64"}));
}

TEST(Algorithm, AProblemIsATaskWithoutIt) {
  const auto problem = [](const std::string& variant, const std::vector<Override>& overrides) {
    return problem_hash_of(find_task("1a", "2018", variant, overrides).canonical);
  };
  const std::string usual = problem("v1-20", {});
  EXPECT_EQ(usual.size(), 64U);
  EXPECT_EQ(problem("v1-20", {{"optimizer.rule", "lars"}, {"optimizer.lr", "2"}, {"schedule.decay", "constant"}}),
            usual);
  EXPECT_EQ(problem("v1-20", {{"precision", "bf16"}, {"optimizer.overlap", "true"}}), usual);
  EXPECT_NE(problem("v1-32", {}), usual);
  EXPECT_NE(problem("v1-20", {{"batch_size", "64"}}), usual);
  EXPECT_NE(problem_hash_of(find_task("1a", "2021", "v1-20", {}).canonical), usual);
}

// Nothing but the optimizer is another one, so that runs of these variants are compared with those of the default.
TEST(Algorithm, OfficialVariantsAreTheSameProblem) {
  const FrozenTask usual = find_task("2a", "2018", "", {});
  for (const char* variant : {"local-sgd-8", "top-k-1", "ef-sign", "qsgd-4"}) {
    const FrozenTask frozen = find_task("2a", "2018", variant, {});
    EXPECT_EQ(problem_hash_of(frozen.canonical), problem_hash_of(usual.canonical)) << variant;
    EXPECT_NE(frozen.hash, usual.hash) << variant;
    EXPECT_FALSE(frozen.open) << variant;
    EXPECT_EQ(frozen.task.optimizer.lr, usual.task.optimizer.lr) << variant;
    EXPECT_EQ(frozen.task.schedule, usual.task.schedule) << variant;
    const Algorithm algorithm = algorithm_of(frozen.task.optimizer);
    EXPECT_EQ(algorithm.rule, "sgd") << variant;
    EXPECT_NE(algorithm.coder + " " + algorithm.pattern, "none centralized") << variant;
  }
}

}  // namespace
}  // namespace mlbench::spec
