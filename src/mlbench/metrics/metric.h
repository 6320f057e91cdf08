#pragma once

// Metrics over many samples, exactly mergeable over ranks: each is a vector of float64 sums that are added
// element-wise (one all-reduce), and a pure function of the sums.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mlbench::metrics {

// Outputs of a batch on the host.
struct Outputs {
  std::span<const float> scores;    // [samples, classes], row-major: logits, or [samples] probabilities
  std::span<const int64_t> labels;  // [samples]
  int64_t classes = 0;              // 1: binary task with one probability per sample
  double loss_sum = 0;              // sum of the loss over the samples
};

class Metric {
 public:
  virtual ~Metric() = default;
  virtual const std::string& name() const = 0;  // "Prec@1", as in today's archives
  virtual void add(const Outputs& outputs) = 0;
  virtual double value() const = 0;  // NaN before any sample
  virtual void reset() = 0;
  // The sums: to be added over ranks in place (exact merge).
  virtual std::span<double> sums() = 0;
};

// UserError listing the valid names:
//   loss              mean over the samples
//   Prec@1, Prec@5    percent of samples whose label is among the k highest scores (of equal ones the first counts as
//                     the higher); one probability p per sample stands for the scores [1 - p, p]
//   F1-Score          2PR / (P + R) of class 1 with threshold 0.5, P and R over all samples; eps 1e-9 in each division
//   Dice Coefficient  (2 sum(p y) + eps) / (sum(p) + sum(y) + eps) with the probabilities p and eps 1e-4
// The last two take one probability per sample. add() throws UserError where the task's outputs don't fit.
std::unique_ptr<Metric> make_metric(const std::string& name);
std::vector<std::string> metric_names();
// UserError as make_metric() where one of them is no metric.
void check_names(const std::vector<std::string>& names);

// The least that must be known of each sample's outcome: its predicted class, its scores, or the loss itself.
enum class Needs { kLabel, kScores, kLoss };
Needs needs_of(const std::string& name);  // UserError as make_metric()

}  // namespace mlbench::metrics
