#pragma once

// Describes the keys of a task's schedule (task.h) for the readers and writers of fields.h.

#include "mlbench/spec/fields.h"
#include "mlbench/spec/task.h"

namespace mlbench::spec {

template <typename V, typename Schedule>
void describe_schedule(V& v, Schedule& schedule) {
  v.field("scaling", schedule.scaling, {.choices = kScalings});
  v.field("lr_by_workers", schedule.lr_by_workers, {.range = Range{1e-12, 1e6}});
  v.field("warmup", schedule.warmup, {.choices = kWarmups});
  v.field("warmup_epochs", schedule.warmup_epochs, {.range = Range{0, 1e7}});
  v.field("warmup_steps", schedule.warmup_steps, {.range = Range{0, 1e12}});
  v.field("warmup_from", schedule.warmup_from, {.choices = kWarmupStarts});
  v.field("warmup_factor", schedule.warmup_factor, {.range = Range{0, 1}});
  v.field("decay", schedule.decay, {.choices = kDecays});
  v.field("milestones", schedule.milestones, {.range = Range{1e-6, 1e7}});
  v.field("milestone_unit", schedule.milestone_unit, {.choices = kMilestoneUnits});
  v.field("fractions", schedule.fractions, {.range = Range{0, 1}});
  v.field("factor", schedule.factor, {.range = Range{0, 1}});
  v.field("factors", schedule.factors, {.range = Range{0, 1e6}});
  v.field("power", schedule.power, {.range = Range{0, 100}});
  v.field("shift", schedule.shift, {.range = Range{0, 1e12}});
  v.field("patience", schedule.patience, {.range = Range{0, 1e6}});
  v.field("threshold", schedule.threshold, {.range = Range{0, 1e9}});
  v.field("floor", schedule.floor, {.range = Range{0, 1}});
  v.field("by_length", schedule.by_length);
  v.field("tuned_trials", schedule.tuned_trials, {.range = Range{0, 1e9}});
}

// Checks conditions between several keys. Throws UserError by the reader's fail().
void check_schedule(const ScheduleSpec& schedule, const FieldReader& reader);

}  // namespace mlbench::spec
