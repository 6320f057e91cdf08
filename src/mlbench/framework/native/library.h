#pragma once

// What oneDNN reports of itself and of this CPU.

#include "mlbench/base/json.h"

namespace mlbench::framework::native_framework {

// Throws UserError, with the reason, where oneDNN cannot multiply bfloat16 on this CPU.
void require_bfloat16();
// The version for the record's environment: {"onednn": "2.6.3"}.
Json onednn_versions();

}  // namespace mlbench::framework::native_framework
