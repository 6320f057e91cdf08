#pragma once

// YAML as Kubernetes' files have it, as JSON.

#include <string>
#include <string_view>

#include "mlbench/base/input.h"
#include "mlbench/base/json.h"

namespace mlbench::exec::kubernetes {

// The one document of the text; JSON is YAML, too. Scalars become what YAML 1.2 says of them unquoted: null, booleans,
// whole and other numbers, text. `file`: for messages. UserError with its line for what is no YAML, holds more than one
// document, is larger or deeper than `input` may be, or has more than 100,000 values, aliases counted as what they
// stand for.
Json parse_yaml(std::string_view text, const Input& input, const std::string& file);

}  // namespace mlbench::exec::kubernetes
