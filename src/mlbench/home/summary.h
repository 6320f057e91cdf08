#pragma once

#include "mlbench/base/json.h"

namespace mlbench::home {

// What lists show of a run (schema RunSummary in api/openapi.json).
Json summary_of(const Json& record);

}  // namespace mlbench::home
