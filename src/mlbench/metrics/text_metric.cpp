#include "mlbench/metrics/text_metric.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "mlbench/base/errors.h"
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

std::vector<std::string> text_metric_names() {
  std::vector<std::string> names;
  for (const TextMetricRow& row : kTextMetrics) names.emplace_back(row.name);
  return names;
}

std::unique_ptr<TextMetric> make_text_metric(const std::string& name, const TextMetricOptions& options) {
  for (const TextMetricRow& row : kTextMetrics) {
    if (name == row.name) return row.make(options);
  }
  throw UserError(fmt::format("unknown metric '{}'; valid: {}", name, fmt::join(text_metric_names(), ", ")));
}

}  // namespace mlbench::metrics
