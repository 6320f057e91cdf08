#pragma once

// Reads what ranks leave behind in a run's folder: logs and spools.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/spec/run_spec.h"

namespace mlbench::supervise {

// The last 20 lines of a log, each cut to 500 bytes; empty where there is no log.
std::vector<std::string> log_tail(const std::filesystem::path& path);

// When a rank of the segment last wrote to its spool; empty where none did. Reads all spools of the segment.
std::optional<std::chrono::system_clock::time_point> last_trace(const spec::RunSpec& run, int64_t segment);

// Whether the rank's spool says that its work was finished (the event `end`). Reads the spool.
bool work_ended(const spec::RunSpec& run, int64_t segment, int64_t rank);

struct WordsLeft {
  std::optional<Json> report;  // the last failure in the rank's spool
  std::string log_reason;      // last line of its log that holds a reason (culprit.h), for people; "": none does
};
WordsLeft words_left(const spec::RunSpec& run, int64_t segment, int64_t rank);

}  // namespace mlbench::supervise
