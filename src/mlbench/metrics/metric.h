#pragma once

// Metrics over many samples, exactly mergeable over ranks: each is a vector of float64 sums that are added
// element-wise (one all-reduce), and a pure function of the sums.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mlbench/spec/task.h"

namespace mlbench::metrics {

// What is known of a batch on the host. Of one that was classified the first four; of one whose loss is over tokens
// the sums; of one that was translated the texts. Each metric takes what it needs, and nothing where there is none.
struct Outputs {
  std::span<const float> scores = {};    // [samples, classes], row-major: logits, or [samples] probabilities
  std::span<const int64_t> labels = {};  // [samples]
  int64_t classes = 0;                   // 1: binary task with one probability per sample; 0: none was classified
  double loss_sum = 0;                   // sum of the loss over the samples, or tokens
  double nll_sum = 0;                    // of the tokens' negative log likelihood, without label smoothing; in nats
  int64_t weight = 0;                    // what both are sums over: BatchView::weight; 0: labels.size()
  std::span<const std::string> hypotheses = {};  // [sentences] translations
  std::span<const std::string> references = {};  // [sentences]
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
//   loss              mean over the samples, or tokens
//   Prec@1, Prec@5    percent of samples whose label is among the k highest scores (the first of equal ones; a NaN is
//                     above all and never right); one probability p per sample stands for the scores [1 - p, p]
//   F1-Score          2PR / (P + R) of class 1 with threshold 0.5, P and R over all samples; eps 1e-9 in each division
//   Dice Coefficient  (2 sum(p y) + eps) / (sum(p) + sum(y) + eps) with the probabilities p and eps 1e-4
//   Perplexity        exp of the negative log likelihood per token
//   BLEU              of the corpus: tokeniser 13a, cased, smoothing exp (text_metric.h)
//   BLEU-intl-lc      the same with tokeniser intl, in lower case
//   BLEU-none         the same without tokeniser, cased
//   chrF2             of the corpus, cased
// F1 and Dice take one probability per sample. add() throws UserError where the task's outputs don't fit.
std::unique_ptr<Metric> make_metric(const std::string& name);
std::vector<std::string> metric_names();
// UserError as make_metric() where one of the task's metrics is none, and where it does not fit the task: one of
// tokens, and a loss over samples; one of translations, and no [decoding], or a goal on the training split.
void check_metrics(const spec::TaskSpec& task);

// The least that must be known of each sample's outcome: its predicted class, its scores, the loss itself, the
// likelihood of its tokens, or its translation.
enum class Needs { kLabel, kScores, kLoss, kTokens, kTranslations };
Needs needs_of(const std::string& name);  // UserError as make_metric()
// Those of the names, in their order, that do (not) need translations: training steps make none, and to decode a split
// costs more than to run over it once.
std::vector<std::string> of_translations(const std::vector<std::string>& names);
std::vector<std::string> without_translations(const std::vector<std::string>& names);

}  // namespace mlbench::metrics
