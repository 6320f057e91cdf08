#pragma once

// Reads a file of predictions: JSON objects, one a line, each with its sample's "index". Only metrics/ includes this.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::metrics {

class PredictionLines {
 public:
  // Indices must be below `end`; `whose` says what they number: "the split's 10000 samples".
  PredictionLines(const std::filesystem::path& file, int64_t end, std::string whose);

  // Calls `take` with each line and its index. Throws UserError "FILE:LINE: ..." for a line that is no object, or whose
  // index is missing, out of range or was given before; also throws what TextBlocks throws, and IoError.
  void read(const std::function<void(const Json& line, size_t index)>& take);

  // Throws UserError naming the file and the line that is being taken.
  [[noreturn]] void fail(const std::string& text) const;
  // Throws UserError naming the first indices below `end` that no line had.
  void check_complete(int64_t end) const;

  int64_t line() const { return line_; }  // from 1: the line that is being taken
  int64_t most() const { return most_; }  // the largest index so far; -1 before the first

 private:
  size_t index_of(const Json& line, std::string_view text);

  const std::filesystem::path path_;
  const std::string file_, whose_;
  std::vector<int64_t> line_of_;  // 0: no line had this index yet
  int64_t line_ = 0, most_ = -1;
};

// Whether the value is a whole number from 0 to `end` - 1.
bool is_below(const Json& value, int64_t end);

}  // namespace mlbench::metrics
