#include "mlbench/spec/task_hash.h"

#include <algorithm>
#include <span>
#include <sstream>

#include "mlbench/base/embedded_file.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/sha256.h"
#include "mlbench/spec/task.h"

namespace mlbench {
std::span<const EmbeddedFile> embedded_official_hashes();  // made by mlbench_embed()
}

namespace mlbench::spec {

namespace {

// The table that holds the key at a dotted path, and the key; null where there is no such table.
std::pair<Json*, std::string> place_of(Json& root, std::string_view path) {
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return {root.is_object() ? &root : nullptr, std::string(path)};
  const auto table = root.find(path.substr(0, dot));
  if (table == root.end()) return {nullptr, ""};
  return place_of(*table, path.substr(dot + 1));
}

void erase(Json& root, std::string_view path) {
  if (const auto [table, key] = place_of(root, path); table != nullptr) table->erase(key);
}

}  // namespace

const std::vector<LaterKey>& later_keys() {
  static const std::vector<LaterKey> kKeys = {
      {"limits.max_time_s", 0},
      {"data.batching", "samples"},
      {"data.bptt", 0},
      {"data.bptt_deviation", 0},
      {"data.short_probability", 0},
      {"data.evaluation_batch", 0},
      {"data.holdout", 0},
      {"data.max_length", 0},
      {"data.evaluation_max_length", 0},
      {"data.length_multiple", 1},
      {"data.pad", 4},
      {"global_batch", 0},
      {"batch_scaling", "none"},
      {"loss_divisor", "weight"},
      {"label_smoothing", 0},
      {"decoding.min_length", 0},
      {"schedule.warmup_steps", 0},
      {"schedule.warmup_from", "lr"},
      {"schedule.warmup_factor", 0},
      {"schedule.by_length", false},
      {"schedule.factors", Json::array()},
      {"schedule.power", 1},
      {"schedule.shift", 1},
      {"schedule.fractions", Json::array()},
      {"schedule.milestone_unit", "epochs"},
  };
  return kKeys;
}

Json hashed_form(Json canonical, const std::vector<LaterKey>& later) {
  for (const std::string_view path : kOutsideHash) erase(canonical, path);
  canonical.erase("variants");
  canonical.erase("framework");
  for (const LaterKey& key : later) {
    const auto [table, name] = place_of(canonical, key.path);
    if (table == nullptr || table->value(name, Json()) != key.usual) continue;
    table->erase(name);
    // A table that has only later keys is removed with them.
    if (const size_t dot = key.path.rfind('.'); dot != std::string::npos && table->empty()) {
      erase(canonical, std::string_view(key.path).substr(0, dot));
    }
  }
  return canonical;
}

std::string hash_of(const Json& canonical) { return sha256_hex(canonical_json(hashed_form(canonical))); }

const std::vector<OfficialTask>& official_tasks() {
  static const std::vector<OfficialTask> kTasks = [] {
    std::vector<OfficialTask> tasks;
    std::istringstream lines{std::string(embedded_official_hashes().front().text)};
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line.starts_with('#')) continue;
      std::istringstream words(line);
      OfficialTask one;
      std::string mark;
      words >> one.hash >> one.task >> one.rules >> one.variant >> mark;
      MLBENCH_CHECK(!one.variant.empty(), "official_hashes.txt: a line without hash, task, rules and variant");
      for (std::string* word : {&one.rules, &one.variant}) {
        if (*word == "-") word->clear();
      }
      one.wrong_rule = mark == "wrong-rule";
      MLBENCH_CHECK(mark.empty() || one.wrong_rule, "official_hashes.txt: an unknown mark");
      tasks.push_back(std::move(one));
    }
    return tasks;
  }();
  return kTasks;
}

bool is_official(std::string_view hash) {
  return std::ranges::any_of(official_tasks(),
                             [&](const OfficialTask& one) { return one.hash == hash && !one.wrong_rule; });
}

}  // namespace mlbench::spec
