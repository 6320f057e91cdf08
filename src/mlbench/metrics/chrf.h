#pragma once

// The metrics "chrf" and "chrf++" of text_metric.h.

#include "mlbench/metrics/text_metric.h"

namespace mlbench::metrics {

// Uses character n-grams of up to 6, and word n-grams of up to `word_order` (0 or 2).
std::unique_ptr<TextMetric> make_chrf(size_t word_order, const TextMetricOptions& options);

}  // namespace mlbench::metrics
