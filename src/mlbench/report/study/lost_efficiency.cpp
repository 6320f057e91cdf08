#include "mlbench/report/study/lost_efficiency.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "mlbench/report/draw/figure.h"

namespace mlbench::report {

namespace {

constexpr double kNearlyNothing = 0.05;

double& part_in(TimeParts& parts, TimePart part) { return parts[static_cast<size_t>(part)]; }

}  // namespace

std::string_view name_of(TimePart part) {
  static constexpr std::array<std::string_view, kTimeParts> kNames = {"compute", "waiting", "communication", "input",
                                                                      "other"};
  return kNames[static_cast<size_t>(part)];
}

std::string_view meaning_of(TimePart part) {
  switch (part) {
    case TimePart::kCompute:
      return "slower computation";
    case TimePart::kWaiting:
      return "waiting for the slowest rank";
    case TimePart::kCommunication:
      return "exchange that no computation hides";
    case TimePart::kInput:
      return "waiting for batches";
    case TimePart::kOther:
      return "metrics and checkpoints";
  }
  return "";
}

double total_of(const TimeParts& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

TimePart largest_of(const TimeParts& parts) {
  return static_cast<TimePart>(std::ranges::max_element(parts) - parts.begin());
}

double part_of(const TimeParts& parts, TimePart part) { return parts[static_cast<size_t>(part)]; }

std::optional<WorkerTime> worker_time(const TimeSums& sums, double train_s, int64_t workers, double work) {
  const auto seconds = [&](const char* kind) { return spec::find_number(sums.steps_s, kind); };
  const auto compute = compute_seconds(sums.steps_s);
  if (train_s <= 0 || !compute) return std::nullopt;
  WorkerTime time{.workers = workers, .work = work};
  const record::Exchange exchange = sums.exchange.value_or(record::Exchange{});
  const double aggregation = seconds("agg").value_or(0);
  const bool hides = of_rank_0(exchange.hidden_s).value_or(0) > 0;
  const double waited = hides ? 0 : of_rank_0(exchange.wait_s).value_or(0);
  part_in(time.seconds, TimePart::kCompute) = *compute;
  part_in(time.seconds, TimePart::kWaiting) = std::min(waited, aggregation);
  part_in(time.seconds, TimePart::kCommunication) = std::max(0.0, aggregation - waited);
  part_in(time.seconds, TimePart::kInput) = seconds("batch_load").value_or(0);
  part_in(time.seconds, TimePart::kOther) = train_s - total_of(time.seconds);
  time.exact = hides || exchange.exact || aggregation == 0;
  return time;
}

std::optional<LostEfficiency> lost_efficiency(const WorkerTime& baseline, const WorkerTime& here) {
  const auto workers = static_cast<double>(here.workers), baseline_workers = static_cast<double>(baseline.workers);
  const double before = baseline_workers * total_of(baseline.seconds), now = workers * total_of(here.seconds);
  if (now - before <= kNearlyNothing * now) return std::nullopt;
  LostEfficiency found;
  found.lost = 1 - before / now;
  found.exact = baseline.exact && here.exact;
  found.more_work = (here.work / baseline.work - 1) * before / (now - before);
  for (size_t i = 0; i < kTimeParts; ++i) {
    const double grown = workers * here.seconds[i] - here.work / baseline.work * baseline_workers * baseline.seconds[i];
    found.shares[i] = grown / (now - before);
  }
  return found;
}

std::string largest_loss_words(const LostEfficiency& lost) {
  const TimePart part = largest_of(lost.shares);
  const double most = part_of(lost.shares, part);
  const bool work = lost.more_work > most;
  const char* bound = "";
  if (!lost.exact && !work && part == TimePart::kWaiting) bound = "at least ";
  if (!lost.exact && !work && part == TimePart::kCommunication) bound = "at most ";
  const double share = work ? lost.more_work : most;
  constexpr double kAll = 0.995;  // above it where other causes are gains
  return fmt::format("{}, {}{} of the lost efficiency", work ? "more steps to the goal" : meaning_of(part), bound,
                     share < kAll ? format_percent(share) : "all");
}

Json to_json(const LostEfficiency& lost) {
  Json shares = {{"more_work", lost.more_work}};
  for (size_t i = 0; i < kTimeParts; ++i) {
    shares[std::string(name_of(static_cast<TimePart>(i)))] = lost.shares[i];
  }
  return {{"lost", lost.lost}, {"exact", lost.exact}, {"shares", shares}};
}

}  // namespace mlbench::report
