#include "mlbench/metrics/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"

namespace mlbench::metrics {

namespace {

void add_to(std::span<double> sums, std::span<const double> more) {
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
}

}  // namespace

std::vector<double> SentenceSums::total() const {
  std::vector<double> sums(width, 0);
  for (size_t i = 0; i < sentences(); ++i) add_to(sums, of(i));
  return sums;
}

PairedDifference paired_bootstrap(const SentenceSums& baseline, const SentenceSums& system, const ScoreOfSums& score,
                                  const BootstrapOptions& options) {
  const size_t sentences = baseline.sentences();
  MLBENCH_CHECK(sentences > 0 && system.sentences() == sentences && options.resamples > 0,
                "two systems with different sentences, or none");
  std::vector<double> of_baseline(baseline.width), of_system(system.width), resampled;
  resampled.reserve(static_cast<size_t>(options.resamples));
  for (int64_t resample = 0; resample < options.resamples; ++resample) {
    std::ranges::fill(of_baseline, 0);
    std::ranges::fill(of_system, 0);
    RandomSequence random(derive_key(options.seed, {kBootstrapStream, static_cast<uint64_t>(resample)}));
    for (size_t drawn = 0; drawn < sentences; ++drawn) {
      const auto sentence = static_cast<size_t>(random.below(sentences));
      add_to(of_baseline, baseline.of(sentence));
      add_to(of_system, system.of(sentence));
    }
    resampled.push_back(score(of_system) - score(of_baseline));
  }
  return paired_difference(score(system.total()) - score(baseline.total()), std::move(resampled));
}

PairedDifference paired_difference(double difference, std::vector<double> resampled) {
  std::ranges::sort(resampled);
  const size_t outside = resampled.size() / 40;
  double mean = 0;
  for (const double one : resampled) mean += std::abs(one);
  mean /= static_cast<double>(resampled.size());
  const auto above =
      std::ranges::count_if(resampled, [&](double one) { return std::abs(one) - mean > std::abs(difference); });
  return {difference, resampled[outside], resampled[resampled.size() - 1 - outside],
          static_cast<double>(above + 1) / static_cast<double>(resampled.size() + 1)};
}

}  // namespace mlbench::metrics
