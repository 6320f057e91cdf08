#include "mlbench/spec/schedule_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "mlbench/spec/run_options.h"

namespace mlbench::spec {

void check_schedule(const ScheduleSpec& schedule, const FieldReader& reader) {
  constexpr Range kWorkers{1, kMostWorkers};
  const auto require = [&](bool right, const char* path, const std::string& text) {
    if (!right) reader.fail(path, fmt::format("'{}' {}", path, text));
  };
  const auto rises = [](const std::vector<double>& values) {
    return std::is_sorted(values.begin(), values.end(), std::less_equal<>());
  };
  if (schedule.scaling == "table") {
    require(!schedule.lr_by_workers.empty(), "schedule.lr_by_workers", "is missing: 'schedule.scaling' is \"table\"");
  }
  for (const auto& [workers, lr] : schedule.lr_by_workers) {
    require(kWorkers.contains(static_cast<double>(workers)), "schedule.lr_by_workers",
            fmt::format("has a rate for {} workers; expected a number {}", workers, to_text(kWorkers)));
  }
  if (schedule.warmup == "epochs" || schedule.warmup == "worker_epochs") {
    require(schedule.warmup_epochs > 0, "schedule.warmup_epochs",
            fmt::format("must be positive: 'schedule.warmup' is \"{}\"", schedule.warmup));
  }
  if (schedule.warmup == "linear_steps" || schedule.warmup == "exponential") {
    require(schedule.warmup_steps > 0, "schedule.warmup_steps",
            fmt::format("must be positive: 'schedule.warmup' is \"{}\"", schedule.warmup));
  }
  if (schedule.warmup == "exponential") {
    require(schedule.warmup_factor > 0 && schedule.warmup_factor < 1, "schedule.warmup_factor",
            fmt::format("is {}; expected a number between 0 and 1", schedule.warmup_factor));
  }
  if (schedule.decay == "multistep" || schedule.decay == "piecewise") {
    require(!schedule.milestones.empty() && rises(schedule.milestones), "schedule.milestones",
            fmt::format("must list {} in strictly rising order: 'schedule.decay' is \"{}\"",
                        schedule.milestone_unit == "epochs" ? "epochs" : "steps", schedule.decay));
  }
  if (schedule.decay == "piecewise") {
    require(schedule.factors.size() == schedule.milestones.size(), "schedule.factors",
            fmt::format("has {} values; expected one for each of the {} milestones", schedule.factors.size(),
                        schedule.milestones.size()));
  }
  if (schedule.decay == "stable_decay" || schedule.decay == "one_cycle") {
    require(schedule.fractions.size() == 1, "schedule.fractions",
            fmt::format("has {} values; expected one: 'schedule.decay' is \"{}\"", schedule.fractions.size(),
                        schedule.decay));
  }
  if (schedule.decay == "one_cycle") {
    require(schedule.warmup == "none", "schedule.warmup",
            fmt::format("is \"{}\"; expected \"none\": \"one_cycle\" begins with a rise of its own", schedule.warmup));
  }
  if (schedule.decay == "fractions") {
    require(!schedule.fractions.empty() && rises(schedule.fractions), "schedule.fractions",
            "must list fractions of all steps in strictly rising order: 'schedule.decay' is \"fractions\"");
  }
  if (schedule.decay == "inverse_sqrt_after_warmup") {
    require(schedule.warmup != "none", "schedule.warmup",
            "is \"none\": 'schedule.decay' is \"inverse_sqrt_after_warmup\"");
  }
  constexpr std::string_view kWithFactor[] = {"multistep", "fractions", "plateau", "one_cycle"};
  if (std::ranges::count(kWithFactor, schedule.decay) > 0) {
    require(schedule.factor > 0 && schedule.factor < 1, "schedule.factor",
            fmt::format("is {}; expected a number between 0 and 1", schedule.factor));
  }
  if (schedule.decay == "plateau") {
    require(schedule.patience > 0, "schedule.patience", "must be at least 1: 'schedule.decay' is \"plateau\"");
    require(schedule.floor < 1, "schedule.floor", fmt::format("is {}; expected a fraction below 1", schedule.floor));
  }
}

}  // namespace mlbench::spec
