#include "mlbench/spec/algorithm.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/options.h"
#include "mlbench/base/sha256.h"
#include "mlbench/spec/task_hash.h"

namespace mlbench::spec {

namespace {

constexpr NamedAlgorithm kNamedAlgorithms[] = {
    {"centralized_sgd", "sgd", "none", "centralized"},
    {"centralized_adam", "adam", "none", "centralized"},
    {"adamw", "adamw", "none", "centralized"},
    {"lars", "lars", "none", "centralized"},
    {"lamb", "lamb", "none", "centralized"},
    {"lion", "lion", "none", "centralized"},
    {"muon", "muon", "none", "centralized"},
    {"dion", "dion", "none", "centralized"},
    {"schedule_free_sgd", "schedule_free_sgd", "none", "centralized"},
    {"schedule_free_adamw", "schedule_free_adamw", "none", "centralized"},
    {"sparsified_sgd", "sgd", "top_k", "centralized"},
    {"sign_sgd", "sgd", "sign_vote", "centralized"},
    {"ef_sign_sgd", "sgd", "ef_sign", "centralized"},
    {"qsgd", "sgd", "qsgd", "centralized"},
    {"power_sgd", "sgd", "power_sgd", "centralized"},
    {"acp_sgd", "sgd", "acp_sgd", "centralized"},
    {"local_sgd", "sgd", "none", "local"},
    {"diloco", "adamw", "none", "local"},
    {"sparse_loco", "adamw", "top_k", "local"},
    {"decentralized_sgd", "sgd", "none", "gossip"},
    {"choco_sgd", "sgd", "qsgd", "choco"},
    {"stochastic_gradient_push", "sgd", "none", "push_sum"},
    {"streaming_diloco", "adamw", "fp4", "streaming"},
};

}  // namespace

std::span<const NamedAlgorithm> named_algorithms() { return kNamedAlgorithms; }

const std::vector<NameElsewhere>& names_elsewhere() {
  static const std::string kPyTorch = "PyTorch", kMlbench = "MLBench", kCoder = "compression", kPattern = "pattern";
  static const Json kLater = {{"compression_start", 1000}}, kBlocks = {{"compression", "random_block"}};
  static const Json kBatchedLater = {{"batched", true}, {"compression_start", 1000}};
  static const std::vector<NameElsewhere> kNames = {
      {"allreduce_hook", kPyTorch, kCoder, "none"},
      {"fp16_compress_hook", kPyTorch, kCoder, "half", {{"type", "float16"}}},
      {"bf16_compress_hook", kPyTorch, kCoder, "half", {{"type", "bfloat16"}}},
      {"powerSGD_hook", kPyTorch, kCoder, "power_sgd", kLater},
      {"batched_powerSGD_hook", kPyTorch, kCoder, "power_sgd", kBatchedLater},
      {"post_localSGD_hook", kPyTorch, kPattern, "local"},
      {"PostLocalSGDOptimizer", kPyTorch, kPattern, "local"},
      {"ZeroRedundancyOptimizer", kPyTorch, kPattern, "sharded"},
      {"CentralizedSGD", kMlbench, "name", "centralized_sgd"},
      {"CentralizedAdam", kMlbench, "name", "centralized_adam"},
      {"SparsifiedSGD", kMlbench, "name", "sparsified_sgd", kBlocks},
      {"CentralizedSparsifiedSGD", kMlbench, "name", "sparsified_sgd", kBlocks},
      {"centralized_sparsified_sgd", kMlbench, "name", "sparsified_sgd", kBlocks},
      {"SignSGD", kMlbench, "name", "sign_sgd"},
      {"PowerSGD", kMlbench, "name", "power_sgd"},
      {"DecentralizedSGD", kMlbench, "name", "decentralized_sgd"},
  };
  return kNames;
}

OptimizerSpec with_names_of_ours(OptimizerSpec optimizer) {
  for (const NameElsewhere& row : names_elsewhere()) {
    if (row.chooses == "name") {
      if (optimizer.name != row.name) continue;
      optimizer.name = row.stands_for;
    } else {
      const auto chosen = optimizer.options.find(row.chooses);
      if (chosen == optimizer.options.end() || *chosen != row.name) continue;
      *chosen = row.stands_for;
    }
    for (const auto& [key, value] : row.options.items()) {
      if (!optimizer.options.contains(key)) optimizer.options[key] = value;
    }
  }
  return optimizer;
}

Json with_names_elsewhere(const std::string& chooses, Json rows) {
  for (Json& row : rows) {
    row["also"] = Json::array();
    for (const NameElsewhere& one : names_elsewhere()) {
      if (one.chooses != chooses || row["name"] != one.stands_for) continue;
      row["also"].push_back({{"name", one.name}, {"of", one.of}, {"options", one.options}});
    }
  }
  return rows;
}

void check_name(const std::string& chooses, const std::string& given, std::vector<std::string> valid) {
  const std::string what = chooses == "name" ? "optimizer" : chooses;
  for (const NameElsewhere& row : names_elsewhere()) {
    if (row.chooses == chooses) valid.push_back(row.name);
    if (row.chooses == chooses || row.name != given) continue;
    throw UserError(
        fmt::format("unknown {} '{}': {} has it as what another option chooses; expected "
                    "--set optimizer.{}={}",
                    what, given, row.of, row.chooses, row.name));
  }
  check_choice(what, given, valid);
}

Algorithm algorithm_of(const OptimizerSpec& optimizer) {
  check_name("name", optimizer.name, names_of(kNamedAlgorithms));
  const NamedAlgorithm& row = row_named(kNamedAlgorithms, "optimizer", optimizer.name);
  Algorithm algorithm{.rule = {}, .coder = {}, .pattern = {}, .options = optimizer.options};
  if (algorithm.options.is_null()) algorithm.options = Json::object();
  OptionReader options("optimizer '" + optimizer.name + "'", optimizer.options);
  algorithm.rule = options.text("rule", row.rule);
  algorithm.coder = options.text("compression", row.coder);
  algorithm.pattern = options.text("pattern", row.pattern);
  for (const char* chosen : {"rule", "compression", "pattern"}) algorithm.options.erase(chosen);
  constexpr std::string_view kTable = "optimizer.";
  for (const std::string_view key : kOutsideHash) {
    if (key.starts_with(kTable)) algorithm.options.erase(std::string(key.substr(kTable.size())));
  }
  return algorithm;
}

bool is_of_algorithm(const Override& setting) {
  return (setting.key.starts_with("optimizer.") || setting.key.starts_with("schedule.")) && !outside_hash(setting);
}

bool is_of_rates(const Override& setting) {
  return setting.key == "optimizer.lr" || (setting.key.starts_with("schedule.") && is_of_algorithm(setting));
}

std::string problem_hash_of(const Json& canonical) {
  Json problem = hashed_form(canonical);
  for (const char* key : {"optimizer", "schedule", "variant", "precision"}) problem.erase(key);
  return sha256_hex(canonical_json(problem));
}

}  // namespace mlbench::spec
