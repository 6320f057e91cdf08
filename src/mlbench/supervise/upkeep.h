#pragma once

// Keeps up, while ranks work, the lease and the record of the run, its wall time, and what the ranks use of their
// hosts.

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/exec/executor.h"
#include "mlbench/record/build_record.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/supervise/energy_log.h"
#include "mlbench/supervise/lease.h"
#include "mlbench/supervise/usage_log.h"

namespace mlbench::supervise {

class Upkeep {
 public:
  // Precondition: all arguments outlive this object. `run` names the folder at its present place. The caller keeps
  // changing `progress`.
  // `powercap` is the folder of the energy meter.
  Upkeep(const spec::RunSpec& run, record::RunProgress& progress, Lease& lease, const Clock& clock,
         const std::filesystem::path& powercap = kPowercap);

  // Wall time counts from now on, added to that of earlier segments.
  void begin_segment();
  // Undoes begin_segment(): the ranks wait in a queue. Precondition: nothing was written since begin_segment().
  void withdraw_segment() {
    begin_.reset();
    energy_log_.end_segment();
  }
  // The ranks are gone: neither wall time nor time in a queue counts any more. `usage` is the last that was known of
  // them; empty where they never ran.
  void end_segment(const std::optional<exec::GroupUsage>& usage = {});
  // ---- a queue, whose time is not the run's. The note says why it waits and, at the end, where ("for the cores").
  void enter_queue(std::string note);
  void count_queue();
  void leave_queue(const std::string& where);
  bool is_queued() const { return queued_since_.has_value(); }
  // Adds the processes that whoever takes over the lease must end.
  void remember(const std::vector<std::optional<pid_t>>& pids);

  // Writes lease and counter now. A refusal of the disk is logged; the lock itself still says that the run is alive.
  void refresh_lease();
  // Calls refresh_lease() where the last call is a second ago.
  void keep_lease_fresh();

  // True every 2 s; less often where writing takes more than 1 % of the time, as with the spools of a long run.
  bool record_is_due() const { return clock_.now() >= next_record_; }
  // Writes wall time, energy, and the share of their cores that the ranks used so far into the record.
  void update_record(const exec::GroupUsage& usage = {});
  void count_time();
  // Writes progress.json, then run.json: whoever finds a new first and an old second can finish the record. Returns
  // false, and logs it, where the disk refuses.
  bool save();

 private:
  void measure_utilisation(const exec::GroupUsage& usage);

  const spec::RunSpec& run_;
  record::RunProgress& progress_;
  Lease& lease_;
  const Clock& clock_;
  UsageLog usage_log_;
  EnergyLog energy_log_;
  std::vector<ProcessIdentity> identities_;
  double wall_before_s_ = 0;  // wall time of earlier segments
  std::optional<TimePoint> begin_;
  double queue_before_s_ = 0;  // time of earlier waits
  std::optional<TimePoint> queued_since_;
  TimePoint next_record_{}, next_lease_{};
  bool lease_refused_ = false, record_refused_ = false;  // whether the disk refused the last time; logged once
};

}  // namespace mlbench::supervise
