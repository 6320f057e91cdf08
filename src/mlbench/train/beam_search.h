#pragma once

// Makes translations with a framework's decoder by beam search; greedy decoding is a beam of one. The search is
// deterministic: of equal scores, the earlier hypothesis counts as the better, and of its continuations, the one with
// the smaller token. A sentence's translations do not depend on which sentences are decoded beside it, except through
// the rounding of the model.

#include <cstdint>
#include <span>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/framework/framework.h"
#include "mlbench/spec/task.h"

namespace mlbench::train {

struct SearchOptions {
  spec::DecodingSpec decoding = {};     // precondition: the beam is at least 1
  int64_t pad = 0, begin = 2, end = 3;  // token ids; pad and begin are never written
};

struct Hypothesis {
  std::vector<int64_t> tokens;  // without begin and end
  double log_probability = 0;   // of the tokens and the end token, given the source
  double score = 0;             // by which hypotheses are compared: spec::DecodingSpec
};

// lp(length), by which a sum of log-probabilities over `length` tokens, the end token included, is divided.
double length_penalty(const spec::DecodingSpec& decoding, int64_t length);
// beta * the sum over source tokens of log(min(1, attention that the token received)). A token that received less than
// kLeastCoverage counts as one that received kLeastCoverage, so that scores stay comparable.
inline constexpr double kLeastCoverage = 1e-6;
double coverage_penalty(double beta, const std::vector<double>& coverage);

// Returns the hypotheses for each sample of `sources`, the best first: at least 1, at most `beam`. `sources` is what
// the framework's decoder takes. Its tensor "source_lengths", [samples] int64, bounds the length of translations, and
// says which source tokens count in the coverage.
//
// Each step looks at the 2 * beam best continuations of a sentence's hypotheses by log-probability (all are equally
// long). Among the first `beam` of these, those that end, and have decoding.min_length tokens, are finished. The first
// `beam` of all that do not end go on. A sentence is done when `beam` hypotheses are finished; at the greatest length
// every hypothesis ends. Rows of sentences that are done leave the batch. A model whose probabilities are NaN gives
// empty translations.
//
// Throws UserError where there is a coverage penalty, but the model has no attention over the source.
std::vector<std::vector<Hypothesis>> search(framework::Decoder& decoder, const BatchView& sources,
                                            const SearchOptions& options);

// Does the same for several batches, with as many decoders at once as the framework can have. Returns the hypotheses of
// each batch, in the order of `batches`. The decoders take the batches in this order, so their work is shared out best
// where the longest sentences come first.
std::vector<std::vector<std::vector<Hypothesis>>> search(framework::Framework& framework,
                                                         std::span<const BatchView> batches,
                                                         const SearchOptions& options);

}  // namespace mlbench::train
