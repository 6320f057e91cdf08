#pragma once

// The variables of a custom run (--env), as a specification holds them. A secret is never in it:
//
//   NAME=VALUE    the value, for all to read
//   NAME=@FILE    what FILE (absolute) holds when the ranks start, without the newline at its end
//   NAME          what the variable is for whoever starts the supervisor; nowhere on disk

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/spec/run_spec.h"

namespace mlbench::spec {

enum class ValueFrom { kText, kFile, kStarter };

struct Variable {
  std::string name;
  ValueFrom from = ValueFrom::kText;
  std::string value;  // the text, or the file
};

// UserError for what is none of the three.
Variable parse_variable(const std::string& text);

// Whether a name is one that people give to secrets: a word of it is KEY, AUTH or PASS, or ends in SECRET, TOKEN,
// PASSWORD or the like. In any case.
bool looks_secret(std::string_view name);

// UserError, which names the two other ways, for a value that would lie in the specification under such a name.
void check_variables(const std::vector<std::string>& variables);

// Those of a command; none of other runs.
std::vector<std::string> variables_of(const RunSpec& run);
// Names whose values whoever starts the run has to give.
std::vector<std::string> names_to_give(const RunSpec& run);

// Name and value of all, for a rank; those to give are taken from the environment of this process. UserError naming the
// variable that is not set and what to do; IoError for a file that cannot be read.
std::vector<std::pair<std::string, std::string>> variable_values(const RunSpec& run);

}  // namespace mlbench::spec
