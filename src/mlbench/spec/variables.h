#pragma once

// The variables of a custom run (--env), as a specification holds them. The last two forms keep secrets out of it:
//
//   NAME=VALUE    the value, for all to read
//   NAME=@FILE    the content of FILE (absolute) when the ranks start, without line ends at its end
//   NAME          the variable's value in the environment of the supervisor; it is never stored on disk

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
  std::string value;  // the text, or the file; "" for kStarter
};

// Reads one of the three forms. Throws UserError for another text.
Variable parse_variable(const std::string& text);

// Whether a name is one that people give to secrets: one of its words is KEY, AUTH or PASS, or ends in SECRET, TOKEN,
// PASSWORD or the like. Case does not matter.
bool looks_secret(std::string_view name);

// Throws UserError for a value of the first form whose name looks secret, with the two other forms, and for a file that
// is no absolute path.
void check_variables(const std::vector<std::string>& variables);

// The variables of a custom run; none for other runs.
std::vector<std::string> variables_of(const RunSpec& run);
// The names of variables of the third form, whose values must be in the environment of the supervisor.
std::vector<std::string> names_to_give(const RunSpec& run);

// Names and values of all variables, for a rank. Values of the third form come from the environment of this process.
// Throws UserError, naming the variable, where such a variable is not set or a file holds no text, and IoError for a
// file that cannot be read.
std::vector<std::pair<std::string, std::string>> variable_values(const RunSpec& run);

}  // namespace mlbench::spec
