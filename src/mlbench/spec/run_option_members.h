#pragma once

// Shared by the readers of rows of options, run_options.cpp and run_options_json.cpp, and used only there.

#include <string>
#include <variant>
#include <vector>

#include "mlbench/spec/run_options.h"

namespace mlbench::spec {

// Calls `text`, `list`, `flag` or `object` with the option's member in `options`; none for an option of an executor.
template <typename Given, typename Text, typename List, typename Flag, typename Object>
void visit_member(const RunOption& option, Given& options, const Text& text, const List& list, const Flag& flag,
                  const Object& object) {
  if (const auto* one = std::get_if<std::string RunOptions::*>(&option.member)) text(options.**one);
  if (const auto* many = std::get_if<std::vector<std::string> RunOptions::*>(&option.member)) list(options.**many);
  if (const auto* set = std::get_if<bool RunOptions::*>(&option.member)) flag(options.**set);
  if (const auto* whole = std::get_if<Json RunOptions::*>(&option.member)) object(options.**whole);
}

}  // namespace mlbench::spec
