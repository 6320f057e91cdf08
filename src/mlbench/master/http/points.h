#pragma once

// The body of a batch of points: JSON lines, one record per line:
//   {"rank": 0, "sequence": 17, "step": 340, "time": 1700000000.25, "values": {"train_loss": 0.43, "lr": 0.1}}
// `rank` and `sequence` are required. Where they are left out, `step` is 0 and `time` (seconds since 1970, or a date)
// is `now_us`. A value is a number, or null for NaN.

#include <deque>
#include <string>
#include <vector>

#include "mlbench/store/journal.h"

namespace mlbench::master {

struct ParsedBatch {
  std::vector<store::ClientRecord> records;
  // The texts that names in `records` point into.
  std::string padded;
  std::deque<std::string> unescaped;
};

// Throws HttpError 400, naming the line, for any other text.
ParsedBatch parse_points(const std::string& body, int64_t now_us);

}  // namespace mlbench::master
