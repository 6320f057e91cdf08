#include "mlbench/collectives/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

namespace mlbench::collectives {

namespace {

double microseconds(Nanoseconds duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

}  // namespace

Measured measure(Exercise& exercise, const Repetition& repetition, const Workplace& workplace, Control& control,
                 const Clock& clock, uint64_t& seed) {
  const bool capped = repetition.cap.count() > 0;
  exercise.prepare(seed++);
  const TimePoint begin = clock.now();
  const auto within = [&](Nanoseconds share) { return control.decided_by_rank_0(clock.now() - begin < share); };
  for (int64_t i = 0; i < repetition.warm_up; ++i) {
    if (capped && i > 0 && !within(repetition.cap / 4)) break;
    exercise.run();
    workplace.memory.synchronize();
  }
  Measured measured;
  measured.times_us.reserve(static_cast<size_t>(repetition.iterations));
  for (int64_t i = 0; i < repetition.iterations; ++i) {
    if (capped && i >= repetition.least && !within(repetition.cap)) {
      measured.capped = true;
      break;
    }
    const bool verified = repetition.check_every > 0 && (i + 1) % repetition.check_every == 0;
    if (verified) exercise.prepare(seed++);
    workplace.comm.barrier();
    const TimePoint from = clock.now();
    for (int64_t operation = 0; operation < repetition.aggregated; ++operation) {
      exercise.run();
      if (repetition.blocking) workplace.comm.barrier();
    }
    workplace.memory.synchronize();
    const TimePoint until = clock.now();
    measured.times_us.push_back(microseconds(until - from) / static_cast<double>(repetition.aggregated));
    if (verified) measured.wrong += exercise.wrong();
  }
  return measured;
}

int64_t count_wrong(Exercise& exercise, int64_t operations, const Workplace& workplace, uint64_t& seed) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < operations; ++i) {
    exercise.prepare(seed++);
    workplace.comm.barrier();
    exercise.run();
    workplace.memory.synchronize();
    wrong += exercise.wrong();
  }
  return wrong;
}

std::vector<double> times_of_iterations(const std::vector<std::vector<double>>& of_ranks, spec::RankAverage average) {
  std::vector<double> times = of_ranks.at(0);
  if (average == spec::RankAverage::kRank0) return times;
  for (size_t i = 0; i < times.size(); ++i) {
    for (size_t rank = 1; rank < of_ranks.size(); ++rank) {
      const double time = of_ranks[rank].at(i);
      times[i] = average == spec::RankAverage::kMin   ? std::min(times[i], time)
                 : average == spec::RankAverage::kMax ? std::max(times[i], time)
                                                      : times[i] + time;
    }
    if (average == spec::RankAverage::kMean) times[i] /= static_cast<double>(of_ranks.size());
  }
  return times;
}

double shortened(double figure) {
  const std::string text = fmt::format("{:.9g}", figure);
  std::from_chars(text.data(), text.data() + text.size(), figure);
  return figure;
}

}  // namespace mlbench::collectives
