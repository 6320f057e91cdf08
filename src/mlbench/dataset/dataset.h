#pragma once

// Data sets: description, look-up, fetch, verify, and preparation into versioned, memory-mapped caches.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"

namespace mlbench::dataset {

// tasks/data/NAME.toml (embedded). Every field is described in dataset/README.md.
struct FileSource {
  std::string pattern;         // relative path, e.g. "train-images-idx3-ubyte"; ".gz", ".bz2" or ".xz" may follow
  std::string sha256;          // of the published file; empty if none is known
  std::int64_t bytes = 0;      // of the published file; 0 unknown
  std::string content_sha256;  // of the unpacked content, for copies that are packed otherwise; may be empty
  std::string url;             // "" when it cannot be fetched; its last component is the local file name
};
// One archive that holds all files, as it was published: the files then need not be unpacked.
struct ArchiveSource {
  std::string pattern;  // relative path, e.g. "cifar-10-binary.tar"; ".gz", ".bz2", ".xz" may follow
  std::string folder;   // folder in the archive that holds the files; unpacked, it is found in a data folder, too
  std::string sha256;
  std::int64_t bytes = 0;
  std::string url;
};
// Something of the same name that this program does not read, and what to do instead.
struct Lookalike {
  std::string pattern;  // relative path, e.g. "cifar-10-batches-py"
  std::string advice;
};
struct SplitSpec {
  std::string name;  // "train" | "test"
  int64_t samples = 0;
  std::vector<FileSource> files;  // what the format's reader expects, in its order
};
struct DatasetDescription {
  std::string name, title, format;  // format: a row of the table in format.cpp, e.g. "idx"
  std::vector<int64_t> sample_shape;
  int64_t classes = 0;
  std::vector<SplitSpec> splits;
  ArchiveSource archive;  // pattern "": there is none
  std::vector<Lookalike> lookalikes;
  std::string fingerprint;     // official; "" unknown
  std::string system_package;  // Debian package, "" if none
  std::string system_path;     // where that package puts the files
  std::string folder;          // sub-folder of a data folder that may hold the files, e.g. "fashion-mnist"
  std::string licence, source;

  int64_t sample_volume() const;  // product of sample_shape
};

// Checks every key and value. UserError "FILE:LINE:COLUMN: what was given, what was expected".
DatasetDescription parse_description(const std::string& file, std::string_view text);

// The embedded description. UserError listing the valid names.
const DatasetDescription& find_description(const std::string& name);
std::vector<std::string> dataset_names();

// A data set found on disk: the folder, and for each split the files in reader order.
struct LocatedDataset {
  std::filesystem::path folder;
  std::string origin;                                     // "data folder" | "package NAME"
  std::vector<std::vector<std::filesystem::path>> files;  // [split][file]; members of the archive, where there is one
  std::filesystem::path archive;                          // "" when the files lie there themselves
};
// Looks in the folders in order (DIR/<folder>, then DIR: two sets may name their files alike; in each also in the
// archive's folder), then in the system package. A file may be there as it was published or unpacked, or all of them in
// the archive. UserError that lists every place tried, what is missing there, what was taken for it and the command
// that fetches it.
LocatedDataset locate(const DatasetDescription& description, const std::vector<std::string>& data_dirs);

// One split, mapped: fixed-size records of raw bytes as decoded (uint8 images, float32 rows), labels apart.
struct CachedSplit {
  std::string name;
  int64_t samples = 0;
  std::vector<int64_t> sample_shape;
  DType dtype = DType::kUInt8;
  ConstBufferView features;         // samples * volume elements, in official order
  std::span<const int64_t> labels;  // each in [0, classes)

  int64_t sample_volume() const;
};

// A mapped cache. Copies share the mapping; views of a split live as long as one of them.
//
// Fingerprint: SHA-256 over all records, split after split in the description's order, each split in official order;
// a record is its feature bytes (as decoded, row-major, little endian) followed by its label as a little-endian int64.
class PreparedDataset {
 public:
  PreparedDataset(const DatasetDescription& description, std::shared_ptr<const MappedFile> cache,
                  std::vector<CachedSplit> splits, std::string fingerprint, bool synthetic);

  const CachedSplit& split(const std::string& name) const;  // UserError listing the splits
  const std::vector<CachedSplit>& splits() const { return splits_; }
  const std::string& fingerprint() const { return fingerprint_; }
  // The fingerprint is the description's; where that has none, every published file follows from the records.
  bool official() const { return official_; }
  bool synthetic() const { return synthetic_; }
  int64_t classes() const { return classes_; }
  const std::string& name() const { return name_; }
  // The record's `data` field: name, fingerprint, official, synthetic, samples {split: count}.
  Json record() const;

 private:
  std::string name_, fingerprint_;
  bool official_ = false, synthetic_ = false;
  int64_t classes_ = 0;
  std::shared_ptr<const MappedFile> cache_;
  std::vector<CachedSplit> splits_;
};

using Progress = std::function<void(const std::string& line)>;

// Finds and decodes the data set into CACHE_DIR/<name>-v<version>-<key>.cache once (key over the description and path,
// size and modification time of the source files), under a file lock: the first process on a host decodes, the others
// wait. Checks counts, shapes, label range and sizes (UserError naming file, given and expected), and maps the result.
// Every call hashes the mapped records (about 0.6 s per GB), so that what is trained on is what the fingerprint says; a
// cache that is damaged, cut or of another version is made anew. `progress` (may be empty) gets a line now and then.
// A disk that is full: IoError, and no half cache is left.
PreparedDataset prepare(const DatasetDescription& description, const std::vector<std::string>& data_dirs,
                        const std::filesystem::path& cache_dir, const Progress& progress);

// Made data of the same shape, counts and value type, from the seed alone (on all cores; their number does not matter);
// same cache form, so a data set of 4 GB takes 4 GB of disk for each seed. Learnable: of uint8 images, sample i of
// either split has label i mod classes and is the prototype of its class plus noise; float32 rows of two classes lie on
// the unit sphere with labels drawn by a logistic model (synthetic.h).
PreparedDataset make_synthetic(const DatasetDescription& description, uint64_t seed,
                               const std::filesystem::path& cache_dir, const Progress& progress = {});

struct VerifyResult {
  std::string file;
  bool ok;
  std::string message;
};
// Size and SHA-256 of every file against the description; a file that is packed otherwise (or not at all) is compared
// by its unpacked content.
std::vector<VerifyResult> verify(const DatasetDescription& description, const LocatedDataset& located);

// Downloads what is missing into DATA_DIR/<description.folder>, where locate(description, {DATA_DIR}) finds it, and
// returns that folder. Only http and https. A broken transfer leaves FILE.part and is taken up where it stopped (now, a
// few times, or by the next call); a file gets its name after its checksum was right. `progress` (may be empty) is
// called with bytes done and in all (0: unknown). IoError (network, disk) / UserError (no URL known, checksum).
std::filesystem::path fetch(const DatasetDescription& description, const std::filesystem::path& data_dir,
                            const std::function<void(const std::string& file, int64_t done, int64_t total)>& progress);

}  // namespace mlbench::dataset
