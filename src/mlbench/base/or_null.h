#pragma once

#include <optional>

#include "mlbench/base/json.h"

namespace mlbench {

// What is empty is null as JSON.
template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace mlbench
