#pragma once

// Data sets: description, look-up, fetch, verify, and preparation into versioned, memory-mapped caches.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"

namespace mlbench::dataset {

// tasks/data/NAME.toml (embedded).
struct FileSource {
  std::string pattern;                 // relative path, e.g. "train-images-idx3-ubyte"; ".gz" may follow
  std::string sha256;                  // of the published file; empty if none is known
  std::int64_t bytes = 0;              // of the published file; 0 unknown
  std::string url;                     // "" when it cannot be fetched
};
struct SplitSpec {
  std::string name;                    // "train" | "test"
  int64_t samples = 0;
  std::vector<FileSource> files;       // what the format's reader expects, in its order
};
struct DatasetDescription {
  std::string name, title, format;     // format: "idx" ...
  std::vector<int64_t> sample_shape;
  int64_t classes = 0;
  std::vector<SplitSpec> splits;
  std::string fingerprint;             // official, over the decoded records of all splits in order; "" unknown
  std::string system_package;          // Debian package, "" if none
  std::string system_path;             // where that package puts the files
  std::string folder;                  // sub-folder of a data folder that may hold the files, e.g. "fashion-mnist"
  std::string licence, source;
};

// UserError listing the valid names.
const DatasetDescription& find_description(const std::string& name);
std::vector<std::string> dataset_names();

// A data set found on disk: the folder, and for each split the files in reader order.
struct LocatedDataset {
  std::filesystem::path folder;
  std::string origin;                  // "data-dir" | "home" | "package NAME"
  std::vector<std::vector<std::filesystem::path>> files;   // [split][file]
};
// Looks in the folders in order (DIR and DIR/<folder>), then in the system package. UserError that lists every place
// tried and the command that fetches it.
LocatedDataset locate(const DatasetDescription& description, const std::vector<std::string>& data_dirs);

// One split, mapped: fixed-size records of raw bytes as decoded (uint8 images, float32 rows), labels apart.
struct CachedSplit {
  std::string name;
  int64_t samples = 0;
  std::vector<int64_t> sample_shape;
  DType dtype = DType::kUInt8;
  ConstBufferView features;            // samples * volume elements, in official order
  std::span<const int64_t> labels;
};

class PreparedDataset {
 public:
  const CachedSplit& split(const std::string& name) const;   // UserError listing the splits
  const std::string& fingerprint() const { return fingerprint_; }
  bool official() const { return official_; }
  bool synthetic() const { return synthetic_; }
  int64_t classes() const { return classes_; }
  const std::string& name() const { return name_; }
  Json record() const;                 // the record's `data` field

 private:
  friend PreparedDataset prepare(const DatasetDescription&, const std::vector<std::string>&,
                                 const std::filesystem::path&, const std::function<void(const std::string&)>&);
  friend PreparedDataset make_synthetic(const DatasetDescription&, uint64_t, const std::filesystem::path&);
  std::string name_, fingerprint_;
  bool official_ = false, synthetic_ = false;
  int64_t classes_ = 0;
  std::vector<std::shared_ptr<MappedFile>> mappings_;
  std::vector<std::vector<int64_t>> labels_;
  std::vector<CachedSplit> splits_;
};

// Finds and decodes the data set into CACHE_DIR/<name>-v<version>-<key>/ once (key over the source files' identity),
// under a file lock (the first process on a host decodes, the others wait), checks counts, shapes, label range and
// sizes (UserError naming file, given and expected), and maps it. `progress` gets a line now and then.
PreparedDataset prepare(const DatasetDescription& description, const std::vector<std::string>& data_dirs,
                        const std::filesystem::path& cache_dir,
                        const std::function<void(const std::string&)>& progress);

// Made data of the same shape, counts and value type, learnable, from the seed alone; same cache form.
PreparedDataset make_synthetic(const DatasetDescription& description, uint64_t seed,
                               const std::filesystem::path& cache_dir);

struct VerifyResult { std::string file; bool ok; std::string message; };
// Size and SHA-256 of every file against the description.
std::vector<VerifyResult> verify(const DatasetDescription& description, const LocatedDataset& located);

// Downloads what is missing into `folder` (resume of partial files, checksum, rename). IoError / UserError.
void fetch(const DatasetDescription& description, const std::filesystem::path& folder,
           const std::function<void(const std::string& file, int64_t done, int64_t total)>& progress);

}  // namespace mlbench::dataset
