#pragma once

// Metrics over many samples, which ranks merge exactly. Each metric is a vector of float64 sums, which are added
// element-wise (one all-reduce), and a pure function of these sums.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mlbench/spec/task.h"

namespace mlbench::metrics {

// What the host knows of a batch. A batch of classified samples has the first four members, one whose loss is over
// tokens has the sums, and one that was translated has the texts. Each metric uses what it needs, and adds nothing
// where that is missing.
struct Outputs {
  std::span<const float> scores = {};    // [samples, classes], row-major: logits, or [samples] probabilities
  std::span<const int64_t> labels = {};  // [samples]
  int64_t classes = 0;                   // outputs per sample; 1: a probability, or a number; 0: there are none
  double loss_sum = 0;                   // sum of the loss over the samples, or tokens
  double nll_sum = 0;                    // sum of the tokens' negative log likelihood in nats, without label smoothing
  int64_t weight = 0;                    // what both sums are over: BatchView::weight; 0: labels.size()
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
  // The sums, which may be changed in place: adding them over ranks merges exactly.
  virtual std::span<double> sums() = 0;
};

// Throws UserError listing the valid names:
//   loss              mean over the samples, or tokens
//   Prec@1, Prec@5    percent of samples whose label is among the k highest scores (the first of equal ones counts;
//                     a NaN is above all and never right); one probability p per sample stands for scores [1 - p, p]
//   F1-Score          2PR / (P + R) of class 1 with threshold 0.5, P and R over all samples; eps 1e-9 in each division
//   Dice Coefficient  (2 sum(p y) + eps) / (sum(p) + sum(y) + eps) with the probabilities p and eps 1e-4
//   Mean Squared Error  mean of (number - label)^2, for a loss of numbers
//   Perplexity        exp of the negative log likelihood per token
//   BLEU              of the corpus: tokeniser 13a, cased, smoothing exp (text_metric.h)
//   BLEU-intl-lc      as BLEU, with tokeniser intl, in lower case
//   BLEU-none         as BLEU, without tokeniser, cased
//   chrF2             of the corpus, cased
// F1 and Dice take one probability per sample. add() throws UserError where the task's outputs do not fit.
std::unique_ptr<Metric> make_metric(const std::string& name);
std::vector<std::string> metric_names();
// Throws UserError where one of the task's metrics is none (as make_metric() does), and where one does not fit the
// task: a metric of tokens with a loss over samples, or one of numbers with a loss of classes; a metric of translations
// without [decoding], or as a goal on the training split.
void check_metrics(const spec::TaskSpec& task);

// The least that a metric must know of each sample: its predicted class, its scores, its predicted number, the loss
// itself, the likelihood of its tokens, or its translation.
enum class Needs { kLabel, kScores, kNumbers, kLoss, kTokens, kTranslations };
Needs needs_of(const std::string& name);  // throws UserError as make_metric() does
// The names, in their order, of metrics that do (or do not) need translations. Training steps make no translations, and
// decoding a split costs more than one forward pass over it.
std::vector<std::string> of_translations(const std::vector<std::string>& names);
std::vector<std::string> without_translations(const std::vector<std::string>& names);

}  // namespace mlbench::metrics
