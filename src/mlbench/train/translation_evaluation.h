#pragma once

// Evaluation of a task that translates: each rank decodes its share of the split and hands texts to the metrics, whose
// counts merge exactly; all translations are written to the run's folder.

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

// The texts of an evaluation split. Used by one thread.
class TranslationTexts {
 public:
  virtual ~TranslationTexts() = default;
  // What the ids of a translation say, as people write it: sub-words joined, tokenisation undone. Without begin and
  // end.
  virtual std::string text_of(std::span<const int64_t> ids) const = 0;
  virtual int64_t sentences() const = 0;
  // The reference of that sentence of the whole split, as its file has it.
  virtual const std::string& reference(int64_t sentence) const = 0;
};

// What a decoder encodes at once, and which sentences of the whole split these samples are. A null view: no more.
struct SourceBatch {
  const BatchView* view = nullptr;
  std::span<const int64_t> sentences;  // [view->samples]
};
using NextSources = std::function<SourceBatch()>;

struct Translation {
  int64_t sentence = 0;
  struct Scored {
    double score = 0;
    std::string text;
  };
  std::vector<Scored> best;  // decoding.n_best of them at most, the best first; at least one
};

struct TranslationShard {
  std::vector<Translation> translations;
  double seconds = 0;  // of searching, without the metrics
};

// The shard that `next` gives, by the decoder of the model as it stands. Its best texts go to `metrics`, which is not
// reset.
TranslationShard translate_shard(framework::Decoder& decoder, const NextSources& next, const TranslationTexts& texts,
                                 const SearchOptions& options, const Clock& clock, MetricSet& metrics);

// What all ranks translated, in the split's order. `words`: separated by white space, of the best texts.
struct TranslatedSplit {
  std::vector<Translation> translations;  // at rank 0; elsewhere none
  int64_t sentences = 0, words = 0;
  double seconds = 0;  // of the slowest rank

  double words_per_second() const { return seconds > 0 ? static_cast<double>(words) / seconds : 0; }
};
// Collective. Every sentence of the split by exactly one rank: anything else is a bug of the shares.
TranslatedSplit gather_translations(comm::Communicator& comm, const TranslationTexts& texts, TranslationShard shard);

// In `folder`, which is made: step-N.txt, one best text per line in the split's order; step-N.json with sentences,
// words, seconds and words_per_second, the decoding's settings and the metrics' values; with n_best above 1
// step-N.nbest.txt, whose lines are "SENTENCE ||| TEXT ||| SCORE" (from 0, the best first), as Moses writes them.
// A line break in a text becomes a blank. IoError.
void write_translations(const std::filesystem::path& folder, int64_t step, const TranslatedSplit& split,
                        const spec::DecodingSpec& decoding, const Json& metrics);

}  // namespace mlbench::train
