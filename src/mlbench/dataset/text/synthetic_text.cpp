#include "mlbench/dataset/text/synthetic_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/base/sha256.h"
#include "mlbench/dataset/cached_tokens.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/text/prepared_text.h"
#include "mlbench/dataset/text/text_format.h"

namespace mlbench::dataset::text {

namespace {

constexpr int32_t kFirstMadeId = 4;
constexpr int64_t kMostMadeTokens = 100;
constexpr double kLengthDeviation = 0.6;
constexpr int64_t kReports = 10;

constexpr uint64_t kPairStream = 6;  // the number after the streams of synthetic.cpp

// Draws an id with a frequency of 1 / rank: the logarithm of the rank is uniform.
int32_t draw_id(RandomSequence& random, int64_t ids) {
  const double rank = std::exp(random.uniform() * std::log(static_cast<double>(ids + 1)));
  return kFirstMadeId + static_cast<int32_t>(std::clamp<int64_t>(static_cast<int64_t>(rank) - 1, 0, ids - 1));
}

int64_t draw_length(RandomSequence& random, double median) {
  const auto length = std::llround(median * std::exp(kLengthDeviation * random.normal()));
  return std::clamp<int64_t>(length, 1, kMostMadeTokens);
}

// An odd number without a factor in common with the number of ids, so that no two ids have the same image.
int64_t stride_for(int64_t ids) {
  int64_t stride = ids * 5 / 8 | 1;
  while (std::gcd(stride, ids) != 1) stride += 2;
  return stride;
}

class Reporter {
 public:
  Reporter(const TextJob& job, const SplitSpec& split) : job_(job), split_(split) {}
  void made(int64_t count) {
    if (const int64_t part = count * kReports / split_.samples; std::exchange(part_, part) != part) {
      job_.say(fmt::format("made {} of {} of {} {}", count, split_.samples, job_.description.name, split_.name));
    }
  }

 private:
  const TextJob& job_;
  const SplitSpec& split_;
  int64_t part_ = 0;
};

Json make_pairs_of(const TextJob& job, size_t number) {
  const SplitSpec& split = job.description.splits[number];
  const PairMaker maker(job.description, number);
  TokenWriter source(tokens_path(job.folder, split.name, "source"), job.description.classes);
  TokenWriter target(tokens_path(job.folder, split.name, "target"), job.description.classes);
  Reporter reporter(job, split);
  int64_t source_tokens = 0, target_tokens = 0;
  for (int64_t i = 0; i < split.samples; ++i) {
    const MadePair pair = maker.make(i);
    source.add(pair.source);
    target.add(pair.target);
    source_tokens += std::ssize(pair.source);
    target_tokens += std::ssize(pair.target);
    reporter.made(i + 1);
  }
  source.commit();
  target.commit();
  return {{"pairs", split.samples}, {"source_tokens", source_tokens}, {"target_tokens", target_tokens}};
}

// Writes a text: sources of made pairs, one behind the other, each followed by kEnd.
Json make_text_of(const TextJob& job, size_t number) {
  const SplitSpec& split = job.description.splits[number];
  const PairMaker maker(job.description, number);
  TokenWriter tokens(tokens_path(job.folder, split.name, "tokens"), job.description.classes);
  Reporter reporter(job, split);
  int64_t written = 0;
  for (int64_t i = 0; written < split.samples; ++i) {
    std::vector<int32_t> sentence = maker.make(i).source;
    sentence.push_back(kEnd);
    sentence.resize(static_cast<size_t>(std::min(std::ssize(sentence), split.samples - written)));
    tokens.append(sentence);
    written += std::ssize(sentence);
    reporter.made(written);
  }
  tokens.end_record();
  tokens.commit();
  return {{"tokens", written}};
}

Json make_made_tokens(const TextJob& job) {
  std::vector<std::string> words = {"<pad>", "<unk>", "<s>", "<eos>"};
  for (int64_t id = kFirstMadeId; id < job.description.classes; ++id) words.push_back(fmt::format("w{}", id));
  TextVocabulary({VocabularyKind::kWords, job.description.classes, "", ""}, std::move(words))
      .save(vocabulary_path(job.folder));
  const bool pairs = find_format(job.description.format)->pairs;
  Json counts = Json::object();
  for (size_t i = 0; i < job.description.splits.size(); ++i) {
    counts[job.description.splits[i].name] = pairs ? make_pairs_of(job, i) : make_text_of(job, i);
  }
  return counts;
}

}  // namespace

PairMaker::PairMaker(const DatasetDescription& description, size_t split)
    : key_(derive_key(description.synthetic_seed, {kSyntheticStream, kPairStream, split})),
      ids_(description.classes - kFirstMadeId),
      stride_(stride_for(ids_)),
      median_(description.synthetic_length) {
  MLBENCH_CHECK(ids_ >= 1, fmt::format("made text of a vocabulary of {}", description.classes));
}

int32_t PairMaker::image(int32_t id, int32_t step) const {
  return kFirstMadeId + static_cast<int32_t>(((id - kFirstMadeId) * stride_ + step) % ids_);
}

MadePair PairMaker::make(int64_t number) const {
  RandomSequence random(derive_key(key_, {static_cast<uint64_t>(number)}));
  MadePair pair;
  pair.source.resize(static_cast<size_t>(draw_length(random, median_)));
  for (int32_t& id : pair.source) id = draw_id(random, ids_);
  for (const int32_t id : pair.source) {
    if (id % 10 != 1) pair.target.push_back(image(id, 0));
    if (id % 10 == 2) pair.target.push_back(image(id, 1));
  }
  if (pair.target.empty()) pair.target.push_back(image(pair.source.front(), 0));
  return pair;
}

PreparedDataset make_synthetic_text(const DatasetDescription& description, const std::filesystem::path& cache_dir,
                                    const Progress& progress) {
  if (description.classes <= kFirstMadeId) {
    throw UserError(fmt::format("no synthetic data for {}: made text has ids from {} on, and 'classes' is {}",
                                description.name, kFirstMadeId, description.classes));
  }
  Json splits = Json::array();
  for (const SplitSpec& split : description.splits) splits.push_back({split.name, split.samples});
  TextSource source;
  source.generator = fmt::format("text 1, seed {}", description.synthetic_seed);
  source.key = sha256_hex(canonical_json({{"version", kTextVersion},
                                          {"name", description.name},
                                          {"pairs", find_format(description.format)->pairs},
                                          {"classes", description.classes},
                                          {"splits", splits},
                                          {"length", description.synthetic_length},
                                          {"generator", source.generator}}));
  source.folder = std::filesystem::absolute(
      cache_dir / fmt::format("{}-synthetic-text-v{}-{}", description.name, kTextVersion, source.key.substr(0, 16)));
  source.what = fmt::format("making synthetic {}: {}", description.name, source.generator);
  source.make = make_made_tokens;
  return open_or_make_text(description, source, cache_dir, progress);
}

}  // namespace mlbench::dataset::text
