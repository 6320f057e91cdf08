#pragma once

// What identifies a task, and which tasks are official: those whose hash stands in tasks/official_hashes.txt.

#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::spec {

// A key that tasks did not have at first, and its value where a task does not name it. With that value it is left out
// of the hash: so a new key changes the hashes of those tasks alone that use it.
struct LaterKey {
  std::string path;  // "limits.max_time_s"
  Json usual;
};
const std::vector<LaterKey>& later_keys();

// What is hashed of a task's canonical form: all but kOutsideHash (task.h), the list of variants (not the chosen one:
// that counts) and `later` keys at their usual value.
Json hashed_form(Json canonical, const std::vector<LaterKey>& later = later_keys());
// SHA-256 over canonical_json of that, in hexadecimal digits.
std::string hash_of(const Json& canonical);

struct OfficialTask {
  std::string hash, task, rules, variant;  // rules, variant: "" where there is none
  bool wrong_rule = false;                 // of a task file that did not say what its sources do: no run of it counts
};
// In the order of the list.
const std::vector<OfficialTask>& official_tasks();
// Whether the hash is listed, and not as of a wrong rule.
bool is_official(std::string_view hash);

}  // namespace mlbench::spec
