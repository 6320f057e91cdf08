#pragma once

// The hash that identifies a task. Official tasks are those whose hash stands in tasks/official_hashes.txt.

#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::spec {

// A key that was added after tasks had been hashed. With its default, the key is left out of the hash, so that a new
// key changes only the hashes of tasks that use it.
struct LaterKey {
  std::string path;  // "limits.max_time_s"
  Json usual;        // the default
};
const std::vector<LaterKey>& later_keys();

// The part of a task's canonical form that is hashed: without kOutsideHash (task.h), without the list of variants (the
// chosen variant stays) and the task's own choice of a framework, and without `later` keys that have their defaults.
Json hashed_form(Json canonical, const std::vector<LaterKey>& later = later_keys());
// The SHA-256 of canonical_json() of the hashed form, in hexadecimal digits.
std::string hash_of(const Json& canonical);

struct OfficialTask {
  std::string hash, task, rules, variant;  // rules, variant: "" where there is none
  bool wrong_rule = false;                 // the task file did not say what its sources say: no run of it counts
};
// All lines of tasks/official_hashes.txt, in that order.
const std::vector<OfficialTask>& official_tasks();
// Whether the hash is listed without the mark of a wrong rule.
bool is_official(std::string_view hash);

}  // namespace mlbench::spec
