#pragma once

// Metrics that compare texts with reference texts, over a corpus. As in metric.h, each is a vector of float64 sums and
// a pure function of the sums. Sums of sentences, shards and ranks add up exactly, since they are whole numbers.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/metrics/tokenizer.h"

namespace mlbench::metrics {

// What BLEU takes for a precision of 0, where there are n-grams but none is right (Chen and Cherry, "A Systematic
// Comparison of Smoothing Techniques for Sentence-Level BLEU", WMT 2014):
//   none    0, and the score is 0, too
//   floor   as if `value` n-grams were right
//   add-k   `value` more right and `value` more possible n-grams, for each n above 1 (also where some are right)
//   exp     as if half an n-gram were right, a quarter for the next such n, and so on (mteval's)
struct Smoothing {
  enum class Method { kNone, kFloor, kAddK, kExp };
  Method method = Method::kExp;
  double value = 0;  // for floor and add-k
};
// The smoothing called "exp", "floor" (0.1), "add-k" (1) or "none"; "floor=0.05" gives a value. Throws UserError
// listing the valid names.
Smoothing smoothing_of(const std::string& text);

struct TextMetricOptions {
  bool lowercase = false;
  Tokenizer tokenizer = Tokenizer::k13a;  // for BLEU; chrF has none
  Smoothing smoothing = {};               // for BLEU
  // For BLEU: the mean is over only those n for which the hypotheses have n-grams. Scores of single sentences use this.
  bool effective_order = false;
};

class TextMetric {
 public:
  virtual ~TextMetric() = default;
  virtual std::string name() const = 0;  // "BLEU", "chrF2", "chrF2++"
  virtual size_t number_of_sums() const = 0;
  // Adds the sums of one sentence to `sums`. Precondition: the sentence has at least one reference.
  virtual void add(std::string_view hypothesis, std::span<const std::string> references,
                   std::span<double> sums) const = 0;
  virtual double score(std::span<const double> sums) const = 0;  // 0 to 100; 0 without sentences
  // The parts of the score: as text for people ("" for nothing), and as members of a JSON object.
  virtual std::string verbose(std::span<const double> sums) const = 0;
  virtual Json parts(std::span<const double> sums) const = 0;
  // How the score was computed, in sacreBLEU's form and with its keys. The version is ours: "version:mlbench-0.1.0".
  virtual std::string signature(size_t references) const = 0;
};

// The metric called `name`:
//   bleu     Papineni et al., "BLEU: a Method for Automatic Evaluation of Machine Translation", ACL 2002: n-grams of up
//            to 4 tokens; the reference whose length is closest counts (of two, the shorter)
//   chrf     chrF2: Popović, "chrF: character n-gram F-score for automatic MT evaluation", WMT 2015: characters without
//            white space, n up to 6, recall counts twice (beta 2); of several references, the one with the best score
//   chrf++   chrF2++: Popović, "chrF++: words helping character n-grams", WMT 2017: also words of n up to 2
// All are computed as sacreBLEU 2 does. Throws UserError listing the valid names.
std::unique_ptr<TextMetric> make_text_metric(const std::string& name, const TextMetricOptions& options);
std::vector<std::string> text_metric_names();

}  // namespace mlbench::metrics
