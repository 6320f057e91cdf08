#pragma once

// What a supervisor keeps up while ranks work: the lease and the record of the run, its wall time, and what the ranks
// use of their hosts.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/exec/executor.h"
#include "mlbench/record/build_record.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/supervise/lease.h"
#include "mlbench/supervise/usage_log.h"

namespace mlbench::supervise {

class Upkeep {
 public:
  // All outlive this. `run` says where its folder is now; the caller goes on changing `progress`.
  Upkeep(const spec::RunSpec& run, record::RunProgress& progress, Lease& lease, const Clock& clock);

  // From now on wall time counts, behind that of earlier segments; not before, whatever is written.
  void begin_segment();
  // It has not begun after all: its ranks wait in a queue. Before anything was written since begin_segment().
  void withdraw_segment() { begin_.reset(); }
  // Its ranks are gone: neither wall time nor time in a queue counts any more.
  void end_segment();
  // ---- a queue: no time of the run. The note says why it waits, and where it waited ("for the cores") at the end.
  void enter_queue(std::string note);
  void count_queue();
  void leave_queue(const std::string& where);
  bool is_queued() const { return queued_since_.has_value(); }
  // Who takes over the lease ends these.
  void remember(const std::vector<std::optional<pid_t>>& pids);

  // Writes lease and counter now. What the disk refuses is logged: the lock itself still says that the run is alive.
  void refresh_lease();
  // Each second.
  void keep_lease_fresh();

  // Every 2 s; less often where writing takes more than 1 % of the time, as it does with the spools of a long run.
  bool record_is_due() const { return clock_.now() >= next_record_; }
  // Wall time and the share of their cores that the ranks used so far, into the record.
  void update_record(const exec::GroupUsage& usage = {});
  void count_time();
  // progress.json, then run.json: whoever finds the first complete beside an older second can finish the job. False,
  // with a line in the log, when the disk refuses.
  bool save();

 private:
  void measure_utilisation(const exec::GroupUsage& usage);

  const spec::RunSpec& run_;
  record::RunProgress& progress_;
  Lease& lease_;
  const Clock& clock_;
  UsageLog usage_log_;
  std::vector<ProcessIdentity> identities_;
  double wall_before_s_ = 0;  // of earlier segments
  std::optional<TimePoint> begin_;
  double queue_before_s_ = 0;  // of earlier waits
  std::optional<TimePoint> queued_since_;
  TimePoint next_record_{}, next_lease_{};
  bool lease_refused_ = false, record_refused_ = false;  // by the disk, the last time; said once
};

}  // namespace mlbench::supervise
