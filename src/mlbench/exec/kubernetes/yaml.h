#pragma once

// Reads YAML, as Kubernetes' files have it, as JSON.

#include <string>
#include <string_view>

#include "mlbench/base/input.h"
#include "mlbench/base/json.h"

namespace mlbench::exec::kubernetes {

// The one document of `text`, which may be JSON, since JSON is YAML. Unquoted scalars become what YAML 1.2 says of
// them: null, booleans, whole and other numbers, text. Throws UserError with `file` and the line for text that is no
// YAML, or has more than one document. Throws it also for text that is larger than `input` may be, nested deeper than
// kDeepestNesting, or has more than 100,000 values. An alias counts as what it stands for.
Json parse_yaml(std::string_view text, const Input& input, const std::string& file);

}  // namespace mlbench::exec::kubernetes
