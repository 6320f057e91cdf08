#pragma once

// What the ranks use of their hosts, line by line into the run's folder (record/usage_lines.h).

#include <filesystem>
#include <optional>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/exec/executor.h"
#include "mlbench/record/usage_lines.h"

namespace mlbench::supervise {

class UsageLog {
 public:
  // `clock` outlives this.
  explicit UsageLog(const Clock& clock) : clock_(clock) {}
  // The ranks are others from now on.
  void begin_segment() { before_.clear(); }
  // A line, where something is known of a rank. One that the disk refuses is lost.
  void add(const std::filesystem::path& run_dir, double wall_s, const exec::GroupUsage& usage);

 private:
  struct Seen {
    double cpu_s = 0;
    std::optional<NetworkBytes> network;
    TimePoint time;
  };
  // Cores in use, and bytes per second, since the look before; nothing where there is no later one.
  record::UsageLine::Rank used_since(std::optional<Seen>& before, const exec::RankUsage& usage) const;

  const Clock& clock_;
  std::vector<std::optional<Seen>> before_;  // of each rank
};

}  // namespace mlbench::supervise
