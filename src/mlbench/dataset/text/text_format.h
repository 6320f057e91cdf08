#pragma once

// Formats of text: what makes token files and a vocabulary of the files of a data set. Internal to dataset/.

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
  std::filesystem::path dictionary;                              // of the description, where it was found; ""
  std::filesystem::path folder;                                  // to write to; there, and empty
  const Progress& progress;                                      // may be empty

  void say(const std::string& line) const {
    if (progress) progress(line);
  }
};

// Writes into job.folder, for each split
//   SPLIT.tokens                              of a text ("tokens"), or
//   SPLIT.source.tokens, SPLIT.target.tokens  of pairs, of equally many records
//   SPLIT.references.txt                      of pairs that are evaluated (any split but "train"): the target lines as
//                                             they were, one per record
// and vocabulary.txt. Returns the counts of each split (TextCounts as JSON). UserError when the files are not what the
// description says, IoError when the disk refuses.
using MakeTokens = Json (*)(const TextJob& job);

// words.cpp: lines of words between blanks, "<eos>" at each end of line; all splits in one vocabulary. Files: any
// number, one behind the other.
Json make_words(const TextJob& job);

// pairs.cpp: lines of source and target (PairReader of lines.h). Training pairs are cleaned by the description's rules,
// evaluated ones are all kept. With a dictionary (subword_dictionary.h) lines are taken as they are; without, they are
// tokenised as Moses does and `pieces` shared pieces are learned of the training pairs.
Json make_pairs(const TextJob& job);

// marked_pairs.cpp: what MLBench's preparation of WMT16 leaves. Files: one *.bin, or source and target as text with
// "@@", and then maybe the raw target lines. The dictionary holds a part of a word per line.
Json make_marked_pairs(const TextJob& job);

// indexed_pairs.cpp: what MLBench's preparation of WMT17 leaves. Files: *.idx and *.bin of the source, of the target,
// and then maybe the raw target lines. With the dictionary that its ids are of.
Json make_indexed_pairs(const TextJob& job);

// Names of files in the folder.
inline constexpr const char* kTrainSplit = "train";
std::filesystem::path tokens_path(const std::filesystem::path& folder, const std::string& split,
                                  const std::string& column);  // "tokens", "source", "target"
std::filesystem::path references_path(const std::filesystem::path& folder, const std::string& split);
std::filesystem::path vocabulary_path(const std::filesystem::path& folder);

}  // namespace mlbench::dataset::text
