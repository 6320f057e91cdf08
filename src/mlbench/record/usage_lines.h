#pragma once

// What the ranks of a run used of their hosts over time, as the supervisor saw it: JSON lines in RUN/spool/usage.jsonl.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench::record {

struct UsageLine {
  struct Rank {
    std::optional<double> cpu_cores;      // in use, in the mean since the look before
    std::optional<int64_t> memory_bytes;  // resident
    // Bytes per second, likewise, over the network of its pod or host, of all that use it; of several ranks there the
    // first has them.
    std::optional<double> network_in = {}, network_out = {};
  };
  int64_t time_us = 0;      // Unix epoch
  double wall_s = 0;        // of the run: `clocks.wall_s`
  std::vector<Rank> ranks;  // by their numbers; empty members: not known
};

// Without the line's end.
std::string to_text(const UsageLine& line);
// Empty for what is no such line within its limits (base/input.h).
std::optional<UsageLine> parse_usage_line(std::string_view text);

}  // namespace mlbench::record
