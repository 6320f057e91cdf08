#include "mlbench/report/archive/tensorboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/record/legacy_names.h"
#include "mlbench/record/points.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/records.h"
#include "mlbench/report/tensorboard_event.pb.h"
#include "mlbench/tfrecord/records.h"

namespace mlbench::report {

namespace {

int64_t created_us(const record::Record& record) {
  const auto time = parse_time(record.created_at);
  return time ? unix_us(*time) : 0;
}

}  // namespace

std::filesystem::path tensorboard_path(const record::Record& record, int64_t rank) {
  return std::filesystem::path(fmt::format("rank-{}", rank)) /
         fmt::format("events.out.tfevents.{:010}.{}", created_us(record) / 1'000'000,
                     std::filesystem::path(record.name).filename().string());
}

std::string tensorboard_events(const std::filesystem::path& run_dir, const record::Record& record, int64_t rank) {
  std::map<std::string, std::vector<record::Point>> points;  // by tag
  for (auto& [key, series] : record::read_points(run_dir, record::segment_count(record), rank)) {
    points[record::legacy_name_of(key).name] = std::move(series);
  }

  struct Entry {
    const record::Point* point;
    const std::string* tag;
  };
  std::vector<Entry> entries;
  for (const auto& [tag, series] : points) {
    for (const record::Point& point : series) entries.push_back({&point, &tag});
  }
  // Events are ordered by steps, which only count up; a wall clock may go back between two segments.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.point->step < b.point->step; });

  std::string file;
  tensorboard::Event first;
  first.set_wall_time(static_cast<double>(entries.empty() ? created_us(record) : entries.front().point->time_us) / 1e6);
  first.set_file_version("brain.Event:2");
  tfrecord::append_record(file, first.SerializeAsString());
  for (const Entry& entry : entries) {
    tensorboard::Event event;
    event.set_wall_time(static_cast<double>(entry.point->time_us) / 1e6);
    event.set_step(entry.point->step);
    tensorboard::Summary::Value* value = event.mutable_summary()->add_value();
    value->set_tag(*entry.tag);
    value->set_simple_value(static_cast<float>(entry.point->value));
    tfrecord::append_record(file, event.SerializeAsString());
  }
  return file;
}

}  // namespace mlbench::report
