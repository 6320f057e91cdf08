#pragma once

// Writes a run's timeline as a trace that Perfetto and Chromium's tracing page show: Chrome's trace event format, with
// the schema api/timeline.schema.json. A rank is a process of the trace, and its rows are threads. Times are
// microseconds of the supervisor's clock since the first span. The first line of the file holds everything but the
// events, also the summary.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/report/timeline/run.h"

namespace mlbench::report {

// Makes the bytes of a trace on demand. It reads the spans again from the run's folder.
class TraceStream {
 public:
  // `summary` is that of summarize_timeline(run), which must have been called. With `step`, only that step is written.
  TraceStream(TimelineRun run, const Json& summary, std::optional<int64_t> step = std::nullopt);
  ~TraceStream();
  TraceStream(TraceStream&&) noexcept;
  TraceStream& operator=(TraceStream&&) noexcept;

  // The next piece of some 64 KiB; "" at the end.
  std::string next();
  size_t held_bytes() const;  // about how many bytes of memory the stream holds

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Writes a run's trace and returns its summary. At any moment `file` is the old or the complete new trace.
Json write_trace(const std::filesystem::path& run_dir, const record::Record& record, const std::filesystem::path& file);

// The summary in a trace's first line. Throws UserError when the file is no trace of write_trace().
Json read_trace_summary(const std::filesystem::path& file);

// The name that Horovod's timelines give to an operation: "ALLREDUCE" for "all_reduce".
std::string horovod_name(const std::string& operation);

}  // namespace mlbench::report
