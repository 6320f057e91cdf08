#pragma once

// What oneDNN says of itself and of this CPU.

#include "mlbench/base/json.h"

namespace mlbench::framework::native_framework {

// UserError, with the reason, where the CPU cannot multiply bfloat16.
void require_bfloat16();
// {"onednn": "2.6.3"}
Json onednn_versions();

}  // namespace mlbench::framework::native_framework
