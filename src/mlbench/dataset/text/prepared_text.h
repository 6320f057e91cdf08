#pragma once

// Prepared text: a folder of token files, a vocabulary and what was counted.
//
// CACHE_DIR/<name>-text-v<version>-<key>/ holds
//   facts.json      version, name, key, fingerprint; counts of each split and their SHA-256. Written last.
//   vocabulary.txt  and, where pieces were learned, pieces.model (SentencePiece's own file, for other programs)
//   tokens and references, under the names of text_format.h
// The fingerprint is the SHA-256 over the vocabulary file and then, split after split in the description's order, the
// SHA-256 (64 digits) of each token file, in the order "tokens" or "source", "target". For made text (synthetic_text.h)
// the generator's text precedes these.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/dataset/cached_tokens.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/locate.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/dataset/text/text_format.h"
#include "mlbench/dataset/text/vocabulary.h"

namespace mlbench::dataset::text {

inline constexpr int kTextVersion = 1;  // goes up when this layout or what a format produces changes

class PreparedText {
 public:
  explicit PreparedText(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  const TextVocabulary& vocabulary() const { return vocabulary_; }
  // For encoding, which changes the vocabulary's cache of words: one thread at a time.
  TextVocabulary& vocabulary() { return vocabulary_; }
  const Json& facts() const { return facts_; }
  // The target lines of a split that is evaluated, one per record. Throws UserError where the split has none.
  std::vector<std::string> references(const std::string& split) const;

 private:
  std::filesystem::path folder_;
  Json facts_;
  TextVocabulary vocabulary_;
};

// What a folder of prepared text is made from.
struct TextSource {
  std::string key;               // SHA-256 over all that determines tokens and vocabulary
  std::filesystem::path folder;  // where the folder is, or is to be
  std::string generator;         // name, version and seed of the generator of made text; else ""
  std::string what;              // progress line: "preparing NAME from ..."
  std::vector<std::vector<std::filesystem::path>> files = {};
  std::filesystem::path dictionary = {};
  MakeTokens make = nullptr;
};
// Maps the folder of `source` where it is whole. Otherwise makes the folder under a temporary name beside it and
// renames it, under a file lock, so that one process makes it and the others wait.
PreparedDataset open_or_make_text(const DatasetDescription& description, const TextSource& source,
                                  const std::filesystem::path& cache_dir, const Progress& progress);

// What prepare() of prepare.h does for formats of text.
PreparedDataset prepare_text(const DatasetDescription& description, const LocatedDataset& located,
                             const std::filesystem::path& cache_dir, const Progress& progress);

// Where prepare_text() puts the folder, and whether one is there already.
struct TextPlace {
  std::filesystem::path folder;
  bool prepared = false;
};
TextPlace place_of_text(const DatasetDescription& description, const LocatedDataset& located,
                        const std::filesystem::path& cache_dir);

}  // namespace mlbench::dataset::text
