#pragma once

// What the ranks of a run used of their hosts over time, and all programs of the supervisor's host, as the supervisor
// saw it: JSON lines in RUN/spool/usage.jsonl.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench::record {

struct UsageLine {
  struct Rank {
    std::optional<double> cpu_cores;      // in use: the mean since the sample before
    std::optional<int64_t> memory_bytes;  // resident
    // Bytes per second, the mean since the sample before, over the network of the rank's pod or host, by all that use
    // it. Of several ranks there, only the first has them.
    std::optional<double> network_in = {}, network_out = {};
  };
  int64_t time_us = 0;      // Unix epoch
  double wall_s = 0;        // the run's `clocks.wall_s`
  std::vector<Rank> ranks;  // by rank; an empty member is not known
  Rank host = {};           // the supervisor's host, by all programs together
};

// The text of a line, without its end.
std::string to_text(const UsageLine& line);
// Empty for a text that is no such line within the limits (base/input.h).
std::optional<UsageLine> parse_usage_line(std::string_view text);

}  // namespace mlbench::record
