#pragma once

// The metric "bleu" of text_metric.h.

#include <array>
#include <cstdint>

#include "mlbench/metrics/text_metric.h"

namespace mlbench::metrics {

inline constexpr size_t kBleuOrder = 4;

// The sums of BLEU, in this order.
struct BleuCounts {
  std::array<double, kBleuOrder> correct = {};  // n-grams of 1 to 4 tokens that are also in a reference (clipped)
  std::array<double, kBleuOrder> total = {};    // n-grams of the hypotheses
  double hypothesis_length = 0;                 // tokens
  double reference_length = 0;

  static constexpr size_t kSums = 2 * kBleuOrder + 2;
  static BleuCounts of(std::span<const double> sums);
};

struct BleuScore {
  double score = 0;                                // 0 to 100
  std::array<double, kBleuOrder> precisions = {};  // percent, smoothed
  double brevity_penalty = 0;                      // 0 to 1
};

BleuScore bleu_score(const BleuCounts& counts, const Smoothing& smoothing, bool effective_order);

std::unique_ptr<TextMetric> make_bleu(const TextMetricOptions& options);

}  // namespace mlbench::metrics
