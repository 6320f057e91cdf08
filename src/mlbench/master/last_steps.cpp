#include "mlbench/master/last_steps.h"

#include <algorithm>
#include <limits>

#include "mlbench/base/clock.h"
#include "mlbench/record/events.h"

namespace mlbench::master {

namespace {

constexpr int64_t kWindowNs = 10'000'000'000;
constexpr size_t kMostRecords = 64;  // of a rank; each stands for one step, or for up to 32 short ones

// What rank 0 said of the end of the run when the segment began; empty until it has begun.
std::optional<int64_t> steps_expected(const std::filesystem::path& run_dir, int64_t segment) {
  for (const Json& event : record::read_events(run_dir, segment, 0).lines) {
    if (!record::is(event, record::EventKind::kBegin)) continue;
    const int64_t last = record::get(event, record::member::kLastStep);
    return last > 0 ? std::optional(last) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

void LastSteps::take(int64_t run, const record::SpoolHeader& header, const record::StepRecord& step) {
  const std::lock_guard lock(mutex_);
  Run& known = runs_[run];
  if (header.segment < known.segment) return;
  if (header.segment > known.segment) known = {header.segment, std::nullopt, {}};
  std::deque<Steps>& window = known.ranks[header.rank];
  // Steps that could not be stored are handed over again.
  if (!window.empty() && step.first_step < window.back().first + window.back().count) return;
  const auto count = std::min<size_t>(step.count, step.exchange_ns.size());
  window.push_back({step.first_step,
                    step.count,
                    step.samples,
                    step.loss_sum,
                    step.end_ns,
                    step.total_ns(),
                    step.kinds_ns[static_cast<size_t>(record::StepKind::kAggregate)],
                    {step.exchange_ns.begin(), step.exchange_ns.begin() + static_cast<std::ptrdiff_t>(count)}});
  while (window.size() > kMostRecords || step.end_ns - window.front().end_ns > kWindowNs) window.pop_front();
}

void LastSteps::keep_only(const std::set<int64_t>& runs) {
  const std::lock_guard lock(mutex_);
  std::erase_if(runs_, [&](const auto& run) { return !runs.contains(run.first); });
}

std::optional<double> LastSteps::wait_share(const Run& run) {
  struct Exchange {
    size_t ranks = 0;
    int64_t sum = 0, shortest = std::numeric_limits<int64_t>::max();
  };
  std::map<uint64_t, Exchange> exchanges;
  double total_ns = 0, steps = 0;
  for (const auto& [rank, window] : run.ranks) {
    for (const Steps& record : window) {
      total_ns += static_cast<double>(record.total_ns);
      steps += static_cast<double>(record.count);
      for (size_t i = 0; i < record.exchange_ns.size(); ++i) {
        Exchange& exchange = exchanges[record.first + i];
        ++exchange.ranks;
        exchange.sum += record.exchange_ns[i];
        exchange.shortest = std::min(exchange.shortest, record.exchange_ns[i]);
      }
    }
  }
  double waited_ns = 0, common = 0;  // of the steps that all ranks have recorded
  for (const auto& [step, exchange] : exchanges) {
    if (exchange.ranks != run.ranks.size()) continue;
    waited_ns += static_cast<double>(exchange.sum - static_cast<int64_t>(exchange.ranks) * exchange.shortest);
    common += static_cast<double>(exchange.ranks);
  }
  if (common == 0 || total_ns <= 0) return std::nullopt;
  return waited_ns / common / (total_ns / steps);
}

std::optional<StepFigures> LastSteps::of(int64_t run, const std::filesystem::path& run_dir, int64_t workers) {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(run);
  if (found == runs_.end()) return std::nullopt;
  Run& known = found->second;
  if (!known.steps_expected) known.steps_expected = steps_expected(run_dir, known.segment);
  StepFigures figures;
  figures.steps_expected = known.steps_expected;
  double rate = 0, loss = 0, samples = 0, total_ns = 0, communication_ns = 0;
  for (const auto& [rank, window] : known.ranks) {
    double rank_samples = 0, rank_ns = 0;
    for (const Steps& record : window) {
      rank_samples += static_cast<double>(record.samples);
      rank_ns += static_cast<double>(record.total_ns);
      loss += record.loss_sum;
      communication_ns += static_cast<double>(record.communication_ns);
    }
    if (rank_ns > 0) rate += rank_samples / to_seconds(static_cast<int64_t>(rank_ns));
    samples += rank_samples;
    total_ns += rank_ns;
    figures.steps_done = std::max(figures.steps_done, static_cast<int64_t>(window.back().first + window.back().count));
  }
  if (std::ssize(known.ranks) < workers) return figures;
  if (total_ns > 0) {
    figures.samples_per_s = rate;
    figures.communication_share = communication_ns / total_ns;
  }
  if (samples > 0) figures.loss = loss / samples;
  if (workers > 1) figures.wait_share = wait_share(known);
  return figures;
}

}  // namespace mlbench::master
