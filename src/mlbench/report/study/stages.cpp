#include "mlbench/report/study/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace mlbench::report {

namespace {

constexpr double kLead = 1.25, kShare = 0.5, kWaits = 0.1;
constexpr double kMostOfAStep = 1.15, kLeastOfAStep = 0.7;

StageVerdict not_known(const std::string& why) {
  StageVerdict verdict;
  verdict.text = "not known: " + why;
  return verdict;
}

}  // namespace

std::string_view name_of(Stage stage) {
  static constexpr std::array<std::string_view, kStages> kNames = {"read", "decode", "compute", "exchange"};
  return kNames[static_cast<size_t>(stage)];
}

StageVerdict stage_verdict(const StageTimes& alone, const StepTime& step) {
  if (!step.seconds || *step.seconds <= 0 || !step.waited_for_data_s) {
    return not_known("the run has no time of its steps");
  }
  std::array<double, kStages> seconds{};
  std::array<Stage, kStages> order{};
  for (size_t i = 0; i < kStages; ++i) {
    order[i] = static_cast<Stage>(i);
    if (!alone[i]) return not_known(fmt::format("{} was not measured alone", name_of(order[i])));
    seconds[i] = *alone[i];
  }
  const auto time_of = [&](Stage stage) { return seconds[static_cast<size_t>(stage)]; };
  std::ranges::stable_sort(order, std::ranges::greater(), time_of);
  const Stage slowest = order[0], next = order[1];
  const double share = time_of(slowest) / *step.seconds;
  if (share > kMostOfAStep) {
    return not_known(fmt::format("{} alone takes {:.2f} times the step", name_of(slowest), share));
  }
  if (const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0) / *step.seconds; all < kLeastOfAStep) {
    return not_known(fmt::format("the stages take {:.0f} % of the step, something else the rest", 100 * all));
  }

  StageVerdict verdict;
  verdict.kind = StageVerdict::Kind::kBalanced;
  verdict.slowest = slowest;
  verdict.share = share;
  std::string numbers = fmt::format("alone {:.0f} % of the step", 100 * share);
  if (time_of(next) > 0) {
    verdict.lead = time_of(slowest) / time_of(next);
    numbers += fmt::format(", {:.2f} times {}", verdict.lead, name_of(next));
  }
  const double waits = *step.waited_for_data_s / *step.seconds;
  const bool input = slowest == Stage::kRead || slowest == Stage::kDecode;
  const bool leads = verdict.lead == 0 || verdict.lead >= kLead;
  if (leads && share >= kShare && input == (waits >= kWaits)) {
    verdict.kind = StageVerdict::Kind::kNamed;
    verdict.text = fmt::format("{}: {}", name_of(slowest), numbers);
  } else {
    verdict.text = fmt::format("balanced: the slowest is {}, {}; the step waits for data for {:.0f} %",
                               name_of(slowest), numbers, 100 * waits);
  }
  return verdict;
}

Json to_json(const StageVerdict& verdict) {
  using Kind = StageVerdict::Kind;
  const bool known = verdict.kind != Kind::kNotKnown;
  return {{"kind", !known                         ? "not known"
                   : verdict.kind == Kind::kNamed ? "named"
                                                  : "balanced"},
          {"stage", known ? Json(name_of(*verdict.slowest)) : Json()},
          {"share", known ? Json(verdict.share) : Json()},
          {"lead", known && verdict.lead > 0 ? Json(verdict.lead) : Json()},
          {"text", verdict.text}};
}

}  // namespace mlbench::report
