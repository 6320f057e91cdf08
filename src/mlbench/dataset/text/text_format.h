#pragma once

// Formats of text: functions that make token files and a vocabulary from the files of a data set. Internal to dataset/.

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/dataset/text/vocabulary.h"

namespace mlbench::dataset::text {

struct TextJob {
  const DatasetDescription& description;
  const std::vector<std::vector<std::filesystem::path>>& files;  // [split][file]
  std::filesystem::path dictionary;                              // the description's, where it was found; else ""
  std::filesystem::path folder;                                  // the output folder; must exist and be empty
  const Progress& progress;                                      // may be empty

  void say(const std::string& line) const {
    if (progress) progress(line);
  }
};

// Writes into job.folder, for each split
//   SPLIT.tokens                              of a text ("tokens"), or
//   SPLIT.source.tokens, SPLIT.target.tokens  of pairs, with equally many records
//   SPLIT.references.txt                      of evaluated pairs (any split but "train"): the raw target lines, one per
//                                             record
// and vocabulary.txt. Returns the counts of each split (TextCounts as JSON). Throws UserError where the files are not
// what the description says, and IoError where the disk refuses.
using MakeTokens = Json (*)(const TextJob& job);

// For lines of words between blanks (words.cpp): "<eos>" is put at each end of line, and all splits share one
// vocabulary. A split has any number of files, one behind the other.
Json make_words(const TextJob& job);

// For lines of source and target (pairs.cpp, read by PairReader of lines.h). Training pairs are cleaned by the
// description's rules, evaluated pairs are all kept. With a dictionary (subword_dictionary.h), lines are not tokenised;
// without one, they are tokenised as Moses does, and `pieces` shared pieces are learned from the training pairs.
Json make_pairs(const TextJob& job);

// For the output of MLBench's preparation of WMT16 (marked_pairs.cpp). Files of a split: one *.bin; or source and
// target as text with "@@", optionally followed by the raw target lines. The dictionary holds one part of a word per
// line.
Json make_marked_pairs(const TextJob& job);

// For the output of MLBench's preparation of WMT17 (indexed_pairs.cpp). Files of a split: *.idx and *.bin of the
// source, the same of the target, optionally followed by the raw target lines. The dictionary says what their ids mean,
// and must be there.
Json make_indexed_pairs(const TextJob& job);

// Names of the files in a prepared folder.
std::filesystem::path tokens_path(const std::filesystem::path& folder, const std::string& split,
                                  const std::string& column);  // `column`: "tokens", "source", "target"
std::filesystem::path references_path(const std::filesystem::path& folder, const std::string& split);
std::filesystem::path vocabulary_path(const std::filesystem::path& folder);

}  // namespace mlbench::dataset::text
