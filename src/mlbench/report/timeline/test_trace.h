#pragma once

// Reads traces that trace.h wrote, for tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "mlbench/base/input.h"
#include "mlbench/base/json.h"

namespace mlbench::report {

inline constexpr Input kWholeTrace{"a trace", size_t{64} << 20};

// The member `name`, which is microseconds with three decimals, as nanoseconds.
inline int64_t ns_of(const Json& event, const char* name) { return std::llround(event.at(name).get<double>() * 1000); }

// The events of each row {process, thread}, sorted by their beginning and then with longer ones first.
inline std::map<std::pair<int64_t, int64_t>, std::vector<Json>> rows_of(const Json& trace) {
  std::map<std::pair<int64_t, int64_t>, std::vector<Json>> rows;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") rows[{event.at("pid").get<int64_t>(), event.at("tid").get<int64_t>()}].push_back(event);
  }
  for (auto& [row, events] : rows) {
    std::ranges::stable_sort(events, {},
                             [](const Json& event) { return std::pair(ns_of(event, "ts"), -ns_of(event, "dur")); });
  }
  return rows;
}

inline void expect_nested(const Json& trace) {
  for (const auto& [row, events] : rows_of(trace)) {
    std::vector<int64_t> ends;
    for (const Json& event : events) {
      const int64_t begin = ns_of(event, "ts"), end = begin + ns_of(event, "dur");
      while (!ends.empty() && ends.back() <= begin) ends.pop_back();
      EXPECT_LE(end, ends.empty() ? end : ends.back()) << event.dump();
      ends.push_back(end);
    }
  }
}

}  // namespace mlbench::report
