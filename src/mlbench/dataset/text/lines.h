#pragma once

// Lines of text files, and pairs of lines, whatever is in the files. Internal to dataset/.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/input.h"
#include "mlbench/dataset/input_file.h"

namespace mlbench::dataset::text {

// Lines of one file, in bounded memory. "\n" ends a line, a "\r" before it belongs to the end; the last line may lack
// it.
class TextLines {
 public:
  enum class Kind {
    kLine,
    kTooLong,  // over inputs::kTextLine: passed over, the line is ""
    kEnd,
  };

  explicit TextLines(const std::filesystem::path& path, TextFile::Origin origin = TextFile::Origin::kOutside);

  Kind next(std::string& line);
  int64_t number() const { return number_; }  // of the line that next() gave last, from 1
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  bool refill();

  TextFile file_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // what is not yet given out
  int64_t number_ = 0;
};

struct LinePair {
  std::string source, target;
  bool too_long = false;  // one of them; both are ""
};

// Pairs of lines, file after file: source files and as many target files, line by line, or files with both in each line
// (TAB between them, further columns ignored), whose name ends with ".tsv" (".tsv.gz" ...).
class PairReader {
 public:
  // `files`: source, target, source, target ...; or TSV files alone. UserError when it is neither.
  explicit PairReader(std::vector<std::filesystem::path> files);

  // False at the end. UserError, naming files and counts, when a file has no line, when the two of a pair have not as
  // many lines, when a line of a TSV file lacks its second column.
  bool next(LinePair& pair);
  int64_t lines() const { return lines_; }

 private:
  bool open_next();
  bool next_of_two(LinePair& pair);
  bool next_of_table(LinePair& pair);

  std::vector<std::filesystem::path> files_;
  bool table_ = false;
  size_t opened_ = 0;  // of files_
  std::unique_ptr<TextLines> source_, target_;
  int64_t lines_ = 0;
};

// Whether a file's name says that each line holds both sides.
bool is_table(const std::filesystem::path& file);

}  // namespace mlbench::dataset::text
