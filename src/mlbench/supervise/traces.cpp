#include "mlbench/supervise/traces.h"

#include <algorithm>
#include <fstream>

#include "mlbench/base/errors.h"
#include "mlbench/record/events.h"
#include "mlbench/record/spool_tail.h"
#include "mlbench/record/step_reader.h"

namespace mlbench::supervise {

std::vector<std::string> log_tail(const std::filesystem::path& path) {
  constexpr size_t kMostBytes = 16384, kMostColumns = 500, kMostLines = 20;
  std::error_code error;
  const auto size = std::filesystem::is_regular_file(path, error) ? std::filesystem::file_size(path, error) : 0;
  if (error || size == 0) return {};
  std::ifstream stream(path);
  if (size > kMostBytes) stream.seekg(static_cast<std::streamoff>(size - kMostBytes));
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line.substr(0, kMostColumns));
  if (lines.size() > kMostLines) lines.erase(lines.begin(), lines.end() - kMostLines);
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

bool work_ended(const spec::RunSpec& run, int64_t segment, int64_t rank) {
  try {
    const record::StepReader own(run.run_dir, segment, rank);
  } catch (const UserError&) {
    return false;  // another run's, or damaged
  }
  return std::ranges::any_of(record::read_events(run.run_dir, segment, rank).lines,
                             [](const Json& event) { return record::is(event, record::EventKind::kEnd); });
}

}  // namespace mlbench::supervise
