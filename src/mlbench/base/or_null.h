#pragma once

// JSON in which an empty or unknown value is null.

#include <optional>
#include <string>

#include "mlbench/base/json.h"

namespace mlbench {

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

inline Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

template <typename T>
Json positive_or_null(T value) {
  return value > T{} ? Json(value) : Json(nullptr);
}

}  // namespace mlbench
