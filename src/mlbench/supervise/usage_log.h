#pragma once

// Writes what the ranks use of their hosts into the run's folder, line by line (record/usage_lines.h).

#include <filesystem>
#include <optional>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/exec/executor.h"
#include "mlbench/record/usage_lines.h"

namespace mlbench::supervise {

class UsageLog {
 public:
  // Precondition: `clock` outlives this object.
  explicit UsageLog(const Clock& clock) : clock_(clock) {}
  // New ranks run from now on.
  void begin_segment() { before_.clear(); }
  // Adds a line where the usage of any rank is known. A line that the disk refuses is lost.
  void add(const std::filesystem::path& run_dir, double wall_s, const exec::GroupUsage& usage);

 private:
  struct Seen {
    double cpu_s = 0;
    std::optional<NetworkBytes> network;
    TimePoint time;
  };
  // Cores in use and bytes per second since the look `before`; empty where `usage` is not newer.
  record::UsageLine::Rank used_since(std::optional<Seen>& before, const exec::RankUsage& usage) const;

  const Clock& clock_;
  std::vector<std::optional<Seen>> before_;  // the last look at each rank
};

}  // namespace mlbench::supervise
