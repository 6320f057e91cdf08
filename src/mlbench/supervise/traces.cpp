#include "mlbench/supervise/traces.h"

#include <algorithm>
#include <fstream>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/exec/executor.h"
#include "mlbench/record/events.h"
#include "mlbench/record/spool_tail.h"
#include "mlbench/record/step_reader.h"
#include "mlbench/supervise/culprit.h"

namespace mlbench::supervise {

namespace {

constexpr LogStream kErrorsFirst[] = {LogStream::kStderr, LogStream::kStdout};

// The lines in the last `bytes` bytes of a file.
std::vector<std::string> last_lines(const std::filesystem::path& path, size_t bytes) {
  constexpr size_t kMostColumns = 500;
  std::error_code error;
  const auto size = std::filesystem::is_regular_file(path, error) ? std::filesystem::file_size(path, error) : 0;
  if (error || size == 0) return {};
  std::ifstream stream(path);
  if (size > bytes) stream.seekg(static_cast<std::streamoff>(size - bytes));
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line.substr(0, kMostColumns));
  return lines;
}

// The text of a line of our own log (base/log.h), without its time stamp.
std::string without_stamp(const std::string& line) {
  const size_t end = line.find("] ");
  const bool stamped = line.size() > 12 && line[2] == ':' && line[5] == ':' && line[8] == '.';
  return stamped && end != std::string::npos ? line.substr(end + 2) : line;
}

// The last line that holds a reason, for people.
std::string reason_in(const std::filesystem::path& log) {
  constexpr size_t kMostBytes = 65536, kMostShown = 300;
  std::string reason;
  for (const std::string& line : last_lines(log, kMostBytes)) {
    if (holds_reason(line)) reason = printable(without_stamp(line), kMostShown);
  }
  return reason;
}

}  // namespace

std::vector<std::string> log_tail(const spec::RunSpec& run, int64_t segment, int64_t rank) {
  constexpr size_t kMostBytes = 16384;
  constexpr ptrdiff_t kMostLines = 20;
  std::vector<std::string> lines;
  for (const LogStream stream : kErrorsFirst) {
    const auto more = last_lines(rank_log_path(logs_dir(run.run_dir), segment, rank, stream), kMostBytes);
    lines.insert(lines.end(), more.end() - std::min(std::ssize(more), kMostLines - std::ssize(lines)), more.end());
  }
  return lines;
}

std::optional<std::chrono::system_clock::time_point> last_trace(const spec::RunSpec& run, int64_t segment) {
  std::optional<int64_t> last_us;
  for (int64_t rank = 0; rank < run.workers; ++rank) {
    record::SpoolTail spool(run.run_dir, segment, rank);
    int64_t end_ns = 0;
    while (
        spool.read([&](const record::StepRecord& step) { end_ns = std::max(end_ns, step.end_ns); },
                   [&](const Json& event) { end_ns = std::max(end_ns, record::get(event, record::member::kEndNs)); })) {
    }
    if (!spool.has_header()) continue;
    const int64_t end_us = spool.header().start_wall_us + end_ns / 1000;
    last_us = std::max(last_us.value_or(end_us), end_us);
  }
  if (!last_us) return std::nullopt;
  return std::chrono::system_clock::time_point(std::chrono::microseconds(*last_us));
}

double lost_seconds(const spec::RunSpec& run, const record::Segment& before,
                    std::chrono::system_clock::time_point now) {
  auto last = last_trace(run, before.index);
  if (!last && !before.finished_at.empty()) last = parse_utc(before.finished_at);
  return last ? std::max(0.0, to_seconds(now - *last)) : 0;
}

bool work_ended(const spec::RunSpec& run, int64_t segment, int64_t rank) {
  try {
    const record::StepReader own(run.run_dir, segment, rank);
  } catch (const UserError&) {
    return false;  // the spool is of another run, or damaged
  }
  return std::ranges::any_of(record::read_events(run.run_dir, segment, rank).lines,
                             [](const Json& event) { return record::is(event, record::EventKind::kEnd); });
}

bool ended_by_itself(const spec::RunSpec& run, int64_t segment) {
  return std::ranges::any_of(record::read_events(run.run_dir, segment, 0).lines, [](const Json& event) {
    return record::is(event, record::EventKind::kEnd) && record::get(event, record::member::kReason) != "stopped";
  });
}

WordsLeft words_left(const spec::RunSpec& run, int64_t segment, int64_t rank) {
  WordsLeft words;
  for (const Json& event : record::read_events(run.run_dir, segment, rank).lines) {
    if (record::is(event, record::EventKind::kFailure)) words.report = event;
  }
  const std::filesystem::path logs = logs_dir(run.run_dir);
  for (const LogStream stream : kErrorsFirst) {
    words.log_reason = reason_in(rank_log_path(logs, segment, rank, stream));
    if (!words.log_reason.empty()) return words;
  }
  // Open MPI's errors about a rank may be in the log of mpirun.
  words.log_reason = reason_in(launcher_log_path(logs, "mpirun", segment));
  return words;
}

}  // namespace mlbench::supervise
