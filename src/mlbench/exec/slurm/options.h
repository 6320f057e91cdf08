#pragma once

// What Slurm is told beside the run.

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
  int64_t ranks_per_host = 0;           // 0: as Slurm says
  std::vector<std::string> slurm = {};  // KEY or KEY=VALUE: each as it is behind -- for sbatch
  std::string setup = {};
  std::string scratch = {};  // "": /tmp
  std::string image = {};    // "": ranks are programs of their hosts
};
// UserError for what it does not take, and options of sbatch that are none or mlbench's own.
Options read_options(const Json& engine);

}  // namespace mlbench::exec::slurm
