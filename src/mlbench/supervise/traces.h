#pragma once

// Reads what ranks leave behind in a run's folder: logs and spools.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/record/build_record.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::supervise {

// The last 20 lines that the rank wrote: those of its standard error and, where these are fewer, then the last of its
// standard output. Each is cut to 500 bytes.
std::vector<std::string> log_tail(const spec::RunSpec& run, int64_t segment, int64_t rank);

// When a rank of the segment last wrote to its spool; empty where none did. Reads all spools of the segment.
std::optional<std::chrono::system_clock::time_point> last_trace(const spec::RunSpec& run, int64_t segment);

// The seconds from the last trace of the segment `before`, or else from its end, until `now`; 0 where neither is known.
double lost_seconds(const spec::RunSpec& run, const record::Segment& before, std::chrono::system_clock::time_point now);

// Whether the rank's spool says that its work was finished (the event `end`). Reads the spool.
bool work_ended(const spec::RunSpec& run, int64_t segment, int64_t rank);

// Whether rank 0 came to the run's end before it was stopped: its spool has the event `end` for another reason.
bool ended_by_itself(const spec::RunSpec& run, int64_t segment);

struct WordsLeft {
  std::optional<Json> report;  // the last failure in the rank's spool
  // The last line of its standard error or else of its standard output that holds a reason (culprit.h), for people; "":
  // none does.
  std::string log_reason;
};
WordsLeft words_left(const spec::RunSpec& run, int64_t segment, int64_t rank);

}  // namespace mlbench::supervise
