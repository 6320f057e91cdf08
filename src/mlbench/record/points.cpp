#include "mlbench/record/points.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "mlbench/base/clock.h"
#include "mlbench/record/events.h"
#include "mlbench/record/legacy_names.h"
#include "mlbench/record/measured_value.h"
#include "mlbench/spec/split.h"

namespace mlbench::record {

void add_points(Points& points, const StepRecord& record, const SpoolHeader& header) {
  const auto count = static_cast<double>(record.count);
  if (record.count == 0) return;
  Point point{header.start_wall_us + record.end_ns / 1000, static_cast<int64_t>(record.first_step + record.count - 1),
              0};
  const auto add = [&](std::string metric, double value, const char* split = "") {
    point.value = value;
    points[{split, std::move(metric), header.rank}].push_back(point);
  };
  if (record.samples > 0) add("loss", record.loss_sum / static_cast<double>(record.samples), spec::kTrainSplit);
  add("lr", record.lr);
  if (record.total_ns() > 0) add("samples_per_s", double(record.samples) / to_seconds(record.total_ns()));
  add("step_s", to_seconds(record.total_ns()) / count);
  add("bytes", double(record.bytes) / count);
  for (size_t kind = 0; kind < kStepKinds; ++kind) {
    if (record.kinds_ns[kind] == 0) continue;
    add(fmt::format("{}_s", kStepKindNames[kind]), to_seconds(record.kinds_ns[kind]) / count);
  }
}

void add_points(Points& points, const Json& event, const SpoolHeader& header) {
  // A value over all ranks: rank 0 records what is the same on each.
  const auto add = [&](const char* split, const std::string& metric, double value) {
    points[{split, metric, kAllRanks}].push_back(
        {header.start_wall_us + get(event, member::kEndNs) / 1000, get(event, member::kStep), value});
  };
  if (const auto scale = find(event, member::kLossScale); scale && is(event, EventKind::kLossScale)) {
    add("", "loss_scale", *scale);
  }
  const bool evaluation = is(event, EventKind::kEvaluation) && get(event, member::kSplit) == spec::kTestSplit;
  if (!evaluation && !is(event, EventKind::kEpoch)) return;
  const Json metrics = get(event, member::kMetrics, Json::object());
  for (const auto& [metric, value] : metrics.items()) {
    const auto measured = measured_value(value);
    if (!measured || (!evaluation && metric == "loss")) continue;  // the steps have the loss of training
    add(evaluation ? spec::kTestSplit : spec::kTrainSplit, metric, *measured);
  }
  if (const auto norm = find(event, member::kGradientNorm)) add("", "gradient_norm", *norm);
}

void add_points(Points& points, const TrackerLine& line, int64_t rank) {
  for (const auto& [name, value] : line.values) {
    points[key_of_legacy_name(name, rank)].push_back({line.time_us, line.step, value});
  }
  points[{"", "epoch", rank}].push_back({line.time_us, line.step, static_cast<double>(line.epoch)});
}

void add_points(Points& points, const UsageLine& line) {
  const auto step = static_cast<int64_t>(line.wall_s);
  const auto add = [&](const std::string& prefix, int64_t rank, const UsageLine::Rank& used) {
    const auto put = [&](const char* metric, const std::optional<double>& value) {
      if (value) points[{"", prefix + metric, rank}].push_back({line.time_us, step, *value});
    };
    put("cpu_cores", used.cpu_cores);
    put("memory_bytes", used.memory_bytes);
    put("network_in_bytes_per_s", used.network_in);
    put("network_out_bytes_per_s", used.network_out);
  };
  for (size_t rank = 0; rank < line.ranks.size(); ++rank) add("", static_cast<int64_t>(rank), line.ranks[rank]);
  add("host_", kAllRanks, line.host);
}

Points read_points(const std::filesystem::path& run_dir, int64_t segments, int64_t rank) {
  Points points;
  for (const TrackerLine& line : read_tracker_lines(run_dir, rank).lines) add_points(points, line, rank);
  std::vector<RankSpool> spools;
  for (int64_t segment = 1; segment <= segments; ++segment) spools.push_back(read_spool(run_dir, segment, rank));
  // Goes backwards, to know where the later segments began.
  std::vector<Points> parts;
  int64_t done_again = std::numeric_limits<int64_t>::max();
  for (auto spool = spools.rbegin(); spool != spools.rend(); ++spool) {
    Points& part = parts.emplace_back();
    for (const StepRecord& record : spool->steps) {
      if (static_cast<int64_t>(record.first_step) < done_again) add_points(part, record, spool->header);
    }
    for (const Json& event : spool->events) {
      if (get(event, member::kStep) <= done_again) add_points(part, event, spool->header);
    }
    if (!spool->steps.empty()) {
      done_again = std::min(done_again, static_cast<int64_t>(spool->steps.front().first_step));
    }
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    for (const auto& [key, series] : *part) points[key].insert(points[key].end(), series.begin(), series.end());
  }
  return points;
}

}  // namespace mlbench::record
