#pragma once

// What a data set is and where it comes from: tasks/data/NAME.toml.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/dataset/text/cleaning.h"

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
  std::string name;               // "train" | "test"
  int64_t samples = 0;            // of a text as one record: its tokens
  std::vector<FileSource> files;  // what the format's reader expects, in its order; none of data that are only made
};
// How text becomes tokens; of formats of text.
struct TextSpec {
  std::string source_language, target_language;  // of pairs that are tokenised here, or were: as Moses names them
  std::string dictionary;        // relative path of a vocabulary that is ready; "" or absent: one is made
  int64_t pieces = 0;            // to learn, the special ones included; 0: `classes`
  text::CleaningRules cleaning;  // of training pairs
};
struct DatasetDescription {
  std::string name, title, format;    // format: a row of the table in format.cpp, e.g. "idx"
  std::vector<int64_t> sample_shape;  // empty: of text
  int64_t classes = 0;                // of text: the size of the vocabulary, padding included
  std::vector<SplitSpec> splits;
  TextSpec text;
  ArchiveSource archive;  // pattern "": there is none
  std::vector<Lookalike> lookalikes;
  std::string fingerprint;     // official; "" unknown
  std::string system_package;  // Debian package, "" if none
  std::string system_path;     // where that package puts the files
  std::string folder;          // sub-folder of a data folder that may hold the files, e.g. "fashion-mnist"
  std::string licence, source;
  uint64_t synthetic_seed = 42;  // of made data: the same for every run
  double synthetic_length = 24;  // of made text: the median of a sentence's tokens, of either side

  int64_t sample_volume() const;  // product of sample_shape
  bool only_made() const;         // it has no files: synthetic.h makes all there is of it
};

// Checks every key and value. UserError "FILE:LINE:COLUMN: what was given, what was expected".
DatasetDescription parse_description(const std::string& file, std::string_view text);

// The embedded description. UserError listing the valid names.
const DatasetDescription& find_description(const std::string& name);
std::vector<std::string> dataset_names();

// UserError of data that are only made.
void require_files(const DatasetDescription& description);

}  // namespace mlbench::dataset
