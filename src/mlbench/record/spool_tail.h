#pragma once

// What one rank's segment has gained since the last look: the one reader of spools that grow, for the supervisor, the
// master and the command line.

#include <cstdint>
#include <filesystem>
#include <functional>

#include "mlbench/base/growing_lines.h"
#include "mlbench/base/json.h"
#include "mlbench/record/step_reader.h"

namespace mlbench::record {

// Where a reader is. Kept between calls, or longer: four numbers.
struct SpoolCursor {
  int64_t steps = 0;  // bytes of the file of steps
  LineCursor events;  // its `left_out` counts lines that are no events, too
};

class SpoolTail {
 public:
  SpoolTail(std::filesystem::path run_dir, int64_t segment, int64_t rank, const SpoolCursor& from = {});

  using TakeStep = std::function<void(const StepRecord& record)>;
  using TakeEvent = std::function<void(const Json& event)>;
  // Gives what is new, one piece of each file at most: first steps, then events. Returns whether anything was; call
  // again until nothing is. Absent files have nothing. UserError when the file of steps is no spool, of another version
  // or damaged: what stood before the damage was given, and is not given again.
  bool read(const TakeStep& take_step, const TakeEvent& take_event);

  bool has_header() const { return steps_.has_header(); }
  // Zeros while there is none.
  const SpoolHeader& header() const { return steps_.header(); }
  const SpoolCursor& cursor() const { return cursor_; }

 private:
  std::filesystem::path events_path_;
  StepReader steps_;
  SpoolCursor cursor_;
};

}  // namespace mlbench::record
