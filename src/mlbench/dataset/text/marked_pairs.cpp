#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/input_file.h"
#include "mlbench/dataset/text/binary_input.h"
#include "mlbench/dataset/text/characters.h"
#include "mlbench/dataset/text/cleaning.h"
#include "mlbench/dataset/text/lines.h"
#include "mlbench/dataset/text/text_format.h"
#include "mlbench/dataset/text/text_writer.h"

namespace mlbench::dataset::text {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostPairs = 1'000'000'000, kMostStride = 1'000'000;

// Reads a dictionary with one part of a word per line. MLBench puts the four special ids before these.
TextVocabulary read_marked_vocabulary(const TextJob& job) {
  std::vector<std::string> tokens = {"<pad>", "<unk>", "<s>", "</s>"};
  TextLines lines(job.dictionary);
  for (std::string line;;) {
    const TextLines::Kind kind = lines.next(line);
    if (kind == TextLines::Kind::kEnd) break;
    if (kind == TextLines::Kind::kTooLong || std::ssize(tokens) >= job.description.classes) {
      throw UserError(fmt::format("{}:{}: expected at most {} parts of words, one a line", job.dictionary.string(),
                                  lines.number(), job.description.classes - kEnd - 1));
    }
    tokens.emplace_back(stripped_ascii(line));
  }
  const TextSpec& text = job.description.text;
  return TextVocabulary({VocabularyKind::kMarked, job.description.classes, text.source_language, text.target_language},
                        std::move(tokens));
}

// Takes the ids between kBegin and kEnd, which the file has around each side.
template <typename Id>
void take_inner(std::span<const Id> ids, std::vector<int32_t>& out) {
  if (!ids.empty() && ids.front() == kBegin) ids = ids.subspan(1);
  if (!ids.empty() && ids.back() == kEnd) ids = ids.first(ids.size() - 1);
  out.assign(ids.begin(), ids.end());
}

struct StridedHeader {
  int64_t pairs = 0, vocabulary = 0, longest = 0;
};
constexpr int64_t kStridedHead = 4 * 8;  // bytes before the lengths

// Reads the header, all int64: pairs, vocabulary, shortest, longest; lengths of the sources, of the targets; the offset
// of the pairs, where `in` stands afterwards.
StridedHeader read_strided_header(BinaryInput& in, int64_t classes) {
  StridedHeader header;
  header.pairs = in.integer("header");
  header.vocabulary = in.integer("header");
  in.integer("header");
  header.longest = in.integer("header");
  const bool good = header.pairs > 0 && header.pairs <= kMostPairs && header.vocabulary > kEnd &&
                    header.vocabulary <= classes && header.longest > 0 && header.longest <= kMostStride;
  if (!good) {
    throw UserError(fmt::format("{}: {} pairs of up to {} tokens of a vocabulary of {}: expected one of at most {}",
                                in.path().string(), header.pairs, header.longest, header.vocabulary, classes));
  }
  in.skip(2 * header.pairs * 8, "lengths");
  const int64_t offset = in.integer("header"), expected = 8 * (5 + 2 * header.pairs);
  if (offset != expected) {
    throw UserError(fmt::format("{}: pairs at byte {}, expected {}", in.path().string(), offset, expected));
  }
  return header;
}

// Copies the pairs: for each, both sides, `longest` ids each, of 16 bits where the vocabulary allows. The lengths are
// read through inputs of their own at their places in the file, since they may be more than fits into memory.
template <typename Id>
void copy_strided(const TextJob& job, const StridedHeader& header, BinaryInput& in, PairWriter& writer) {
  const auto stride = static_cast<size_t>(header.longest);
  std::vector<Id> row(2 * stride);
  BinaryInput source_lengths(in.path()), target_lengths(in.path());
  source_lengths.skip(kStridedHead, "lengths");
  target_lengths.skip(kStridedHead + header.pairs * 8, "lengths");
  std::vector<int32_t> source, target;
  ProgressLines news(job, "reading " + in.path().filename().string());
  const auto side = [&](size_t first, int64_t length, int64_t pair) {
    if (length < 0 || length > header.longest) {
      throw UserError(fmt::format("{}: pair {} has a side of {} tokens, expected 0 to {}", in.path().string(), pair,
                                  length, header.longest));
    }
    const std::span<const Id> ids(row.data() + first, static_cast<size_t>(length));
    for (const Id id : ids) {
      if (id < 0 || id >= header.vocabulary) {
        throw UserError(fmt::format("{}: pair {} has id {}, expected 0 to {}", in.path().string(), pair, id,
                                    header.vocabulary - 1));
      }
    }
    return ids;
  };
  for (int64_t pair = 0; pair < header.pairs; ++pair, news.count()) {
    in.fill(std::span(row), "pairs");
    take_inner(side(0, source_lengths.integer("lengths"), pair), source);
    take_inner(side(stride, target_lengths.integer("lengths"), pair), target);
    writer.add(source, target, "");
  }
}

Json copy_strided_file(const TextJob& job, const std::string& split, const fs::path& file) {
  BinaryInput in(file);
  const StridedHeader header = read_strided_header(in, job.description.classes);
  PairWriter writer(job, split, job.description.classes);
  if (writer.wants_references()) {
    throw UserError(fmt::format("{}: split '{}' is evaluated, which needs text: expected source and target as text",
                                file.string(), split));
  }
  // NumPy's limit of int16.
  if (header.vocabulary <= 32767) {
    copy_strided<int16_t>(job, header, in, writer);
  } else {
    copy_strided<int32_t>(job, header, in, writer);
  }
  writer.commit();
  return {{"lines", header.pairs}, {"kept", header.pairs}};
}

Json copy_marked_text(const TextJob& job, const std::string& split, const std::vector<fs::path>& files,
                      TextVocabulary& vocabulary) {
  PairWriter writer(job, split, job.description.classes);
  PairReader reader({files[0], files[1]});
  std::unique_ptr<TextLines> references;
  if (files.size() == 3) references = std::make_unique<TextLines>(files[2]);
  ProgressLines news(job, "reading " + files[0].filename().string());
  TextCounts counts;
  std::vector<int32_t> source, target;
  std::string reference;
  for (LinePair pair; reader.next(pair); news.count()) {
    vocabulary.encode(pair.source, source);
    vocabulary.encode(pair.target, target);
    if (references && references->next(reference) == TextLines::Kind::kEnd) {
      throw UserError(fmt::format("{} ends after {} lines, {} goes on", files[2].string(), references->number(),
                                  files[1].string()));
    }
    if (!references && writer.wants_references()) {
      reference = vocabulary.text(std::vector<int64_t>(target.begin(), target.end()));
    }
    counts.add(pair.too_long ? Verdict::kTooLong : Verdict::kKept);
    if (!pair.too_long || writer.wants_references()) writer.add(source, target, reference);
  }
  writer.commit();
  return counts.json();
}

}  // namespace

Json make_marked_pairs(const TextJob& job) {
  if (job.dictionary.empty()) {
    throw UserError(fmt::format("{} is not beside the files of {}: their ids mean nothing without it",
                                job.description.text.dictionary, job.description.name));
  }
  TextVocabulary vocabulary = read_marked_vocabulary(job);
  vocabulary.save(vocabulary_path(job.folder));
  Json facts = Json::object();
  for (size_t i = 0; i < job.files.size(); ++i) {
    const std::string& split = job.description.splits[i].name;
    const auto& files = job.files[i];
    if (files.size() == 1) {
      facts[split] = copy_strided_file(job, split, files[0]);
    } else if (files.size() <= 3) {
      facts[split] = copy_marked_text(job, split, files, vocabulary);
    } else {
      throw UserError(
          fmt::format("split '{}' has {} files: expected one of pairs, or source, target and maybe the raw "
                      "target",
                      split, files.size()));
    }
  }
  return facts;
}

}  // namespace mlbench::dataset::text
