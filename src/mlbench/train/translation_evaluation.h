#pragma once

// Evaluation of a task that translates. Each rank decodes its share of the split and passes texts to the metrics, whose
// counts merge exactly. All translations are written to the run's folder.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/base/clock.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/framework/framework.h"
#include "mlbench/train/beam_search.h"
#include "mlbench/train/evaluation.h"

namespace mlbench::train {

// The texts of an evaluation split. One thread uses an object.
class TranslationTexts {
 public:
  virtual ~TranslationTexts() = default;
  // The text of a translation's ids (without begin and end), as people write it: sub-words are joined, and tokenisation
  // is undone.
  virtual std::string text_of(std::span<const int64_t> ids) const = 0;
  virtual int64_t sentences() const = 0;
  // The reference of a sentence of the whole split.
  virtual std::string reference(int64_t sentence) const = 0;
};

// Samples that a decoder encodes at once, and the numbers of these sentences in the whole split. A null `view` means
// that there are no more.
struct SourceBatch {
  const BatchView* view = nullptr;
  std::span<const int64_t> sentences;  // one per sample: [view->samples]
};
using NextSources = std::function<SourceBatch()>;

struct Translation {
  int64_t sentence = 0;
  struct Scored {
    double score = 0;
    std::string text;
  };
  std::vector<Scored> best;  // at least one and at most decoding.n_best, the best first
};

struct TranslationShard {
  std::vector<Translation> translations;
  double seconds = 0;  // time of searching, without the metrics
};

// Translates the sentences that `next` returns, with the framework's current model. Adds the best texts to `metrics`,
// without a reset. `options` and `clock` are used during the call alone.
TranslationShard translate_shard(framework::Framework& framework, const NextSources& next,
                                 const TranslationTexts& texts, const SearchOptions& options, const Clock& clock,
                                 MetricSet& metrics);

// The translations of all ranks, in the split's order. `words` counts the words, separated by white space, of the best
// texts.
struct TranslatedSplit {
  std::vector<Translation> translations;  // on rank 0; empty on other ranks
  int64_t sentences = 0, words = 0;
  double seconds = 0;  // time of the slowest rank

  double words_per_second() const { return seconds > 0 ? static_cast<double>(words) / seconds : 0; }
};
// Gathers the ranks' shards. Fails MLBENCH_CHECK unless exactly one rank translated each sentence of the split.
// Collective.
TranslatedSplit gather_translations(comm::Communicator& comm, const TranslationTexts& texts, TranslationShard shard);

// Writes these files to `folder`, which is made:
//   step-N.txt        one best text per line, in the split's order
//   step-N.json       sentences, words, seconds, words_per_second, the decoding's settings and the metrics' values
//   step-N.nbest.txt  with n_best above 1: lines "SENTENCE ||| TEXT ||| SCORE" (from 0, the best first), as in Moses
// A line break in a text becomes a blank. Throws IoError where writing fails.
void write_translations(const std::filesystem::path& folder, int64_t step, const TranslatedSplit& split,
                        const spec::DecodingSpec& decoding, const Json& metrics);

}  // namespace mlbench::train
