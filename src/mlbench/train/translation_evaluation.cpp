#include "mlbench/train/translation_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/metrics/metric.h"

namespace mlbench::train {

namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f'; }

int64_t words_in(const std::string& text) {
  int64_t words = 0;
  bool inside = false;
  for (const char c : text) {
    words += !is_space(c) && !inside ? 1 : 0;
    inside = !is_space(c);
  }
  return words;
}

std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

// Copies of all batches, whose views end with the next batch.
class KeptSources {
 public:
  explicit KeptSources(const NextSources& next) {
    for (SourceBatch batch = next(); batch.view != nullptr; batch = next()) {
      MLBENCH_CHECK(std::ssize(batch.sentences) == batch.view->samples, "numbers of other sentences than the batch's");
      if (batch.view->samples == 0) continue;
      BatchView& kept = batches_.emplace_back(*batch.view);
      for (BatchTensor& tensor : kept.tensors) {
        MLBENCH_CHECK(tensor.dense(), "tokens of a batch that are to be gathered");
        const auto* const first = static_cast<const std::byte*>(tensor.values.data);
        tensor.values.data = memory_.emplace_back(first, first + tensor.values.size_bytes()).data();
      }
      sentences_.emplace_back(batch.sentences.begin(), batch.sentences.end());
    }
  }
  KeptSources(const KeptSources&) = delete;
  KeptSources& operator=(const KeptSources&) = delete;

  std::span<const BatchView> batches() const { return batches_; }
  const std::vector<int64_t>& sentences(size_t batch) const { return sentences_[batch]; }

 private:
  std::vector<BatchView> batches_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::vector<int64_t>> sentences_;  // one vector per batch
};

// Translations as flat arrays, for the collectives.
struct FlatTranslations {
  std::vector<int64_t> numbers;  // for each translation: sentence, number of texts, bytes of each text
  std::vector<double> scores;    // one per text
  std::vector<uint8_t> bytes;    // all texts, one after the other
};

FlatTranslations flattened(const std::vector<Translation>& translations) {
  FlatTranslations flat;
  for (const Translation& one : translations) {
    flat.numbers.push_back(one.sentence);
    flat.numbers.push_back(std::ssize(one.best));
    for (const Translation::Scored& scored : one.best) {
      flat.numbers.push_back(std::ssize(scored.text));
      flat.scores.push_back(scored.score);
      flat.bytes.insert(flat.bytes.end(), scored.text.begin(), scored.text.end());
    }
  }
  return flat;
}

std::vector<Translation> restored(const FlatTranslations& flat) {
  std::vector<Translation> translations;
  auto number = flat.numbers.begin();
  auto score = flat.scores.begin();
  auto byte = flat.bytes.begin();
  while (number != flat.numbers.end()) {
    Translation& one = translations.emplace_back();
    one.sentence = *number++;
    for (int64_t left = *number++; left > 0; --left) {
      const int64_t length = *number++;
      one.best.push_back({*score++, std::string(byte, byte + length)});
      byte += length;
    }
  }
  return translations;
}

// The values of all ranks, one rank after the other.
template <typename T>
std::vector<T> all_gathered(comm::Communicator& comm, const std::vector<T>& own) {
  const std::vector<int64_t> own_size = {std::ssize(own)};
  std::vector<int64_t> sizes(static_cast<size_t>(comm.size()));
  comm.all_gather(const_view_of(std::span<const int64_t>(own_size)), view_of(std::span(sizes)));
  std::vector<T> all(static_cast<size_t>(std::reduce(sizes.begin(), sizes.end())));
  comm.all_gather_v(const_view_of(std::span<const T>(own)), view_of(std::span(all)), sizes);
  return all;
}

}  // namespace

TranslationShard translate_shard(framework::Framework& framework, const NextSources& next,
                                 const TranslationTexts& texts, const SearchOptions& options, const Clock& clock,
                                 MetricSet& metrics) {
  const KeptSources sources(next);
  const auto seconds_since = [&](TimePoint begin) {
    return std::chrono::duration<double>(clock.now() - begin).count();
  };
  TranslationShard shard;
  const TimePoint search_begin = clock.now();
  const auto results = search(framework, sources.batches(), options);
  shard.seconds = seconds_since(search_begin);
  for (size_t batch = 0; batch < results.size(); ++batch) {
    const std::vector<std::vector<Hypothesis>>& found = results[batch];
    const TimePoint begin = clock.now();
    std::vector<std::string> best, references;
    for (size_t i = 0; i < found.size(); ++i) {
      Translation& translation = shard.translations.emplace_back();
      translation.sentence = sources.sentences(batch)[i];
      const auto wanted = std::min(found[i].size(), static_cast<size_t>(options.decoding.n_best));
      for (size_t n = 0; n < wanted; ++n) {
        translation.best.push_back({found[i][n].score, one_line(texts.text_of(found[i][n].tokens))});
      }
      best.push_back(translation.best.front().text);
      references.push_back(texts.reference(translation.sentence));
    }
    shard.seconds += seconds_since(begin);
    metrics::Outputs outputs;
    outputs.hypotheses = best;
    outputs.references = references;
    metrics.add(outputs);
  }
  return shard;
}

TranslatedSplit gather_translations(comm::Communicator& comm, const TranslationTexts& texts, TranslationShard shard) {
  TranslatedSplit split;
  std::vector<double> slowest = {shard.seconds};
  if (comm.size() == 1) {
    split.translations = std::move(shard.translations);
  } else {
    const FlatTranslations own = flattened(shard.translations);
    split.translations =
        restored({all_gathered(comm, own.numbers), all_gathered(comm, own.scores), all_gathered(comm, own.bytes)});
    comm.all_reduce(view_of(std::span(slowest)), comm::ReduceOp::kMax);
  }
  split.seconds = slowest.front();
  std::ranges::sort(split.translations, {}, &Translation::sentence);
  split.sentences = std::ssize(split.translations);
  MLBENCH_CHECK(split.sentences == texts.sentences(),
                fmt::format("{} translations of {} sentences", split.sentences, texts.sentences()));
  for (int64_t i = 0; i < split.sentences; ++i) {
    const Translation& one = split.translations[static_cast<size_t>(i)];
    MLBENCH_CHECK(one.sentence == i, fmt::format("sentence {} was translated twice, or {} never", one.sentence, i));
    split.words += words_in(one.best.front().text);
  }
  if (comm.rank() != 0) split.translations.clear();
  return split;
}

void write_translations(const std::filesystem::path& folder, int64_t step, const TranslatedSplit& split,
                        const spec::DecodingSpec& decoding, const Json& metrics) {
  std::filesystem::create_directories(folder);
  std::string best, n_best;
  for (const Translation& one : split.translations) {
    best += one.best.front().text + "\n";
    for (const Translation::Scored& scored : one.best) {
      n_best += fmt::format("{} ||| {} ||| {:.6f}\n", one.sentence, scored.text, scored.score);
    }
  }
  const std::string name = fmt::format("step-{}", step);
  write_file_atomically(folder / (name + ".txt"), best);
  if (decoding.n_best > 1) write_file_atomically(folder / (name + ".nbest.txt"), n_best);
  const Json summary = {{"step", step},
                        {"sentences", split.sentences},
                        {"words", split.words},
                        {"seconds", split.seconds},
                        {"words_per_second", split.words_per_second()},
                        {"beam", decoding.beam},
                        {"length_penalty", decoding.length_penalty},
                        {"length_exponent", decoding.length_exponent},
                        {"coverage_penalty", decoding.coverage_penalty},
                        {"min_length", decoding.min_length},
                        {"metrics", metrics}};
  write_file_atomically(folder / (name + ".json"), summary.dump(2) + "\n");
}

}  // namespace mlbench::train
