#pragma once

#include "mlbench/exec/facts.h"
#include "mlbench/exec/options.h"

namespace mlbench::exec::local {

inline constexpr ExecutorFacts kFacts = {.on_this_host = true, .shares_hosts = true};

inline constexpr spec::RunOption kOptions[] = {kImageOption};

}  // namespace mlbench::exec::local
