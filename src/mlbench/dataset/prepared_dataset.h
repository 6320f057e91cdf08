#pragma once

// A data set in memory: a mapped cache and its splits.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/check_cost.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/dataset/column.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/stored_shards.h"

namespace mlbench::dataset {

namespace text {
class PreparedText;
}

// One split, mapped: `samples` records in official order, as typed columns. Images and rows have "features" and
// "labels"; the features of sparse rows are a SparseColumn. Text has "source" and "target", or "tokens", the whole text
// as one record. Of encoded images the columns say where they lie in the shards (images.h).
struct CachedSplit {
  std::string name;
  int64_t samples = 0;
  std::vector<Column> columns;
  std::vector<std::filesystem::path> shards = {};   // the files of encoded images, or their folder; else none
  std::shared_ptr<const StoredShards> stored = {};  // set where `shards` are addresses in a store, and no files

  bool encoded() const { return !shards.empty(); }
  bool sparse() const;  // whether "features" are sparse rows

  // The column of that type and name. Throws UserError listing the columns.
  template <typename T>
  const T& column(std::string_view name) const;
  std::span<const int64_t> labels() const { return column<FixedColumn>("labels").as<int64_t>(); }
};

// A mapped cache. Copies share the mapping; views of a split stay valid as long as one copy lives.
//
// Fingerprint: SHA-256 over all records, split after split in the description's order, each split in official order. A
// record is what its columns hold of it, one after the other, little endian: values of one shape as they are (features,
// then the label as int64); bytes, or entries of sparse rows, after their number, an int64. For made data, the
// generator's text precedes the records. For text, the fingerprint is that of text/prepared_text.h.
class PreparedDataset {
 public:
  // `generator` is "" for decoded files. Where the description has no fingerprint and `known_official` is not given,
  // the constructor hashes all records as the published files hold them, to know whether the data are official.
  PreparedDataset(const DatasetDescription& description, std::shared_ptr<const void> cache,
                  std::vector<CachedSplit> splits, std::string fingerprint, std::string generator,
                  std::optional<bool> known_official = std::nullopt);

  const CachedSplit& split(const std::string& name) const;  // throws UserError listing the splits
  const std::vector<CachedSplit>& splits() const { return splits_; }
  const std::string& fingerprint() const { return fingerprint_; }
  // Whether the fingerprint is the description's; without one there, whether the records yield the checksum of every
  // published file. Always false for made data.
  bool official() const { return official_; }
  bool synthetic() const { return !generator_.empty(); }
  int64_t classes() const { return classes_; }
  const std::string& name() const { return name_; }
  // The `data` member of the run record: name, fingerprint, official, synthetic, samples {split: count}, and for made
  // data generator.
  Json record() const;
  // Vocabulary, references and counts of text; null for other data.
  const std::shared_ptr<text::PreparedText>& text() const { return text_; }
  void set_text(std::shared_ptr<text::PreparedText> text) { text_ = std::move(text); }
  // What comparing the CRC-32C of records cost this process; 0 where the index was there, and without such records.
  CheckCost records_checked() const { return records_checked_; }
  void set_records_checked(CheckCost cost) { records_checked_ = cost; }

 private:
  std::string name_, fingerprint_;
  std::string generator_;  // made data: name, version and seed of the generator; decoded files: ""
  bool official_ = false;
  int64_t classes_ = 0;
  std::shared_ptr<const void> cache_;  // keeps the views of the splits valid
  std::vector<CachedSplit> splits_;
  std::shared_ptr<text::PreparedText> text_;
  CheckCost records_checked_ = {};
};

// Is called with a line now and then by work that takes long; may be empty.
using Progress = std::function<void(const std::string& line)>;

}  // namespace mlbench::dataset
