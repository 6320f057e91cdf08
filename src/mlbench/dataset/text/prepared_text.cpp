#include "mlbench/dataset/text/prepared_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/sha256.h"
#include "mlbench/dataset/cache.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/text/lines.h"
#include "mlbench/dataset/text/text_format.h"

namespace mlbench::dataset::text {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::hours kTextLockTimeout{6};

std::vector<std::string> columns_of(const Format& format) {
  return format.pairs ? std::vector<std::string>{"source", "target"} : std::vector<std::string>{"tokens"};
}

const Format& text_format_of(const DatasetDescription& description) {
  const Format* format = find_format(description.format);
  MLBENCH_CHECK(format != nullptr && format->make_tokens != nullptr, "only formats of text come here");
  return *format;
}

// The path of the dictionary, which may be packed; "" where there is none.
fs::path dictionary_of(const DatasetDescription& description, const LocatedDataset& located) {
  if (description.text.dictionary.empty()) return {};
  return find_file(located.folder, description.text.dictionary).value_or(fs::path());
}

// A hash over all that determines tokens and vocabulary.
std::string text_key(const DatasetDescription& description, const LocatedDataset& located) {
  Json sources = Json::array();
  const auto add = [&](const fs::path& file) { sources.push_back(state_of_file(file)); };
  for (const auto& split : located.files) {
    std::ranges::for_each(split, add);
    sources.push_back(nullptr);
  }
  const fs::path dictionary = dictionary_of(description, located);
  if (!dictionary.empty()) add(dictionary);
  Json splits = Json::array();
  for (const SplitSpec& split : description.splits) splits.push_back(split.name);
  const TextSpec& text = description.text;
  return sha256_hex(canonical_json({{"version", kTextVersion},
                                    {"name", description.name},
                                    {"format", description.format},
                                    {"classes", description.classes},
                                    {"splits", splits},
                                    {"sources", sources},
                                    {"languages", {text.source_language, text.target_language}},
                                    {"dictionary", !dictionary.empty()},
                                    {"pieces", text.pieces},
                                    {"least_words", text.cleaning.least_words},
                                    {"most_words", text.cleaning.most_words},
                                    {"most_ratio", text.cleaning.most_ratio},
                                    {"latin1", text.cleaning.latin1}}));
}

struct OpenedText {
  std::optional<PreparedDataset> data;
  std::string problem;
};

// Maps the prepared text. Throws DamagedTokens, UserError or IoError where it is not whole.
PreparedDataset open_text(const DatasetDescription& description, const TextSource& source) {
  const fs::path& folder = source.folder;
  const auto text = std::make_shared<PreparedText>(folder);
  struct Keep {
    std::shared_ptr<const PreparedText> text;
    std::vector<CachedTokens> files;
  };
  const auto keep = std::make_shared<Keep>();
  keep->text = text;
  Sha256 hash;
  hash.update(source.generator);
  hash.update(read_file(vocabulary_path(folder)));
  std::vector<CachedSplit> splits;
  for (const SplitSpec& spec : description.splits) {
    CachedSplit split;
    split.name = spec.name;
    for (const std::string& column : columns_of(text_format_of(description))) {
      CachedTokens& tokens = keep->files.emplace_back(tokens_path(folder, spec.name, column));
      tokens.verify_once();
      hash.update(tokens.sha256());
      split.columns.emplace_back(tokens.column(column));
      split.samples = tokens.records();
    }
    splits.push_back(std::move(split));
  }
  const std::string fingerprint = hash.hex();
  const Json& facts = text->facts();
  if (facts.value("key", "") != source.key || facts.value("fingerprint", "") != fingerprint ||
      facts.value("splits_sha256", "") != sha256_hex(canonical_json(facts.value("splits", Json())))) {
    throw DamagedTokens(folder.string() + " is damaged: tokens and facts do not agree");
  }
  PreparedDataset data(description, keep, std::move(splits), fingerprint, source.generator);
  data.set_text(text);
  return data;
}

OpenedText try_open(const DatasetDescription& description, const TextSource& source) {
  std::error_code ignored;
  if (!fs::exists(source.folder, ignored)) return {};
  try {
    return {open_text(description, source), ""};
  } catch (const std::exception& error) {
    return {{}, error.what()};
  }
}

std::string fingerprint_of_folder(const DatasetDescription& description, const TextSource& source,
                                  const fs::path& folder) {
  Sha256 hash;
  hash.update(source.generator);
  hash.update(read_file(vocabulary_path(folder)));
  for (const SplitSpec& spec : description.splits) {
    for (const std::string& column : columns_of(text_format_of(description))) {
      hash.update(CachedTokens(tokens_path(folder, spec.name, column)).sha256());
    }
  }
  return hash.hex();
}

void make_text(const DatasetDescription& description, const TextSource& source, const Progress& progress) {
  const fs::path& folder = source.folder;
  const fs::path temporary = folder.string() + ".tmp";
  fs::remove_all(temporary);  // left by a killed process; the lock is held
  fs::create_directories(temporary);
  try {
    const Json counts = source.make({description, source.files, source.dictionary, temporary, progress});
    for (const auto& [split, row] : counts.items()) {
      if (progress) progress(fmt::format("{} {}: {}", description.name, split, row.dump()));
    }
    write_json_file(temporary / "facts.json",
                    {{"version", kTextVersion},
                     {"name", description.name},
                     {"key", source.key},
                     {"fingerprint", fingerprint_of_folder(description, source, temporary)},
                     {"splits_sha256", sha256_hex(canonical_json(counts))},
                     {"splits", counts}},
                    inputs::kTextFacts);
    fs::remove_all(folder);
    fs::rename(temporary, folder);
    sync_directory(folder.parent_path());
  } catch (const fs::filesystem_error& error) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw IoError(error.what());
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
}

}  // namespace

PreparedText::PreparedText(fs::path folder)
    : folder_(std::move(folder)),
      facts_(read_json_file(folder_ / "facts.json", inputs::kTextFacts)),
      vocabulary_(TextVocabulary::load(vocabulary_path(folder_))) {}

std::vector<std::string> PreparedText::references(const std::string& split) const {
  const fs::path path = references_path(folder_, split);
  if (!fs::exists(path)) {
    throw UserError(fmt::format("split '{}' in {} has no references: it is not one of pairs that is evaluated", split,
                                folder_.string()));
  }
  TextLines lines(path, TextFile::Origin::kOwn);
  std::vector<std::string> all;
  for (std::string line; lines.next(line) != TextLines::Kind::kEnd;) all.push_back(line);
  return all;
}

TextPlace place_of_text(const DatasetDescription& description, const LocatedDataset& located,
                        const fs::path& cache_dir) {
  const fs::path folder = fs::absolute(cache_dir / fmt::format("{}-text-v{}-{}", description.name, kTextVersion,
                                                               text_key(description, located).substr(0, 16)));
  std::error_code ignored;
  return {folder, fs::exists(folder / "facts.json", ignored)};
}

PreparedDataset open_or_make_text(const DatasetDescription& description, const TextSource& source,
                                  const fs::path& cache_dir, const Progress& progress) {
  const auto say = [&](const std::string& line) {
    if (progress) progress(line);
  };
  make_folder(cache_dir);
  if (OpenedText opened = try_open(description, source); opened.data) return *std::move(opened.data);

  const fs::path lock_path = source.folder.string() + ".lock";
  auto lock = FileLock::acquire(lock_path, std::chrono::milliseconds(0));
  if (!lock) {
    say("waiting for another process that prepares " + source.folder.string());
    lock = FileLock::acquire(lock_path, kTextLockTimeout);
    if (!lock) {
      throw IoError(fmt::format("another process has held {} for {} h: is it stuck?", lock_path.string(),
                                kTextLockTimeout.count()));
    }
  }
  OpenedText opened = try_open(description, source);  // it may have been made while we waited
  if (opened.data) return *std::move(opened.data);
  if (!opened.problem.empty()) say(fmt::format("{} is made anew: {}", source.folder.string(), opened.problem));
  say(source.what);
  make_text(description, source, progress);
  return open_text(description, source);
}

PreparedDataset prepare_text(const DatasetDescription& description, const LocatedDataset& located,
                             const fs::path& cache_dir, const Progress& progress) {
  return open_or_make_text(
      description,
      {.key = text_key(description, located),
       .folder = place_of_text(description, located, cache_dir).folder,
       .generator = "",
       .what = fmt::format("preparing {} from {} ({})", description.name, located.folder.string(), located.origin),
       .files = located.files,
       .dictionary = dictionary_of(description, located),
       .make = text_format_of(description).make_tokens},
      cache_dir, progress);
}

}  // namespace mlbench::dataset::text
