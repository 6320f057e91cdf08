#pragma once

#include <limits>
#include <optional>

#include "mlbench/base/json.h"

namespace mlbench::record {

// A measured value: a number, or NaN for null, which is how JSON stores what is not finite. Empty for anything else.
inline std::optional<double> measured_value(const Json& value) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

}  // namespace mlbench::record
