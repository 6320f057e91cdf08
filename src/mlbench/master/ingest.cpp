#include "mlbench/master/ingest.h"

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/log.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/text.h"
#include "mlbench/home/runs.h"
#include "mlbench/record/points.h"
#include "mlbench/record/spool_tail.h"
#include "mlbench/record/tracker_lines.h"
#include "mlbench/record/usage_lines.h"

namespace mlbench::master {

namespace fs = std::filesystem;

int64_t Ingest::catch_up(const fs::path& run_dir) {
  const spec::RunSpec run = home::read_spec(run_dir);
  const std::lock_guard lock(mutex_);
  const int64_t segments = record::last_segment(run_dir);
  const auto take_usage = [](std::string_view text, record::Points& points) {
    const auto line = record::parse_usage_line(text);
    if (line) record::add_points(points, *line);
    return line.has_value();
  };
  while (read_lines(usage_path(run_dir), run.id, take_usage)) {
  }
  for (int64_t rank = 0; rank < run.workers; ++rank) {
    if (!spec::uses_worker(run)) {
      const auto take = [rank](std::string_view text, record::Points& points) {
        const auto line = record::parse_tracker_line(text);
        if (line) record::add_points(points, *line, rank);
        return line.has_value();
      };
      while (read_lines(tracker_lines_path(run_dir, rank), run.id, take)) {
      }
      continue;
    }
    for (int64_t segment = 1; segment <= segments; ++segment) {
      while (read_some(run_dir, run.id, segment, rank)) {
      }
    }
  }
  return run.id;
}

int64_t Ingest::left_out(const fs::path& run_dir) const {
  const spec::RunSpec run = home::read_spec(run_dir);
  const int64_t segments = record::last_segment(run_dir);
  int64_t count = cursor(run.id, usage_path(run_dir).filename()).left_out;
  for (int64_t rank = 0; rank < run.workers; ++rank) {
    if (!spec::uses_worker(run)) {
      count += cursor(run.id, tracker_lines_path(run_dir, rank).filename()).left_out;
      continue;
    }
    for (int64_t segment = 1; segment <= segments; ++segment) {
      count += cursor(run.id, events_path(run_dir, segment, rank).filename()).left_out;
    }
  }
  return count;
}

LineCursor Ingest::cursor(int64_t run, const std::string& key) const {
  return {series_.offset(run, key), series_.offset(run, key + " in long") != 0, series_.offset(run, key + " left out")};
}

void Ingest::keep(std::map<std::string, int64_t>& offsets, const std::string& key, const LineCursor& cursor) {
  offsets[key] = cursor.offset;
  offsets[key + " in long"] = cursor.in_long ? 1 : 0;
  offsets[key + " left out"] = cursor.left_out;
}

void Ingest::warn_of(const fs::path& file, int64_t left_out) {
  if (left_out == 0 || !warned_.insert(file).second) return;
  spdlog::warn("{}: {} left out: damaged, nested deeper than {} or too long", file.string(), counted(left_out, "line"),
               kDeepestNesting);
}

bool Ingest::read_lines(const fs::path& file, int64_t run, const TakeLine& take) {
  const std::string key = file.filename();
  if (bytes_in(file) <= series_.offset(run, key)) return false;
  LineCursor at = cursor(run, key);
  record::Points points;
  const bool moved = mlbench::read_lines(file, at, [&](std::string_view text) {
    if (!text.empty() && !take(text, points)) ++at.left_out;
  });
  if (!moved) return false;
  warn_of(file, at.left_out);
  std::map<std::string, int64_t> offsets;
  keep(offsets, key, at);
  series_.append(run, points, offsets);
  return true;
}

bool Ingest::read_some(const fs::path& run_dir, int64_t run, int64_t segment, int64_t rank) {
  const fs::path steps = steps_path(run_dir, segment, rank), events = events_path(run_dir, segment, rank);
  const std::string steps_key = steps.filename(), events_key = events.filename();
  const record::SpoolCursor from = {series_.offset(run, steps_key), cursor(run, events_key)};
  if (bytes_in(steps) <= from.steps && bytes_in(events) <= from.events.offset) return false;
  record::SpoolTail tail(run_dir, segment, rank, from);
  if (!tail.has_header()) return false;  // points have no date without the header
  record::Points points;
  bool moved = false;
  try {
    const auto take_step = [&](const record::StepRecord& step) {
      record::add_points(points, step, tail.header());
      if (last_steps_ != nullptr) last_steps_->take(run, tail.header(), step);
    };
    moved = tail.read(take_step, [&](const auto& event) { record::add_points(points, event, tail.header()); });
  } catch (const UserError&) {
    if (tail.cursor().steps == from.steps) throw;
    moved = true;  // keeps what stood before the damage
  }
  if (!moved) return false;
  warn_of(events, tail.cursor().events.left_out);
  std::map<std::string, int64_t> offsets = {{steps_key, tail.cursor().steps}};
  keep(offsets, events_key, tail.cursor().events);
  series_.append(run, points, offsets);
  return true;
}

}  // namespace mlbench::master
