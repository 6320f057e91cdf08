#pragma once

// The rows of catalog/options as flags of a verb.

#include <string>

#include "mlbench/spec/run_options.h"

namespace CLI {
class App;
}

namespace mlbench::cli {

// The flag, or the positional, that gives this member, with type, group, range and default in its help. `help` replaces
// the table's text where a verb means something else by it; its groups are those of `run`. `options` outlives the verb,
// and `option` is of catalog::run_options().
void add_run_option(CLI::App& verb, spec::RunOptions& options, spec::RunOption::Member member,
                    const std::string& help = "");
void add_run_option(CLI::App& verb, spec::RunOptions& options, const spec::RunOption& option,
                    const std::string& help = "");
// All of them: the options of `run`.
void add_run_options(CLI::App& verb, spec::RunOptions& options);

}  // namespace mlbench::cli
