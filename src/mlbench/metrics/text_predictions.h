#pragma once

// What any solver predicted of the text of an evaluation split, as JSON lines in any order:
//   {"index": 7, "text": "Ein Hund bellt."}     the translation of pair 7, as people write it, and, or
//   {"index": 7, "nll": 31.4, "tokens": 12}     the negative log likelihood of its target in nats, the sum over so many
//                                               tokens: those of the prepared target and its end
// `index` is the place of the pair in the split's official order, from 0. Of a text that is not parted into pairs (a
// language model's) only the second form, one line for each of any number of pieces of the text, from 0.
// All lines of a file have the same of both. Other keys and empty lines are ignored.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "mlbench/metrics/predictions.h"

namespace mlbench::metrics {

// What the predictions must fit.
struct TextShape {
  std::vector<int64_t> tokens = {};  // of pairs, each one's that are predicted; of a text: empty
  // Of a text: as many as a run predicts (not the first of each column) or all.
  int64_t least_tokens = 0, most_tokens = 0;
};

struct TextPredictions {
  std::vector<std::string> texts = {};  // of pairs, in official order; empty: none were given. Without line breaks.
  int64_t tokens = 0;                   // of all; 0: no likelihood was given
  double nll = 0;                       // sum over all
};

// UserError "FILE:LINE: what was given, what was expected" for a line that is no prediction, an index out of range or
// given twice, a wrong number of tokens; UserError naming the first pairs or pieces that are missing. IoError.
TextPredictions read_text_predictions(const std::filesystem::path& file, const TextShape& shape);

// The metrics by name, null where the predictions do not tell, with a note that says why. `references`: of all pairs;
// empty where there are none to compare with (made data).
PredictionMetrics evaluate(const TextPredictions& predictions, std::span<const std::string> references,
                           const std::vector<std::string>& metrics);

}  // namespace mlbench::metrics
