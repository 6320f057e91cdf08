#pragma once

// The control plane's table of implementations: one row per executor.

#include <span>

#include "mlbench/exec/row.h"

namespace mlbench::catalog {

using exec::ExecutorRow;

std::span<const ExecutorRow> executors();

}  // namespace mlbench::catalog
