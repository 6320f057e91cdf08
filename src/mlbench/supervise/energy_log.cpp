#include "mlbench/supervise/energy_log.h"

#include <algorithm>

#include "mlbench/base/environment.h"
#include "mlbench/base/json.h"

namespace mlbench::supervise {
namespace {

// A goal is on record some looks after it was reached.
constexpr size_t kMostLooks = 1000;

double joules_of(const Json& energy) {
  return energy.is_object() && energy.contains("joules") && energy["joules"].is_number()
             ? energy["joules"].get<double>()
             : 0;
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
  if (!meter_->problem().empty()) meter_.reset();
  joules_before_ = joules_of(progress.energy);
  looks_.clear();
  looks_.push_back({progress.wall_s, joules_before_});
}

void EnergyLog::look(record::RunProgress& progress) {
  if (!meter_) return;
  const Look now{progress.wall_s, joules_before_ + meter_->joules()};
  looks_.push_back(now);
  if (looks_.size() > kMostLooks) looks_.pop_front();
  if (!progress.energy.is_object()) progress.energy = {{"to_goal_joules", nullptr}};
  progress.energy["host"] = host_name();
  progress.energy["meter"] = meter_->name();
  progress.energy["joules"] = now.joules;
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
