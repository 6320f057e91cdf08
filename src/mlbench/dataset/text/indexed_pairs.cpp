#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/input_file.h"
#include "mlbench/dataset/text/binary_input.h"
#include "mlbench/dataset/text/lines.h"
#include "mlbench/dataset/text/subword_dictionary.h"
#include "mlbench/dataset/text/text_format.h"
#include "mlbench/dataset/text/text_writer.h"

namespace mlbench::dataset::text {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostRecords = 1'000'000'000, kMostTokensOfRecord = 1'000'000;
constexpr int64_t kTorchInt32 = 4;  // the number of int32 among Torch's types

// Records of int32 ids: FILE.idx, a TorchNet index (magic, version 1, type and its size, records, dimensions; offsets
// of dimensions and of data, both [records + 1]), and FILE.bin, the ids.
class IndexedTokens {
 public:
  IndexedTokens(const fs::path& index, const fs::path& data, const std::vector<int32_t>& ids)
      : index_(index), data_(data), from_file_ids_(ids) {
    BinaryInput& in = index_;
    std::array<char, 8> magic{};
    in.fill(std::span<char>(magic), "header");
    if (std::string_view(magic.data(), magic.size()) != std::string_view("TNTIDX\0\0", 8)) {
      throw UserError(index.string() + ": no TorchNet index, which begins with TNTIDX");
    }
    const int64_t version = in.integer("header"), type = in.integer("header"), size = in.integer("header");
    const int64_t records = in.integer("header");
    in.integer("header");
    if (version != 1 || type != kTorchInt32 || size != 4 || records < 1 || records > kMostRecords) {
      throw UserError(
          fmt::format("{}: version {}, type {} of {} bytes, {} records; expected version 1, type 4 of 4 "
                      "bytes (int32) and at least one record",
                      index.string(), version, type, size, records));
    }
    records_ = records;
    in.skip((records + 1) * 8, "offsets of dimensions");
    offset_ = in.integer("offsets of data");
  }

  int64_t records() const { return records_; }

  // The next record, without the end that stands behind it, in our ids.
  void next(std::vector<int32_t>& ids) {
    const int64_t end = index_.integer("offsets of data");
    if ((next_ == 0 && offset_ != 0) || end < offset_ || end - offset_ > kMostTokensOfRecord) {
      throw UserError(fmt::format("{}: record {} is from {} to {}: expected rising offsets from 0",
                                  index_.path().string(), next_, offset_, end));
    }
    ids.resize(static_cast<size_t>(end - offset_));
    offset_ = end;
    data_.fill(std::span(ids), "ids");
    for (int32_t& id : ids) {
      if (id < 0 || id >= std::ssize(from_file_ids_)) {
        throw UserError(fmt::format("{}: record {} has id {}, expected 0 to {}, as the dictionary has",
                                    data_.path().string(), next_, id, from_file_ids_.size() - 1));
      }
      id = from_file_ids_[static_cast<size_t>(id)];
    }
    if (!ids.empty() && ids.back() == kEnd) ids.pop_back();
    ++next_;
  }

 private:
  BinaryInput index_, data_;
  const std::vector<int32_t>& from_file_ids_;
  int64_t records_ = 0, offset_ = 0, next_ = 0;
};

Json copy_indexed(const TextJob& job, size_t split, const DictionaryFile& dictionary,
                  const TextVocabulary& vocabulary) {
  const std::string& name = job.description.splits[split].name;
  const auto& files = job.files[split];
  if (files.size() != 4 && files.size() != 5) {
    throw UserError(
        fmt::format("split '{}' has {} files: expected *.idx and *.bin of the source and of the target, and "
                    "maybe the raw target",
                    name, files.size()));
  }
  IndexedTokens sources(files[0], files[1], dictionary.from_file_ids);
  IndexedTokens targets(files[2], files[3], dictionary.from_file_ids);
  if (sources.records() != targets.records()) {
    throw UserError(fmt::format("{} has {} records, {} has {}: expected as many", files[0].string(), sources.records(),
                                files[2].string(), targets.records()));
  }
  std::unique_ptr<TextLines> references;
  if (files.size() == 5) references = std::make_unique<TextLines>(files[4]);
  PairWriter writer(job, name, job.description.classes);
  ProgressLines news(job, "reading " + files[1].filename().string());
  std::vector<int32_t> source, target;
  std::string reference;
  for (int64_t i = 0; i < sources.records(); ++i, news.count()) {
    sources.next(source);
    targets.next(target);
    if (references && references->next(reference) == TextLines::Kind::kEnd) {
      throw UserError(fmt::format("{} ends after {} lines, expected {}", files[4].string(), i, sources.records()));
    }
    if (!references && writer.wants_references()) {
      reference = vocabulary.text(std::vector<int64_t>(target.begin(), target.end()));
    }
    writer.add(source, target, reference);
  }
  writer.commit();
  return {{"lines", sources.records()}, {"kept", sources.records()}};
}

}  // namespace

Json make_indexed_pairs(const TextJob& job) {
  if (job.dictionary.empty()) {
    throw UserError(fmt::format("{} is not beside the files of {}: their ids mean nothing without it",
                                job.description.text.dictionary, job.description.name));
  }
  const DictionaryFile dictionary = read_dictionary(job.dictionary);
  const TextVocabulary vocabulary({VocabularyKind::kSubwords, job.description.classes, "", ""}, dictionary.subwords);
  vocabulary.save(vocabulary_path(job.folder));
  Json facts = Json::object();
  for (size_t i = 0; i < job.files.size(); ++i) {
    facts[job.description.splits[i].name] = copy_indexed(job, i, dictionary, vocabulary);
  }
  return facts;
}

}  // namespace mlbench::dataset::text
