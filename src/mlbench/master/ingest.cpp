#include "mlbench/master/ingest.h"

#include <array>
#include <cstring>
#include <fstream>
#include <optional>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/log.h"
#include "mlbench/master/runs.h"
#include "mlbench/report/records.h"
#include "mlbench/spec/client_lines.h"
#include "mlbench/spec/points.h"
#include "mlbench/spec/spool.h"

namespace mlbench::master {

namespace fs = std::filesystem;

namespace {

std::optional<spec::SpoolHeader> read_header(const fs::path& file) {
  std::array<char, sizeof(spec::SpoolHeader)> bytes{};
  if (std::error_code error; !fs::is_regular_file(file, error)) return std::nullopt;
  if (!std::ifstream(file, std::ios::binary).read(bytes.data(), bytes.size())) return std::nullopt;
  return spec::parse_header(file, {bytes.data(), bytes.size()});
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

void Ingest::warn_of(const fs::path& file, int64_t left_out) {
  if (left_out == 0 || !warned_.insert(file).second) return;
  spdlog::warn("{}: {} line{} left out: damaged, nested deeper than {} or too long", file.string(), left_out,
               left_out == 1 ? "" : "s", kDeepestNesting);
}

bool Ingest::read_lines(const fs::path& run_dir, int64_t run, int64_t rank) {
  const fs::path file = spec::client_lines_path(run_dir, rank);
  const std::string key = file.filename(), sequence_key = key + " sequence";
  const int64_t before = series_.offset(run, key);
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error || static_cast<int64_t>(size) <= before) return false;
  if (size > inputs::kClientFile.most_bytes) refuse_size(file.string(), size, inputs::kClientFile);
  const std::string text = report::read_appended(file, static_cast<uintmax_t>(before));
  int64_t last_sequence = series_.offset(run, sequence_key);
  spec::Points points;
  int64_t left_out = 0;
  size_t used = 0;
  for (size_t end; (end = text.find('\n', used)) != std::string::npos; used = end + 1) {
    const std::string_view one = std::string_view(text).substr(used, end - used);
    const auto line = spec::parse_client_line(one);
    if (!line && !one.empty()) ++left_out;
    if (!line || line->sequence <= last_sequence) continue;
    last_sequence = line->sequence;
    spec::add_points(points, *line, rank);
  }
  if (used == 0) return false;
  warn_of(file, left_out);
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
  if (const auto size = size_of(steps); size > static_cast<int64_t>(inputs::kStepFile.most_bytes)) {
    refuse_size(steps.string(), static_cast<size_t>(size), inputs::kStepFile);
  }
  if (const auto size = size_of(events); size > static_cast<int64_t>(inputs::kEventFile.most_bytes)) {
    refuse_size(events.string(), static_cast<size_t>(size), inputs::kEventFile);
  }
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
    if (record.count == 0) break;  // blocks that were never written
    if (spec::is_plausible(record)) spec::add_points(points, record, *header);
  }
  if (used > 0) offsets[steps_key] = steps_from + static_cast<int64_t>(used);
  const std::string lines = report::read_appended(events, static_cast<uintmax_t>(events_before));
  int64_t left_out = 0;
  size_t line = 0;
  for (size_t end; (end = lines.find('\n', line)) != std::string::npos; line = end + 1) {
    const auto event = spec::parse_event(std::string_view(lines).substr(line, end - line));
    event ? spec::add_points(points, *event, *header) : void(++left_out);
  }
  warn_of(events, left_out);
  if (line > 0) offsets[events_key] = events_before + static_cast<int64_t>(line);
  if (offsets.empty()) return false;
  series_.append(run, points, offsets);
  return true;
}

}  // namespace mlbench::master
