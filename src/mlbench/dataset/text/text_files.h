#pragma once

// Makes a data set of text files that no description names.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/dataset/description.h"
#include "mlbench/dataset/locate.h"

namespace mlbench::dataset::text {

struct TextFileOptions {
  std::string source_language = "en", target_language = "de";
  int64_t vocabulary = 32000;  // number of pieces to learn, or of the most frequent words of one text
  int64_t most_words = 80;     // on each side of a pair; 0: any number
};

struct TextFiles {
  DatasetDescription description;  // has one split, "train", without a count or a fingerprint
  LocatedDataset located;
};

// One file is a text of words, two files are source and target line by line, and *.tsv files hold both in each line.
// The vocabulary's size is rounded up to a multiple of 8. Throws UserError where a file is missing, or for another
// number of files.
TextFiles describe_files(const std::vector<std::filesystem::path>& files, const TextFileOptions& options);

}  // namespace mlbench::dataset::text
