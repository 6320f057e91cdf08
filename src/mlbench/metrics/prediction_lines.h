#pragma once

// A file of predictions: JSON objects, one a line, each with the "index" of what it is about. Internal to metrics/.

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
  // Indices are below `end`; `whose` says what has these: "the split's 10000 samples".
  PredictionLines(const std::filesystem::path& file, int64_t end, std::string whose);

  // Calls `take` with each line and its index. UserError "FILE:LINE: ..." for a line that is no object, has no index,
  // one out of range or one that was given before; as TextBlocks. IoError.
  void read(const std::function<void(const Json& line, size_t index)>& take);

  // UserError naming file and line, while a line is taken.
  [[noreturn]] void fail(const std::string& text) const;
  // UserError naming the first indices below `end` that no line had.
  void check_complete(int64_t end) const;

  int64_t line() const { return line_; }  // from 1: the one that is taken
  int64_t most() const { return most_; }  // the largest index; -1 before the first

 private:
  size_t index_of(const Json& line, std::string_view text);

  const std::filesystem::path path_;
  const std::string file_, whose_;
  std::vector<int64_t> line_of_;  // 0: none yet
  int64_t line_ = 0, most_ = -1;
};

// A whole number of at least 0, below `end`.
bool is_below(const Json& value, int64_t end);

}  // namespace mlbench::metrics
