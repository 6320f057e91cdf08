#pragma once

// Text files that no description names, as a data set.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/dataset/description.h"
#include "mlbench/dataset/locate.h"

namespace mlbench::dataset::text {

struct TextFileOptions {
  std::string source_language = "en", target_language = "de";
  int64_t vocabulary = 32000;  // pieces to learn, or the most frequent words of one text
  int64_t most_words = 80;     // of a side of a pair; 0: any number
};

struct TextFiles {
  DatasetDescription description;  // one split, "train", without a count or a fingerprint
  LocatedDataset located;
};

// One file is a text of words, two are source and target line by line, *.tsv files hold both in each line. The
// vocabulary is padded to a multiple of 8. UserError when a file is not there, or for another number of them.
TextFiles describe_files(const std::vector<std::filesystem::path>& files, const TextFileOptions& options);

}  // namespace mlbench::dataset::text
