#include "mlbench/supervise/energy_log.h"

#include <algorithm>
#include <map>
#include <string>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/base/log.h"
#include "mlbench/record/record_fields.h"

namespace mlbench::supervise {
namespace {

// A goal is on record some looks after it was reached.
constexpr size_t kMostLooks = 1000;

record::Energy energy_in(const Json& progress) {
  if (!progress.is_object()) return {};
  try {
    return record::read_part<record::Energy>(progress, "the energy of earlier segments");
  } catch (const UserError& error) {
    spdlog::warn("{}", error.what());
    return {};
  }
}

using HostsByName = std::map<std::string, record::HostEnergy>;

void add(HostsByName& hosts, const exec::HostEnergy& more) {
  const auto [place, added] = hosts.try_emplace(more.host, record::HostEnergy{more.host, more.meter, more.joules});
  if (added) return;
  record::HostEnergy& known = place->second;
  if (!more.meter.empty()) known.meter = more.meter;
  known.joules = known.joules && more.joules ? std::optional(*known.joules + *more.joules) : std::nullopt;
}

// Empty where the energy of a host is not known.
std::optional<double> sum_of(const std::vector<record::HostEnergy>& hosts) {
  double sum = 0;
  for (const record::HostEnergy& one : hosts) {
    if (!one.joules) return std::nullopt;
    sum += *one.joules;
  }
  return sum;
}

// The wall time at which the run reached its goal; empty where it did not, or by a metric of training steps.
std::optional<double> wall_to_goal(const record::Record& record) {
  if (!record.goal || !record.goal->reached) return std::nullopt;
  const auto met = std::ranges::find_if(record.evaluations, [&](const record::Evaluation& evaluation) {
    return evaluation.step && evaluation.step == record.goal->step && evaluation.split == record.goal->split;
  });
  return met == record.evaluations.end() ? std::nullopt : met->wall_s;
}

}  // namespace

void EnergyLog::begin_segment(const record::RunProgress& progress) {
  meter_.emplace(folder_);
  before_ = energy_in(progress.energy);
  looks_.clear();
  remember(progress.wall_s, sum_of(before_.hosts));
}

void EnergyLog::look(record::RunProgress& progress, const std::vector<exec::HostEnergy>& elsewhere) {
  if (!meter_) return;
  HostsByName hosts;
  for (const record::HostEnergy& one : before_.hosts) hosts[one.host] = one;
  for (const exec::HostEnergy& one : elsewhere) add(hosts, one);
  if (elsewhere.empty()) {
    const auto joules = meter_->problem().empty() ? std::optional(meter_->joules()) : std::nullopt;
    add(hosts, {host_name(), meter_->name(), joules});
  }
  record::Energy energy;
  for (auto& [name, one] : hosts) energy.hosts.push_back(std::move(one));
  energy.joules = sum_of(energy.hosts);
  energy.to_goal_joules = energy_in(progress.energy).to_goal_joules;
  remember(progress.wall_s, energy.joules);
  progress.energy = record::written(energy);
}

void EnergyLog::remember(double wall_s, std::optional<double> joules) {
  if (!joules) return;
  looks_.push_back({wall_s, *joules});
  if (looks_.size() > kMostLooks) looks_.pop_front();
}

bool EnergyLog::note_goal(const record::Record& record, record::RunProgress& progress) const {
  const auto goal_s = wall_to_goal(record);
  if (!goal_s || !progress.energy.is_object() || !progress.energy["to_goal_joules"].is_null()) return false;
  const auto after = std::ranges::find_if(looks_, [&](const Look& look) { return look.wall_s >= *goal_s; });
  if (after == looks_.end() || after == looks_.begin()) return false;
  const Look& before = *std::prev(after);
  const double share = (*goal_s - before.wall_s) / (after->wall_s - before.wall_s);
  progress.energy["to_goal_joules"] = before.joules + share * (after->joules - before.joules);
  return true;
}

}  // namespace mlbench::supervise
