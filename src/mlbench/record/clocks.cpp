#include "mlbench/record/clocks.h"

#include <algorithm>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/record/events.h"

namespace mlbench::record {

Clocks derive_clocks(const std::vector<RankSpool>& segments_of_one_rank, const Moment& until) {
  Clocks clocks;
  int64_t segment = 0;
  for (const RankSpool& spool : segments_of_one_rank) {
    if (++segment > until.segment) break;
    for (const StepRecord& record : spool.steps) {
      if (segment == until.segment && record.first_step + record.count > until.step) break;
      for (size_t kind = 0; kind < kStepKinds; ++kind) clocks.kinds_ns[kind] += record.kinds_ns[kind];
      clocks.steps += record.count;
      clocks.samples += static_cast<int64_t>(record.samples);
    }
  }
  for (const int64_t ns : clocks.kinds_ns) clocks.train_ns += ns;
  clocks.train_legacy_ns = clocks.train_ns - clocks.kinds_ns[static_cast<size_t>(StepKind::kBatchLoad)] -
                           clocks.kinds_ns[static_cast<size_t>(StepKind::kCheckpoint)];
  return clocks;
}

spec::NamedNumbers seconds_by_kind(const Clocks& clocks) {
  spec::NamedNumbers seconds;
  for (size_t kind = 0; kind < kStepKinds; ++kind) {
    seconds.emplace_back(kStepKindNames[kind], to_seconds(clocks.kinds_ns[kind]));
  }
  return seconds;
}

std::optional<double> accelerator_utilisation(const spec::NamedNumbers& steps_s) {
  const auto waits = spec::find_number(steps_s, "batch_load");
  if (!waits) return std::nullopt;
  double passes = 0;
  for (const char* kind : {"fwd_pass", "comp_loss", "backprop"}) {
    passes += spec::find_number(steps_s, kind).value_or(0);
  }
  return passes > 0 ? std::optional(passes / (passes + *waits)) : std::nullopt;
}

std::optional<std::vector<double>> waited_for_data_s(const std::vector<std::vector<RankSpool>>& ranks) {
  std::vector<double> waited_s;
  for (const auto& segments : ranks) {
    const Clocks clocks = derive_clocks(segments);
    if (clocks.steps == 0) return std::nullopt;
    waited_s.push_back(to_seconds(clocks.kinds_ns[static_cast<size_t>(StepKind::kBatchLoad)]));
  }
  return waited_s;
}

std::optional<double> median_rate(const std::vector<RankSpool>& segments_of_one_rank, int64_t workers) {
  std::vector<std::pair<double, uint64_t>> rates;  // samples per second, and number of steps
  uint64_t steps = 0;
  for (const RankSpool& spool : segments_of_one_rank) {
    for (const StepRecord& record : spool.steps) {
      if (record.total_ns() <= 0) continue;
      rates.emplace_back(
          static_cast<double>(record.samples) * static_cast<double>(workers) / to_seconds(record.total_ns()),
          record.count);
      steps += record.count;
    }
  }
  std::sort(rates.begin(), rates.end());
  uint64_t seen = 0;
  for (size_t i = 0; i < rates.size(); ++i) {
    seen += rates[i].second;
    if (2 * seen == steps) return (rates[i].first + rates[i + 1].first) / 2;
    if (2 * seen > steps) return rates[i].first;
  }
  return std::nullopt;
}

int64_t evaluation_ns(const RankSpool& spool) {
  int64_t sum = 0;
  for (const Json& event : spool.events) {
    if (is(event, EventKind::kEvaluation)) sum += get(event, member::kDurationNs);
  }
  return sum;
}

int64_t elapsed_ns(const std::vector<RankSpool>& segments_of_one_rank) {
  int64_t sum = derive_clocks(segments_of_one_rank).train_ns;
  for (const RankSpool& spool : segments_of_one_rank) sum += evaluation_ns(spool);
  return sum;
}

}  // namespace mlbench::record
