#pragma once

// The algorithm of a task: its distributed optimizer, which is three choices. A *rule* says what is done with a
// gradient, a *coder* what is sent of it, a *pattern* who exchanges what with whom, and when (docs/optimizers/).

#include <span>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/spec/task.h"

namespace mlbench::spec {

// What the name of an optimizer stands for, where its options `rule`, `compression` and `pattern` do not say otherwise.
struct NamedAlgorithm {
  const char* name;
  const char* rule;
  const char* coder;
  const char* pattern;
};
std::span<const NamedAlgorithm> named_algorithms();

// A name by which PyTorch or MLBench has a part or a combination, and what comes nearest to it here, with those of its
// defaults that differ. docs/optimizers/ says what else differs.
struct NameElsewhere {
  std::string name;
  std::string of;       // "PyTorch" or "MLBench"
  std::string chooses;  // the option that takes it: "name", "compression" or "pattern"
  std::string stands_for;
  Json options = Json::object();  // which it stands for as well, where they are not given
};
const std::vector<NameElsewhere>& names_elsewhere();

// With names of ours in the place of those elsewhere, and the options of these.
OptimizerSpec with_names_of_ours(OptimizerSpec optimizer);

// Adds to the rows of a list, of what that option chooses, a member "also": the names elsewhere, [{name, of, options}].
Json with_names_elsewhere(const std::string& chooses, Json rows);

// Throws UserError unless `given` is one of `valid`, what that option chooses from. The text also hints at names
// elsewhere, and names the option of one that another option chooses.
void check_name(const std::string& chooses, const std::string& given, std::vector<std::string> valid);

struct Algorithm {
  std::string rule, coder, pattern;
  // The options of the three as the optimizer has them, without those outside of the task's hash (kOutsideHash).
  Json options = Json::object();
  bool operator==(const Algorithm&) const = default;
};

// Throws UserError for a name without a row, and for an option of the three that is no text.
Algorithm algorithm_of(const OptimizerSpec& optimizer);

// Whether an override chooses the algorithm or its rates: a key of the tables `optimizer` and `schedule` that counts in
// the task's hash.
bool is_of_algorithm(const Override& setting);
// Whether it chooses the rates: `optimizer.lr`, or a key of the table `schedule`.
bool is_of_rates(const Override& setting);

// Names what a task asks for, whatever algorithm it is given: the hash of its canonical form without the tables
// `optimizer` and `schedule`, and without what runs are compared by beside the task (its variant's name and precision).
std::string problem_hash_of(const Json& canonical);

}  // namespace mlbench::spec
