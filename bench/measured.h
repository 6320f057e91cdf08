#pragma once

// What programs that measure have in common: medians, and turns with another program (ratio.Turns of bench/ratio.py).

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench {

// The larger one of the two in the middle. Precondition: there is a value.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Prints a line when warm. Then it prints what `turn` measures for each line of the input, until that ends.
inline void take_turns(const std::function<Json()>& turn) {
  const auto say = [](const Json& json) {
    fmt::print("{}\n", json.dump());
    std::fflush(stdout);
  };
  say({{"warm", true}});
  for (std::string line; std::getline(std::cin, line);) say(turn());
}

}  // namespace mlbench
