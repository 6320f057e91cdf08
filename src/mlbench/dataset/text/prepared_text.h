#pragma once

// Prepared text: a folder of token files, a vocabulary and what was counted.
//
// CACHE_DIR/<name>-text-v<version>-<key>/ holds
//   facts.json      version, name, key, fingerprint; counts of each split and their SHA-256. Written last.
//   vocabulary.txt  and, where pieces were learned, pieces.model (SentencePiece's own file, for other programs)
//   tokens and references, as text_format.h names them
// Fingerprint: SHA-256 over the vocabulary file, then split after split in the description's order the SHA-256 (64
// digits) of each of its token files, in the order "tokens" or "source", "target". Of made text (synthetic_text.h) the
// generator's text precedes them.

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

inline constexpr int kTextVersion = 1;  // counts changes of this layout and of what formats produce

class PreparedText {
 public:
  explicit PreparedText(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  const TextVocabulary& vocabulary() const { return vocabulary_; }
  // For encoding, which keeps what it met: one thread.
  TextVocabulary& vocabulary() { return vocabulary_; }
  const Json& facts() const { return facts_; }
  // The target lines of a split that is evaluated, one per record. UserError where it has none.
  std::vector<std::string> references(const std::string& split) const;

 private:
  std::filesystem::path folder_;
  Json facts_;
  TextVocabulary vocabulary_;
};

// What a folder is made of.
struct TextSource {
  std::string key;               // over all that determines tokens and vocabulary
  std::filesystem::path folder;  // its place
  std::string generator;         // of made text; ""
  std::string what;              // "preparing NAME from ..."
  std::vector<std::vector<std::filesystem::path>> files = {};
  std::filesystem::path dictionary = {};
  MakeTokens make = nullptr;
};
// Maps what lies at its place; else makes the folder beside it and renames it, under its lock.
PreparedDataset open_or_make_text(const DatasetDescription& description, const TextSource& source,
                                  const std::filesystem::path& cache_dir, const Progress& progress);

// prepare() of prepare.h, for formats of text.
PreparedDataset prepare_text(const DatasetDescription& description, const LocatedDataset& located,
                             const std::filesystem::path& cache_dir, const Progress& progress);

// Where prepare_text() puts it, and whether something lies there already.
struct TextPlace {
  std::filesystem::path folder;
  bool prepared = false;
};
TextPlace place_of_text(const DatasetDescription& description, const LocatedDataset& located,
                        const std::filesystem::path& cache_dir);

}  // namespace mlbench::dataset::text
