#pragma once

// A data set in memory: a mapped cache and its splits.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/dataset/cached_tokens.h"
#include "mlbench/dataset/description.h"

namespace mlbench::dataset {

namespace text {
class PreparedText;
}

// One split, mapped: fixed-size records of raw bytes as decoded (uint8 images, float32 rows), labels apart; or, of
// text, columns of tokens: "source" and "target" of equally many records, or "tokens", the whole text in one. Then
// `samples` counts the records, and features and labels are empty.
struct CachedSplit {
  std::string name;
  int64_t samples = 0;
  std::vector<int64_t> sample_shape;
  DType dtype = DType::kUInt8;
  ConstBufferView features;         // samples * volume elements, in official order
  std::span<const int64_t> labels;  // each in [0, classes)
  std::vector<TokenColumn> tokens = {};

  int64_t sample_volume() const;
  const TokenColumn& column(const std::string& name) const;  // UserError listing what there is
};

// A mapped cache. Copies share the mapping; views of a split live as long as one of them.
//
// Fingerprint: SHA-256 over all records, split after split in the description's order, each split in official order;
// a record is its feature bytes (as decoded, row-major, little endian) followed by its label as a little-endian int64.
// Of made data, the generator's text precedes them. Of text, whoever prepares it says what the fingerprint is over.
class PreparedDataset {
 public:
  // Whether the data are official follows from the fingerprint where the description has one. Otherwise all records
  // are hashed as the published files have them, unless `known_official` says what came out of that.
  PreparedDataset(const DatasetDescription& description, std::shared_ptr<const void> cache,
                  std::vector<CachedSplit> splits, std::string fingerprint, std::string generator,
                  std::optional<bool> known_official = std::nullopt);

  const CachedSplit& split(const std::string& name) const;  // UserError listing the splits
  const std::vector<CachedSplit>& splits() const { return splits_; }
  const std::string& fingerprint() const { return fingerprint_; }
  // The fingerprint is the description's; where that has none, every published file follows from the records.
  bool official() const { return official_; }
  bool synthetic() const { return !generator_.empty(); }
  int64_t classes() const { return classes_; }
  const std::string& name() const { return name_; }
  // The record's `data` field: name, fingerprint, official, synthetic, samples {split: count}; of made data generator.
  Json record() const;
  // Vocabulary, references and counts, of text; else null.
  const std::shared_ptr<text::PreparedText>& text() const { return text_; }
  void set_text(std::shared_ptr<text::PreparedText> text) { text_ = std::move(text); }

 private:
  std::string name_, fingerprint_;
  std::string generator_;  // of made data: name, version and seed; "" of decoded files
  bool official_ = false;
  int64_t classes_ = 0;
  std::shared_ptr<const void> cache_;  // what the views of the splits need
  std::vector<CachedSplit> splits_;
  std::shared_ptr<text::PreparedText> text_;
};

// Gets a line now and then from what takes long; may be empty.
using Progress = std::function<void(const std::string& line)>;

}  // namespace mlbench::dataset
