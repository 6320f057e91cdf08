#pragma once

// Translations by a framework's decoder: beam search, and greedy decoding as a beam of one. Deterministic: of equal
// scores the hypothesis that stood first counts as the better, and of its continuations the smaller token. A sentence's
// translations don't depend on what is decoded beside it, but for the rounding of the model.

#include <cstdint>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/framework/framework.h"
#include "mlbench/spec/task.h"

namespace mlbench::train {

struct SearchOptions {
  spec::DecodingSpec decoding = {};     // beam at least 1
  int64_t pad = 0, begin = 2, end = 3;  // token ids; pad and begin are never written
};

struct Hypothesis {
  std::vector<int64_t> tokens;  // without begin and end
  double log_probability = 0;   // of the tokens and the end, given the source
  double score = 0;             // what hypotheses are compared by: spec::DecodingSpec
};

// lp(length), what a sum of log-probabilities over `length` tokens, the end included, is divided by.
double length_penalty(const spec::DecodingSpec& decoding, int64_t length);
// beta * sum over source tokens of log(min(1, attention that it received)); a token that received none counts as one
// that received kLeastCoverage, so that scores stay comparable.
inline constexpr double kLeastCoverage = 1e-6;
double coverage_penalty(double beta, const std::vector<double>& coverage);

// For each sample of `sources` its hypotheses, the best first: at least 1, at most `beam`. The view is what the
// framework's decoder takes; "source_lengths" in it, [samples] int64, bounds the length of translations and what counts
// as covered.
//
// In each step the 2 * beam best continuations of a sentence's hypotheses are looked at, by log-probability (they are
// equally long). Of the first `beam` of them those that end, and have decoding.min_length tokens, are finished; of all,
// the first `beam` that don't end are gone on with. A sentence is done with `beam` finished ones; at its greatest
// length every hypothesis ends. Rows of sentences that are done leave the batch. A model whose probabilities are no
// numbers gives empty translations.
//
// UserError: a coverage penalty, but a model without attention that could be covered.
std::vector<std::vector<Hypothesis>> search(framework::Decoder& decoder, const BatchView& sources,
                                            const SearchOptions& options);

}  // namespace mlbench::train
