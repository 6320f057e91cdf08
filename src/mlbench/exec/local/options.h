#pragma once

#include "mlbench/exec/options.h"

namespace mlbench::exec::local {

inline constexpr spec::RunOption kOptions[] = {kImageOption};

}  // namespace mlbench::exec::local
