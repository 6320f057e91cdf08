#pragma once

// A run's timeline as a trace that Perfetto and Chromium's tracing page show: Chrome's trace event format, schema
// api/timeline.schema.json. A process is a rank, a row of it a thread; times are microseconds of the supervisor's
// clock since the first span. The first line of the file holds all but the events, the summary included.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/report/timeline/run.h"

namespace mlbench::report {

// The bytes of a trace, made as they are asked for: the spans are read again from the run's folder.
class TraceStream {
 public:
  // `summary`: of summarize_timeline(run). `step`: of this step alone.
  TraceStream(TimelineRun run, const Json& summary, std::optional<int64_t> step = std::nullopt);
  ~TraceStream();
  TraceStream(TraceStream&&) noexcept;
  TraceStream& operator=(TraceStream&&) noexcept;

  // Some 64 KiB; "" at the end.
  std::string next();
  size_t held_bytes() const;  // about

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// `file` is the old or the new trace, never half of one. Returns the summary.
Json write_trace(const std::filesystem::path& run_dir, const record::Record& record, const std::filesystem::path& file);

// The summary in a trace's first line. UserError when the file is no trace of write_trace.
Json read_trace_summary(const std::filesystem::path& file);

// "ALLREDUCE": what Horovod calls an operation of that name, "all_reduce", in its own timelines.
std::string horovod_name(const std::string& operation);

}  // namespace mlbench::report
