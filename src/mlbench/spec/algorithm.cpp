#include "mlbench/spec/algorithm.h"

#include <algorithm>

#include "mlbench/base/choices.h"
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

Algorithm algorithm_of(const OptimizerSpec& optimizer) {
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
