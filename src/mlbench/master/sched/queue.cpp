#include "mlbench/master/sched/queue.h"

#include <fmt/format.h>

namespace mlbench::master {

std::optional<std::string> refusal(const Cluster& cluster, int64_t workers) {
  if (cluster.oversubscribes || workers <= cluster.slots) return std::nullopt;
  return fmt::format("{} workers do not fit on cluster '{}', which has {} slot{}", workers, cluster.name, cluster.slots,
                     cluster.slots == 1 ? "" : "s");
}

std::vector<size_t> startable(const Cluster& cluster, const std::vector<Job>& running,
                              const std::vector<Job>& waiting) {
  int64_t used = 0;
  for (const Job& job : running) {
    if (!cluster.oversubscribes) used += job.workers;
    if (cluster.oversubscribes && !job.no_wait) used = cluster.slots;
  }
  std::vector<size_t> result;
  bool blocked = false;
  for (size_t i = 0; i < waiting.size(); ++i) {
    const Job& job = waiting[i];
    if (cluster.oversubscribes && job.no_wait) {
      result.push_back(i);
      continue;
    }
    const int64_t needed = cluster.oversubscribes ? cluster.slots : job.workers;
    blocked = blocked || used + needed > cluster.slots;
    if (blocked) continue;
    used += needed;
    result.push_back(i);
  }
  return result;
}

}  // namespace mlbench::master
