#pragma once

// What one rank's segment has gained since the last look. Supervisor, master and command line read growing spools with
// it.

#include <cstdint>
#include <filesystem>
#include <functional>

#include "mlbench/base/growing_lines.h"
#include "mlbench/base/json.h"
#include "mlbench/record/step_reader.h"

namespace mlbench::record {

// How far a reader has come. A cursor may be kept between calls, or longer: it is four numbers.
struct SpoolCursor {
  int64_t steps = 0;  // offset in the file of steps
  LineCursor events;  // its `left_out` also counts lines that are no events
};

class SpoolTail {
 public:
  SpoolTail(std::filesystem::path run_dir, int64_t segment, int64_t rank, const SpoolCursor& from = {});

  using TakeStep = std::function<void(const StepRecord& record)>;
  using TakeEvent = std::function<void(const Json& event)>;
  // Passes on what is new, at most one piece of each file: first steps, then events. Returns whether there was
  // anything; to read all, the caller repeats the call until it returns false. An absent file has nothing. Throws
  // UserError when the file of steps is no spool, has another version, or is damaged; what comes before the damage is
  // passed on, once.
  bool read(const TakeStep& take_step, const TakeEvent& take_event);

  bool has_header() const { return steps_.has_header(); }
  // All zero while there is no header.
  const SpoolHeader& header() const { return steps_.header(); }
  const SpoolCursor& cursor() const { return cursor_; }

 private:
  std::filesystem::path events_path_;
  StepReader steps_;
  SpoolCursor cursor_;
};

}  // namespace mlbench::record
