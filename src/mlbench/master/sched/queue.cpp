#include "mlbench/master/sched/queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "mlbench/base/text.h"

namespace mlbench::master {
namespace {

// What running jobs, and those before in the queue, occupy.
class Taken {
 public:
  explicit Taken(int64_t cores) : cores_(cores) {}

  bool fits(const Job& job) const {
    if (job.hosts.empty()) return with_engines_ < kMostWithEngines;
    return std::ranges::all_of(job.hosts, [&](const std::string& host) {
      const auto found = shared_.find(host);
      const int64_t used = found == shared_.end() ? 0 : found->second;
      return !alone_.contains(host) && (used == 0 || (job.cores > 0 && used + job.cores <= cores_));
    });
  }

  void take(const Job& job) {
    if (job.hosts.empty()) ++with_engines_;
    for (const std::string& host : job.hosts) {
      if (job.cores > 0) {
        shared_[host] += job.cores;
      } else {
        alone_.insert(host);
      }
    }
  }

  // Reserves the hosts of a job that waits: what becomes free of them is kept for it.
  void keep_free(const Job& job) {
    if (job.hosts.empty()) with_engines_ = kMostWithEngines;
    alone_.insert(job.hosts.begin(), job.hosts.end());
  }

 private:
  const int64_t cores_;
  std::set<std::string> alone_;
  std::map<std::string, int64_t> shared_;  // cores in use
  int64_t with_engines_ = 0;
};

}  // namespace

std::optional<std::string> refusal(const Cluster& cluster, int64_t workers) {
  if (cluster.oversubscribes || workers <= cluster.slots) return std::nullopt;
  return fmt::format("{} workers do not fit on cluster '{}', which has {}", workers, cluster.name,
                     counted(cluster.slots, "slot"));
}

std::vector<size_t> startable(const Cluster& cluster, const std::vector<Job>& running,
                              const std::vector<Job>& waiting) {
  Taken taken(cluster.slots);
  for (const Job& job : running) {
    if (!job.no_wait) taken.take(job);
  }
  std::vector<size_t> result;
  for (size_t i = 0; i < waiting.size(); ++i) {
    const Job& job = waiting[i];
    if (job.no_wait) {
      result.push_back(i);
    } else if (taken.fits(job)) {
      taken.take(job);
      result.push_back(i);
    } else {
      taken.keep_free(job);
    }
  }
  return result;
}

}  // namespace mlbench::master
