#include "mlbench/supervise/traces.h"

#include <algorithm>
#include <fstream>

#include "mlbench/record/spool.h"

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
    const record::RankSpool spool = record::read_spool(run.run_dir, segment, rank);
    if (spool.header.start_wall_us == 0) continue;
    int64_t end_ns = 0;
    if (!spool.steps.empty()) end_ns = spool.steps.back().end_ns;
    for (const Json& event : spool.events) end_ns = std::max(end_ns, event.value("end_ns", int64_t{0}));
    const int64_t end_us = spool.header.start_wall_us + end_ns / 1000;
    last_us = std::max(last_us.value_or(end_us), end_us);
  }
  if (!last_us) return std::nullopt;
  return std::chrono::system_clock::time_point(std::chrono::microseconds(*last_us));
}

bool work_ended(const spec::RunSpec& run, int64_t segment, int64_t rank) {
  const auto events = record::read_spool(run.run_dir, segment, rank).events;
  return std::any_of(events.begin(), events.end(), [](const Json& event) { return event.value("event", "") == "end"; });
}

}  // namespace mlbench::supervise
