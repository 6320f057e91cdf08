#pragma once

// Writes figures in Prometheus' text format, version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mlbench::master {

class Exposition {
 public:
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";
  enum class Type { kGauge, kCounter };
  // Names and values. A value may be any text: it is made printable (base/printable.h), and escaped.
  using Labels = std::vector<std::pair<std::string, std::string>>;

  // Begins a metric, which may stay without samples. Names are our own: InternalError for one that the format lacks,
  // and for a counter whose name does not end in _total.
  void metric(std::string_view name, Type type, std::string_view help);
  // Adds a sample of the metric that was begun last. A value may be NaN or infinite.
  void sample(const Labels& labels, double value);
  const std::string& text() const { return text_; }

 private:
  std::string name_, text_;
};

}  // namespace mlbench::master
