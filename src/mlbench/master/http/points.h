#pragma once

// The body of a batch of points: JSON lines, one record per line:
//   {"rank": 0, "sequence": 17, "step": 340, "time": 1700000000.25, "values": {"train_loss": 0.43, "lr": 0.1}}
// `rank` and `sequence` are required; `step` is 0 and `time` (seconds since 1970, or a date) now where they are left
// out; a value is a number, or null for one that is none.

#include <deque>
#include <string>
#include <vector>

#include "mlbench/store/journal.h"

namespace mlbench::master {

struct ParsedBatch {
  std::vector<store::ClientRecord> records;
  // What the names in `records` point into.
  std::string padded;
  std::deque<std::string> unescaped;
};

// HttpError 400, naming the line, for anything else.
ParsedBatch parse_points(const std::string& body, int64_t now_us);

}  // namespace mlbench::master
