#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/text/characters.h"
#include "mlbench/dataset/text/cleaning.h"
#include "mlbench/dataset/text/lines.h"
#include "mlbench/dataset/text/moses.h"
#include "mlbench/dataset/text/pieces.h"
#include "mlbench/dataset/text/subword_dictionary.h"
#include "mlbench/dataset/text/text_format.h"
#include "mlbench/dataset/text/text_writer.h"
#include "mlbench/spec/split.h"

namespace mlbench::dataset::text {

namespace fs = std::filesystem;

namespace {

// Tokenises both sides of pairs. Made without languages, for a vocabulary of raw text, it only replaces white space.
class SideTokenizers {
 public:
  SideTokenizers() = default;
  SideTokenizers(const std::string& source, const std::string& target) : source_(source), target_(target) {}

  void apply(LinePair& pair) const {
    pair.source = apply(source_, pair.source);
    pair.target = apply(target_, pair.target);
  }

 private:
  static std::string apply(const std::optional<MosesTokenizer>& tokenizer, const std::string& line) {
    if (tokenizer) return tokenizer->tokenize(line);
    std::string blanks(stripped_ascii(line));
    std::ranges::replace_if(
        blanks, [](char c) { return c >= '\t' && c <= '\r'; }, ' ');
    return blanks;
  }

  std::optional<MosesTokenizer> source_, target_;
};

// Writes the training pairs that are kept, tokenised, into two files, which later passes read; removes the files when
// destroyed. Counts the words of these pairs where pieces are to be learned.
class TrainingText {
 public:
  TrainingText(const TextJob& job, const SideTokenizers& tokenizers) : job_(job), tokenizers_(tokenizers) {}
  ~TrainingText() {
    std::error_code ignored;
    for (const fs::path& path : paths()) fs::remove(path, ignored);
  }
  TrainingText(const TrainingText&) = delete;
  TrainingText& operator=(const TrainingText&) = delete;

  std::vector<fs::path> paths() const { return {job_.folder / "kept.source", job_.folder / "kept.target"}; }

  TextCounts write(const std::vector<fs::path>& files, WordCounts* words) const {
    const CleaningRules rules = job_.description.text.cleaning;
    LineWriter source(paths()[0]), target(paths()[1]);
    PairReader reader(files);
    ProgressLines news(job_, "tokenising");
    TextCounts counts;
    for (LinePair pair; reader.next(pair); news.count()) {
      const Verdict verdict = judge(rules, pair);
      counts.add(verdict);
      if (verdict != Verdict::kKept) continue;
      source.add(pair.source);
      target.add(pair.target);
      if (words == nullptr) continue;
      words->add(pair.source);
      words->add(pair.target);
    }
    source.close();
    target.close();
    return counts;
  }

 private:
  Verdict judge(const CleaningRules& rules, LinePair& pair) const {
    if (pair.too_long) return Verdict::kTooLong;
    if (!is_utf8(pair.source) || !is_utf8(pair.target)) return Verdict::kBadUtf8;
    tokenizers_.apply(pair);
    if (std::max(pair.source.size(), pair.target.size()) > inputs::kTextLine.most_bytes) return Verdict::kTooLong;
    return judge_pair(rules, pair.source, pair.target);
  }

  const TextJob& job_;
  const SideTokenizers& tokenizers_;
};

TextVocabulary learn_vocabulary(const TextJob& job, WordCounts words) {
  const DatasetDescription& description = job.description;
  const int64_t size = description.text.pieces > 0 ? description.text.pieces : description.classes;
  const fs::path table = job.folder / "words.tsv";
  words.write(table);
  job.say(fmt::format("learning {} pieces of {} different words", size, words.size()));
  words = WordCounts();  // the memory is the learner's now
  std::vector<std::string> pieces = learn_pieces(table, size, job.folder / "pieces.model");
  fs::remove(table);
  return TextVocabulary({VocabularyKind::kPieces, description.classes, description.text.source_language,
                         description.text.target_language},
                        std::move(pieces));
}

// Writes every pair of an evaluated split. Bytes that are not UTF-8 are replaced, and their pairs counted.
TextCounts write_evaluated(const TextJob& job, size_t split, const SideTokenizers& tokenizers,
                           TextVocabulary& vocabulary) {
  const SplitSpec& spec = job.description.splits[split];
  PairWriter writer(job, spec.name, job.description.classes);
  PairReader reader(job.files[split]);
  TextCounts counts;
  std::vector<int32_t> source, target;
  for (LinePair pair; reader.next(pair);) {
    if (pair.too_long) {
      throw UserError(
          fmt::format("{}, pair {} of split '{}': a line of more than {} bytes, and every line of a split "
                      "that is evaluated counts",
                      job.files[split].front().string(), reader.lines(), spec.name, inputs::kTextLine.most_bytes));
    }
    const bool bad = !is_utf8(pair.source) || !is_utf8(pair.target);
    counts.add(Verdict::kKept);
    if (bad) {
      ++counts.bad_utf8;
      pair.source = to_utf8(code_points(pair.source));
      pair.target = to_utf8(code_points(pair.target));
    }
    const std::string reference = pair.target;
    tokenizers.apply(pair);
    vocabulary.encode(pair.source, source);
    vocabulary.encode(pair.target, target);
    writer.add(source, target, reference);
  }
  writer.commit();
  return counts;
}

void write_training(const TextJob& job, const TrainingText& text, TextVocabulary& vocabulary) {
  PairWriter writer(job, spec::kTrainSplit, job.description.classes);
  const std::vector<fs::path> paths = text.paths();
  TextLines sources(paths[0], TextFile::Origin::kOwn), targets(paths[1], TextFile::Origin::kOwn);
  ProgressLines news(job, "writing tokens");
  std::vector<int32_t> source, target;
  for (std::string line; sources.next(line) != TextLines::Kind::kEnd; news.count()) {
    vocabulary.encode(line, source);
    targets.next(line);
    vocabulary.encode(line, target);
    writer.add(source, target, "");
  }
  writer.commit();
}

}  // namespace

Json make_pairs(const TextJob& job) {
  const DatasetDescription& description = job.description;
  const auto train =
      std::ranges::find(description.splits, spec::kTrainSplit, &SplitSpec::name) - description.splits.begin();
  if (train == std::ssize(description.splits)) {
    throw UserError(fmt::format("data set {} has no split 'train', of which its vocabulary is made", description.name));
  }
  const bool raw = !job.dictionary.empty();
  const SideTokenizers tokenizers =
      raw ? SideTokenizers() : SideTokenizers(description.text.source_language, description.text.target_language);
  WordCounts words;
  const TrainingText text(job, tokenizers);
  const TextCounts kept = text.write(job.files[static_cast<size_t>(train)], raw ? nullptr : &words);
  if (kept.kept == 0) {
    throw UserError(fmt::format("none of the {} training pairs of {} is kept: {}", kept.lines, description.name,
                                kept.json().dump()));
  }
  const int64_t dropped = words.dropped();
  TextVocabulary vocabulary = raw ? TextVocabulary({VocabularyKind::kSubwords, description.classes, "", ""},
                                                   read_dictionary(job.dictionary).subwords)
                                  : learn_vocabulary(job, std::move(words));
  vocabulary.save(vocabulary_path(job.folder));

  Json facts = Json::object();
  for (size_t i = 0; i < description.splits.size(); ++i) {
    Json& row = facts[description.splits[i].name];
    if (static_cast<std::ptrdiff_t>(i) == train) {
      write_training(job, text, vocabulary);
      row = kept.json();
      row["words_not_counted"] = dropped;
    } else {
      row = write_evaluated(job, i, tokenizers, vocabulary).json();
    }
  }
  return facts;
}

}  // namespace mlbench::dataset::text
