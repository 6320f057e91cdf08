#pragma once

// For tests: the table of values that are no number, no class or no pair (tests/golden/odd_values.json). The test of
// the Python client reads this table, too.

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>

#include "mlbench/base/json.h"
#include "mlbench/base/paths.h"

namespace mlbench {

// The rows of one part of the table.
inline Json odd_values(const std::string& part) {
  const std::filesystem::path source = environment_variable("MLBENCH_TEST_SOURCE_DIR").value();
  return read_json_file(source / "tests/golden/odd_values.json").at(part);
}

// A number of the table; "nan", "inf" and "-inf" stand for themselves.
inline double odd_value(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  return value == "inf" ? HUGE_VAL : value == "-inf" ? -HUGE_VAL : throw std::runtime_error(value.dump());
}

}  // namespace mlbench
