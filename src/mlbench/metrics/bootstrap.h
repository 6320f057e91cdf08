#pragma once

// Tests whether one system is better than another on a test set, or was lucky with its sentences: the paired bootstrap
// of Koehn, "Statistical Significance Tests for Machine Translation Evaluation", EMNLP 2004. It draws as many sentences
// as the set has, with replacement, again and again, the same sentences for both systems.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace mlbench::metrics {

// The sums of a metric for each sentence of a set (text_metric.h).
struct SentenceSums {
  size_t width = 0;            // sums per sentence
  std::vector<double> values;  // [sentences, width], row-major

  size_t sentences() const { return width == 0 ? 0 : values.size() / width; }
  std::span<const double> of(size_t sentence) const { return std::span(values).subspan(sentence * width, width); }
  std::vector<double> total() const;
};

struct BootstrapOptions {
  int64_t resamples = 1000;
  uint64_t seed = 12345;
};

struct PairedDifference {
  double difference = 0;     // the system's score minus the baseline's, on the whole set
  double low = 0, high = 0;  // 2.5 % of the resampled differences lie below and 2.5 % above
  // How often chance alone would give a difference of this size, as sacreBLEU counts: the share of the absolute
  // resampled differences, less their mean, that are above the absolute difference; (count + 1) / (resamples + 1). This
  // is one tail.
  double p_value = 1;
};

// Computes the score from the sums of any set of sentences.
using ScoreOfSums = std::function<double(std::span<const double>)>;

// Compares `system` with `baseline`. The result is the same for the same seed on every machine; the draws are the same
// for every metric and pair of systems. Precondition: both systems have the same number of sentences, at least one.
PairedDifference paired_bootstrap(const SentenceSums& baseline, const SentenceSums& system, const ScoreOfSums& score,
                                  const BootstrapOptions& options);

// The last step of paired_bootstrap(): `difference` on the whole set, and its interval and p-value from the `resampled`
// differences. Precondition: `resampled` is not empty.
PairedDifference paired_difference(double difference, std::vector<double> resampled);

}  // namespace mlbench::metrics
