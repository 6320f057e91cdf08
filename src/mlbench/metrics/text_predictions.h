#pragma once

// What any solver predicted of the text of an evaluation split, as JSON lines in any order:
//   {"index": 7, "text": "Ein Hund bellt."}     the translation of pair 7, as people write it; and, or
//   {"index": 7, "nll": 31.4, "tokens": 12}     the negative log likelihood of the pair's target in nats: the sum over
//                                               so many tokens, those of the prepared target and its end
// `index` is the place of the pair in the split's official order, from 0. A text that is not divided into pairs (a
// language model's) has only the second form, with one line for each of any number of pieces of the text, numbered from
// 0. All lines of a file have the same keys of these. Other keys and empty lines are ignored.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "mlbench/metrics/predictions.h"

namespace mlbench::metrics {

// What the predictions must fit.
struct TextShape {
  std::vector<int64_t> tokens = {};  // for pairs: the number of predicted tokens of each; for a text: empty
  // For a text: how many tokens a run predicts (all but the first of each column), and how many there are.
  int64_t least_tokens = 0, most_tokens = 0;
};

struct TextPredictions {
  std::vector<std::string> texts = {};  // translations of pairs, in official order, without line breaks; empty: none
  int64_t tokens = 0;                   // sum over all pairs or pieces; 0: no likelihood was given
  double nll = 0;                       // the sum over all
};

// Throws UserError "FILE:LINE: what was given, what was expected" for a line that is no prediction, an index out of
// range or given twice, and a wrong number of tokens. Throws UserError naming the first pairs or pieces that are
// missing. Throws IoError.
TextPredictions read_text_predictions(const std::filesystem::path& file, const TextShape& shape);

// Computes `metrics`; one that cannot be computed from the predictions is null, with a note that says why. `references`
// are those of all pairs; empty where there are none (made data).
PredictionMetrics evaluate(const TextPredictions& predictions, std::span<const std::string> references,
                           const std::vector<std::string>& metrics);

}  // namespace mlbench::metrics
