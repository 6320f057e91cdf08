#pragma once

// Makes flags of a verb from the rows of catalog/options.

#include <string>
#include <string_view>
#include <vector>

#include "mlbench/spec/run_options.h"

namespace CLI {
class App;
}

namespace mlbench::cli {

// Adds the flag, or the positional, that sets `member` of `options`, with type, group, range and default in its help.
// `help` replaces the row's text where the option means something else for this verb. Groups are those of `run`.
// Precondition: `options` outlives the verb, and `option` is one of catalog::run_options().
void add_run_option(CLI::App& verb, spec::RunOptions& options, spec::RunOption::Member member,
                    const std::string& help = "");
void add_run_option(CLI::App& verb, spec::RunOptions& options, const spec::RunOption& option,
                    const std::string& help = "");
// Adds all options of `run`.
void add_run_options(CLI::App& verb, spec::RunOptions& options);
// Adds all options of `run` but those of commands, and those that the verb sets itself (`set_here`).
void add_run_options(CLI::App& verb, spec::RunOptions& options, const std::vector<std::string_view>& set_here);

}  // namespace mlbench::cli
