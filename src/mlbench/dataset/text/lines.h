#pragma once

// Reads lines of text files, and pairs of lines, whatever the files hold. Internal to dataset/.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/input.h"
#include "mlbench/dataset/input_file.h"

namespace mlbench::dataset::text {

// Reads the lines of one file in bounded memory. A line ends with "\n" or "\r\n"; the last line may lack its end.
class TextLines {
 public:
  enum class Kind {
    kLine,
    kTooLong,  // longer than inputs::kTextLine: `line` is "", the next line follows
    kEnd,
  };

  explicit TextLines(const std::filesystem::path& path, TextFile::Origin origin = TextFile::Origin::kOutside);

  Kind next(std::string& line);
  int64_t number() const { return number_; }  // number of the line that next() gave last, from 1
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  bool refill();

  TextFile file_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // the part of `buffer_` that next() has not given yet
  int64_t number_ = 0;
};

struct LinePair {
  std::string source, target;
  bool too_long = false;  // one side was too long; both are ""
};

// Reads pairs of lines, file after file. The files are source files and as many target files, paired line by line; or
// files with both sides in each line (TAB between them, further columns ignored). Names of the latter end with ".tsv"
// (".tsv.gz" ...).
class PairReader {
 public:
  // `files` are source, target, source, target ..., or TSV files alone. Throws UserError where they are neither.
  explicit PairReader(std::vector<std::filesystem::path> files);

  // Returns false at the end. Throws UserError naming files and counts where a file is empty, or the two files of a
  // pair differ in their number of lines. Also throws UserError where a line of a TSV file lacks its second column.
  bool next(LinePair& pair);
  int64_t lines() const { return lines_; }

 private:
  bool open_next();
  bool next_of_two(LinePair& pair);
  bool next_of_table(LinePair& pair);

  std::vector<std::filesystem::path> files_;
  bool table_ = false;
  size_t opened_ = 0;  // how many of files_ were opened
  std::unique_ptr<TextLines> source_, target_;
  int64_t lines_ = 0;
};

// Whether a file's name says that each line holds both sides (".tsv", maybe packed).
bool is_table(const std::filesystem::path& file);

}  // namespace mlbench::dataset::text
