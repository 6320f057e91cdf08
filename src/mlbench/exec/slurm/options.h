#pragma once

// The options of the executor slurm.

#include <cstdint>
#include <string>
#include <vector>

#include "mlbench/base/input.h"
#include "mlbench/exec/facts.h"
#include "mlbench/exec/options.h"

namespace mlbench::exec::slurm {

inline constexpr ExecutorFacts kFacts = {.shares_hosts = true};

// clang-format off
inline constexpr spec::RunOption kOptions[] = {
    kRanksPerHostOption,
    {.name = "slurm", .flags = "--slurm-option", .kind = OptionKind::kTexts, .range = spec::kListRange,
     .value = "KEY[=VALUE]",
     .help = "option of sbatch, as it is: partition=short (repeatable)", .compared = "slurm"},
    {.name = "setup", .flags = "--setup", .kind = OptionKind::kText, .value = "FILE",
     .help = "lines of shell that the job runs before its ranks: module load ...",
     .compared = "setup", .form = text_of_64k, .content = &inputs::kSetup},
    kScratchOption,
    kImageOption,
    kRequeueOption,
};
// clang-format on

struct Options {
  int64_t ranks_per_host = 0;           // 0: as Slurm places them
  std::vector<std::string> slurm = {};  // KEY or KEY=VALUE: each is an option of sbatch, without its --
  std::string setup = {};
  std::string scratch = {};  // "": /tmp
  std::string image = {};    // "": ranks are programs of their hosts
};
// Throws UserError for options that the executor does not take, and for a --slurm-option that option_line() refuses.
Options read_options(const Json& engine);

}  // namespace mlbench::exec::slurm
