#pragma once

// Writes what the ranks use of their hosts, and all programs of this host, into the run's folder, line by line
// (record/usage_lines.h).

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
  void begin_segment() { before_.clear(); }  // the host goes on
  // Adds a line where the usage of any rank is known. `host` is what all programs use of this host; empty where that is
  // not known. A line that the disk refuses is lost.
  void add(const std::filesystem::path& run_dir, double wall_s, const exec::GroupUsage& usage,
           const std::optional<exec::RankUsage>& host);

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
  std::optional<Seen> host_before_;
};

}  // namespace mlbench::supervise
