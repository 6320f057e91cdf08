#pragma once

// What a data set is and where it comes from: tasks/data/NAME.toml.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/dataset/text/cleaning.h"

namespace mlbench::dataset {

// A published file of a split. dataset/README.md describes every field of tasks/data/NAME.toml.
struct FileSource {
  std::string pattern;         // relative path, e.g. "train-images-idx3-ubyte"; ".gz", ".bz2" or ".xz" may follow
  std::string sha256;          // checksum of the published file; "" if none is known
  std::int64_t bytes = 0;      // size of the published file; 0: unknown
  std::string content_sha256;  // checksum of the unpacked content, for copies that are packed in another way; may be ""
  std::string url;             // "" when it cannot be fetched; its last component is the local file name
};
// One published archive that holds all files. Where it lies in a data folder, the files need not be unpacked.
struct ArchiveSource {
  std::string pattern;  // relative path, e.g. "cifar-10-binary.tar"; ".gz", ".bz2", ".xz" may follow
  std::string folder;   // folder in the archive that holds the files; unpacked, it may lie in a data folder, too
  std::string sha256;
  std::int64_t bytes = 0;
  std::string url;
};
// Something that is easily taken for the data set, but is not read by this program.
struct Lookalike {
  std::string pattern;  // relative path, e.g. "cifar-10-batches-py"
  std::string advice;
};
struct SplitSpec {
  std::string name;               // those of spec/split.h, or one that no task reads
  int64_t samples = 0;            // for one text (format "words"): its number of tokens
  std::vector<FileSource> files;  // in the order that the format's reader expects; empty for data that are only made
  std::string container = {};     // of encoded images: a row of the table in images.cpp, e.g. "folder"
  int64_t first_label = 0;        // what record files call the first class
  int64_t synthetic_samples = 0;  // of made data; 0: as many as `samples`
};
// How text becomes tokens. Only formats of text use it.
struct TextSpec {
  std::string source_language, target_language;  // for pairs that are, or were, tokenised by Moses' rules: "en", "de"
  std::string dictionary;        // relative path of a ready vocabulary; "" or a missing file: one is learned
  int64_t pieces = 0;            // how many pieces to learn, including the special ones; 0: as many as `classes`
  text::CleaningRules cleaning;  // which training pairs are kept
};
struct DatasetDescription {
  std::string name, title, format;    // format: a row of the table in format.cpp, e.g. "idx"
  std::vector<int64_t> sample_shape;  // empty for text
  int64_t classes = 0;                // for text: the size of the vocabulary, padding included
  std::vector<SplitSpec> splits;
  TextSpec text;
  ArchiveSource archive;  // none where its pattern is ""
  std::vector<Lookalike> lookalikes;
  std::string fingerprint;     // the official one; "": unknown
  std::string system_package;  // Debian package, "" if none
  std::string system_path;     // where that package puts the files
  std::string folder;          // sub-folder of a data folder that may hold the files, e.g. "fashion-mnist"
  std::string licence, source;
  uint64_t synthetic_seed = 42;  // seed of made data: the same for every run
  // Made text: median length of a sentence in tokens, on either side. Made sparse rows: how often a column is drawn.
  double synthetic_length = 24;

  int64_t sample_volume() const;  // product of sample_shape
  bool only_made() const;         // no split has files: only synthetic.h can make the data
};

// Reads `text`, the content of a description named `file`, and checks every key and value. Throws UserError
// "FILE:LINE:COLUMN: what was given, what was expected".
DatasetDescription parse_description(const std::string& file, std::string_view text);

// The embedded description named `name`. Throws UserError listing the valid names.
const DatasetDescription& find_description(const std::string& name);
std::vector<std::string> dataset_names();

// Throws UserError where the data are only made, and so have no files to fetch or read.
void require_files(const DatasetDescription& description);

}  // namespace mlbench::dataset
