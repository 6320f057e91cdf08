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
