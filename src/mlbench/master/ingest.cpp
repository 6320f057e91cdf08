#include "mlbench/master/ingest.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <optional>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/master/runs.h"
#include "mlbench/report/records.h"
#include "mlbench/spec/client_lines.h"
#include "mlbench/spec/points.h"
#include "mlbench/spec/spool.h"

namespace mlbench::master {

namespace fs = std::filesystem;

namespace {

std::optional<spec::SpoolHeader> read_header(const fs::path& file) {
  spec::SpoolHeader header, expected;
  if (!std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof header)) return std::nullopt;
  if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0 || header.version != expected.version ||
      header.record_bytes != expected.record_bytes) {
    throw UserError(fmt::format("{} is not a step spool of version {}", file.string(), expected.version));
  }
  return header;
}

}  // namespace

void Ingest::catch_up(const fs::path& run_dir) {
  const spec::RunSpec run = read_spec(run_dir);
  const std::lock_guard lock(mutex_);
  for (int64_t rank = 0; rank < run.workers; ++rank) {
    if (spec::is_custom(run)) {
      while (read_lines(run_dir, run.id, rank)) {
      }
      continue;
    }
    for (int64_t segment = 1; fs::exists(spec::steps_path(run_dir, segment, rank)); ++segment) {
      while (read_some(run_dir, run.id, segment, rank)) {
      }
    }
  }
}

bool Ingest::read_lines(const fs::path& run_dir, int64_t run, int64_t rank) {
  const fs::path file = spec::client_lines_path(run_dir, rank);
  const std::string key = file.filename(), sequence_key = key + " sequence";
  const int64_t before = series_.offset(run, key);
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error || static_cast<int64_t>(size) <= before) return false;
  const std::string text = report::read_appended(file, static_cast<uintmax_t>(before));
  int64_t last_sequence = series_.offset(run, sequence_key);
  spec::Points points;
  size_t used = 0;
  for (size_t end; (end = text.find('\n', used)) != std::string::npos; used = end + 1) {
    const auto line = spec::parse_client_line(std::string_view(text).substr(used, end - used));
    if (!line || line->sequence <= last_sequence) continue;
    last_sequence = line->sequence;
    spec::add_points(points, *line, rank);
  }
  if (used == 0) return false;
  series_.append(run, points, {{key, before + static_cast<int64_t>(used)}, {sequence_key, last_sequence}});
  return true;
}

bool Ingest::read_some(const fs::path& run_dir, int64_t run, int64_t segment, int64_t rank) {
  const fs::path steps = spec::steps_path(run_dir, segment, rank), events = spec::events_path(run_dir, segment, rank);
  const std::string steps_key = steps.filename(), events_key = events.filename();
  const int64_t steps_before = series_.offset(run, steps_key), events_before = series_.offset(run, events_key);
  std::error_code error;
  const auto size_of = [&](const fs::path& file) {
    const auto size = fs::file_size(file, error);
    return error ? int64_t{0} : static_cast<int64_t>(size);
  };
  const int64_t steps_from = std::max<int64_t>(steps_before, sizeof(spec::SpoolHeader));
  const bool new_steps = size_of(steps) >= steps_from + static_cast<int64_t>(sizeof(spec::StepRecord));
  if (!new_steps && size_of(events) <= events_before) return false;
  const auto header = read_header(steps);
  if (!header) return false;

  spec::Points points;
  std::map<std::string, int64_t> offsets;
  const std::string records = new_steps ? report::read_appended(steps, static_cast<uintmax_t>(steps_from)) : "";
  size_t used = 0;
  for (; records.size() - used >= sizeof(spec::StepRecord); used += sizeof(spec::StepRecord)) {
    spec::StepRecord record;
    std::memcpy(&record, records.data() + used, sizeof record);
    spec::add_points(points, record, *header);
  }
  if (used > 0) offsets[steps_key] = steps_from + static_cast<int64_t>(used);
  const std::string lines = report::read_appended(events, static_cast<uintmax_t>(events_before));
  size_t line = 0;
  for (size_t end; (end = lines.find('\n', line)) != std::string::npos; line = end + 1) {
    const Json event = Json::parse(lines.begin() + static_cast<std::ptrdiff_t>(line),
                                   lines.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (event.is_object()) spec::add_points(points, event, *header);
  }
  if (line > 0) offsets[events_key] = events_before + static_cast<int64_t>(line);
  if (offsets.empty()) return false;
  series_.append(run, points, offsets);
  return true;
}

}  // namespace mlbench::master
