#include "mlbench/supervise/upkeep.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/host_usage.h"
#include "mlbench/base/input.h"
#include "mlbench/base/log.h"
#include "mlbench/base/process_status.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/supervise/progress.h"

namespace mlbench::supervise {
namespace {

constexpr std::chrono::seconds kLeaseInterval{1};
constexpr std::chrono::seconds kRecordInterval{2};
// The spools of a long run take time to read; the supervisor may use this share of one core for that.
constexpr double kRecordShare = 0.01;

// What all programs use of this host, in the form of what a rank uses; empty where the kernel does not say.
std::optional<exec::RankUsage> host_usage() {
  try {
    const HostUsage usage = read_host_usage();
    return exec::RankUsage{processor_seconds(usage.ticks), static_cast<int64_t>(usage.memory.used_bytes),
                           Nanoseconds(0), usage.network};
  } catch (const IoError& error) {
    spdlog::debug("{}", error.what());
    return std::nullopt;
  }
}

}  // namespace

Upkeep::Upkeep(const spec::RunSpec& run, record::RunProgress& progress, Lease& lease, const Clock& clock,
               const std::filesystem::path& powercap)
    : run_(run), progress_(progress), lease_(lease), clock_(clock), usage_log_(clock), energy_log_(powercap) {}

void Upkeep::begin_segment() {
  wall_before_s_ = progress_.wall_s;
  begin_ = clock_.now();
  usage_log_.begin_segment();
  energy_log_.begin_segment(progress_);
}

void Upkeep::end_segment(const std::optional<exec::GroupUsage>& usage) {
  count_queue();
  queued_since_.reset();
  count_time();
  if (usage) energy_log_.look(progress_, usage->energy);
  energy_log_.end_segment();
  begin_.reset();
}

void Upkeep::enter_queue(std::string note) {
  queued_since_ = clock_.now();
  queue_before_s_ = progress_.queue_s;
  progress_.state = record::RunState::kQueued;
  progress_.notes.push_back(std::move(note));
  save();
}

void Upkeep::count_queue() {
  if (queued_since_) progress_.queue_s = queue_before_s_ + to_seconds(clock_.now() - *queued_since_);
}

void Upkeep::leave_queue(const std::string& where) {
  count_queue();
  progress_.notes.back() = fmt::format("waited {:.1f} s {}", progress_.queue_s - queue_before_s_, where);
  queued_since_.reset();
}

void Upkeep::remember(const std::vector<std::optional<pid_t>>& pids) {
  for (const auto& pid : pids) {
    if (!pid) continue;
    if (const auto process = process_status(*pid)) identities_.push_back({*pid, process->start_time});
  }
}

void Upkeep::refresh_lease() {
  next_lease_ = clock_.now() + kLeaseInterval;
  try {
    lease_.refresh(identities_);
    lease_refused_ = false;
  } catch (const IoError& error) {
    if (!std::exchange(lease_refused_, true)) spdlog::error("{}", error.what());
  }
}

void Upkeep::keep_lease_fresh() {
  if (clock_.now() >= next_lease_) refresh_lease();
}

void Upkeep::update_record(const exec::GroupUsage& usage) {
  const auto now = clock_.now();
  count_time();
  measure_utilisation(usage);
  energy_log_.look(progress_, usage.energy);
  usage_log_.add(run_.run_dir, progress_.wall_s, usage, host_usage());
  save();
  const auto cost = clock_.now() - now;
  next_record_ =
      now + std::max<Nanoseconds>(kRecordInterval, std::chrono::duration_cast<Nanoseconds>(cost / kRecordShare));
}

void Upkeep::count_time() {
  if (begin_) progress_.wall_s = wall_before_s_ + to_seconds(clock_.now() - *begin_);
}

bool Upkeep::save() {
  try {
    write_progress(run_.run_dir, progress_);
    record::Record record = record::build_record(run_, progress_);
    if (energy_log_.note_goal(record, progress_)) {
      write_progress(run_.run_dir, progress_);
      record = record::build_record(run_, progress_);
    }
    write_json_file(record_path(run_.run_dir), record::to_json(record), inputs::kRecord);
    record_refused_ = false;
    return true;
  } catch (const std::exception& error) {
    if (!std::exchange(record_refused_, true)) {
      spdlog::error("cannot write the record of {} (the run goes on, and it is tried again): {}", run_.name,
                    error.what());
    }
    return false;
  }
}

void Upkeep::measure_utilisation(const exec::GroupUsage& usage) {
  if (!begin_ || usage.ranks.empty()) return;  // no rank runs yet
  double cpu_s = 0, age_s = 0;
  for (const auto& rank : usage.ranks) {
    if (!rank) return;  // a rank is gone: the last complete figure stays
    cpu_s += rank->cpu_s;
    age_s += to_seconds(rank->age);
  }
  const double seen_s = progress_.wall_s - wall_before_s_ - age_s / static_cast<double>(usage.ranks.size());
  const double cpus = run_.cpus > 0 ? run_.cpus * static_cast<double>(run_.workers) : usage.cores;
  if (seen_s > 0) progress_.utilisation = {{"cpu", cpu_s / (seen_s * cpus)}, {"gpu", nullptr}};
}

}  // namespace mlbench::supervise
