#include "mlbench/metrics/text_metric.h"

#include <array>

#include "mlbench/base/choices.h"
#include "mlbench/metrics/bleu.h"
#include "mlbench/metrics/chrf.h"

namespace mlbench::metrics {

namespace {

struct TextMetricRow {
  const char* name;
  std::unique_ptr<TextMetric> (*make)(const TextMetricOptions& options);
};
constexpr std::array<TextMetricRow, 3> kTextMetrics = {{
    {"bleu", make_bleu},
    {"chrf", [](const TextMetricOptions& options) { return make_chrf(0, options); }},
    {"chrf++", [](const TextMetricOptions& options) { return make_chrf(2, options); }},
}};

}  // namespace

std::vector<std::string> text_metric_names() { return names_of(kTextMetrics); }

std::unique_ptr<TextMetric> make_text_metric(const std::string& name, const TextMetricOptions& options) {
  return row_named(kTextMetrics, "metric", name).make(options);
}

}  // namespace mlbench::metrics
