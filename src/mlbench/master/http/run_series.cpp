#include "mlbench/base/choices.h"
#include "mlbench/master/http/run_handlers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "mlbench/home/runs.h"
#include "mlbench/master/http/dates.h"
#include "mlbench/master/http/points.h"
#include "mlbench/spec/split.h"
#include "mlbench/store/merge.h"

namespace mlbench::master {

namespace fs = std::filesystem;

namespace run_handlers {
namespace {

constexpr int64_t kMostBuckets = 20'000;

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

struct Found {
  store::SeriesStore* source;
  store::SeriesInfo info;
};

// What a request asks for.
struct Wanted {
  std::optional<std::string> split, metric;
  std::optional<int64_t> rank;
  bool merged = false;
  store::SeriesRange range;

  bool has_points() const { return metric.has_value(); }
  bool takes(const store::SeriesKey& key) const {
    return (!split || key.split == *split) && (!metric || key.metric == *metric) && (!rank || key.rank == *rank);
  }
};

Wanted wanted_of(const Request& request) {
  Wanted wanted;
  wanted.split = request.query("split");
  if (wanted.split && *wanted.split != spec::kTrainSplit && *wanted.split != spec::kTestSplit &&
      !wanted.split->empty()) {
    throw HttpError(400, unknown_text("split", *wanted.split, {spec::kTrainSplit, spec::kTestSplit, "(none)"}));
  }
  wanted.metric = request.query("metric");
  if (const auto rank = request.query("rank")) {
    wanted.rank = *rank == "all" ? record::kAllRanks : whole_number(request, "rank", 0, 0, 1'000'000);
  }
  if (const auto ranks = request.query("ranks")) {
    if (*ranks != "merged") throw HttpError(400, unknown_text("ranks", *ranks, {"merged"}));
    if (!wanted.metric || wanted.rank) throw HttpError(400, "ranks=merged needs metric, and no rank");
    wanted.merged = true;
  }
  store::SeriesRange& range = wanted.range;
  range.buckets = static_cast<size_t>(whole_number(request, "points", 1000, 1, kMostBuckets));
  range.from_step = whole_number(request, "from_step", INT64_MIN, 0, INT64_MAX);
  range.to_step = whole_number(request, "to_step", INT64_MAX, 0, INT64_MAX);
  range.from_time_us = whole_number(request, "from_time_us", INT64_MIN, 0, INT64_MAX);
  range.to_time_us = whole_number(request, "to_time_us", INT64_MAX, 0, INT64_MAX);
  return wanted;
}

// Finds the wanted series, after storing what the spools have gained.
std::vector<Found> find_series(Services& services, const fs::path& run_dir, int64_t run, const Wanted& wanted) {
  services.ingest.catch_up(run_dir);
  std::vector<Found> found;
  for (store::SeriesStore* source : {&services.series, &services.journal.series()}) {
    for (store::SeriesInfo& info : source->list(run)) {
      if (wanted.takes(info.key)) found.push_back({source, std::move(info)});
    }
  }
  return found;
}

// The buckets of each series, in the order of `found`.
std::vector<std::vector<store::Bucket>> read_all(Services& services, int64_t run, const std::vector<Found>& found,
                                                 const store::SeriesRange& range) {
  std::vector<std::vector<store::Bucket>> charts;
  for (store::SeriesStore* source : {&services.series, &services.journal.series()}) {
    std::vector<store::SeriesKey> keys;
    for (const Found& one : found) {
      if (one.source == source) keys.push_back(one.info.key);
    }
    for (std::vector<store::Bucket>& chart : source->read(run, keys, range)) charts.push_back(std::move(chart));
  }
  return charts;
}

Json series_json(const store::SeriesKey& key, int64_t count) {
  const Json rank = key.rank == record::kAllRanks ? Json("all") : Json(key.rank);
  return {{"split", key.split}, {"metric", key.metric}, {"rank", rank}, {"count", count}};
}

Json last_json(const store::Point& last) {
  return {{"time_us", last.time_us}, {"step", last.step}, {"value", number_or_null(last.value)}};
}

Json points_json(const std::vector<store::Bucket>& chart) {
  Json step = Json::array(), time = Json::array(), mean = Json::array(), min = Json::array(), max = Json::array(),
       count = Json::array();
  for (const store::Bucket& bucket : chart) {
    step.push_back(bucket.last_step);
    time.push_back(bucket.last_time_us);
    mean.push_back(number_or_null(bucket.mean()));
    min.push_back(number_or_null(bucket.min));
    max.push_back(number_or_null(bucket.max));
    count.push_back(bucket.count);
  }
  return {{"step", std::move(step)}, {"time_us", std::move(time)}, {"mean", std::move(mean)},
          {"min", std::move(min)},   {"max", std::move(max)},      {"points", std::move(count)}};
}

Json points_json(const std::vector<store::MergedRow>& rows) {
  Json step = Json::array(), time = Json::array(), mean = Json::array(), count = Json::array();
  for (const store::MergedRow& row : rows) {
    step.push_back(row.step);
    time.push_back(row.time_us);
    mean.push_back(number_or_null(row.value));
    count.push_back(row.count);
  }
  return {
      {"step", std::move(step)}, {"time_us", std::move(time)}, {"mean", std::move(mean)}, {"points", std::move(count)}};
}

Json each_series(Services& services, int64_t run, const std::vector<Found>& found, const Wanted& wanted) {
  std::vector<std::vector<store::Bucket>> charts;
  if (wanted.has_points()) charts = read_all(services, run, found, wanted.range);
  Json list = Json::array();
  for (size_t i = 0; i < found.size(); ++i) {
    Json one = series_json(found[i].info.key, found[i].info.count);
    if (wanted.has_points()) {
      one["points"] = points_json(charts[i]);
    } else {
      one["last"] = last_json(found[i].info.last);
    }
    list.push_back(std::move(one));
  }
  return list;
}

// Makes one series for each split of the metric. A series over all ranks, or of a single rank, is taken as it is.
Json merged_series(Services& services, int64_t run, const std::vector<Found>& found, const Wanted& wanted) {
  std::map<std::string, std::vector<Found>> splits;
  for (const Found& one : found) splits[one.info.key.split].push_back(one);
  Json list = Json::array();
  for (auto& [split, ranks] : splits) {
    const auto whole = std::find_if(ranks.begin(), ranks.end(),
                                    [](const Found& one) { return one.info.key.rank == record::kAllRanks; });
    if (whole != ranks.end()) ranks = {Found(*whole)};
    if (ranks.size() == 1) {
      list.push_back(each_series(services, run, ranks, wanted)[0]);
      continue;
    }
    int64_t count = 0;
    for (const Found& one : ranks) count += one.info.count;
    const store::Merge merge = store::merge_of(*wanted.metric);
    Json one = series_json({split, *wanted.metric, record::kAllRanks}, count);
    one["merge"] = store::name_of(merge);
    one["ranks"] = ranks.size();
    one["points"] = points_json(store::merged(read_all(services, run, ranks, wanted.range), merge));
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

// Without ?metric, answers a list of the series; else their points, at most ?points per series, as columns of one
// length.
Response series(Services& services, const Call& call) {
  const Wanted wanted = wanted_of(call.request);
  const fs::path run_dir = find_run_folder(services, call.parameters[0]);
  const int64_t run = home::read_spec(run_dir).id;
  const std::vector<Found> found = find_series(services, run_dir, run, wanted);
  Json list = wanted.merged ? merged_series(services, run, found, wanted) : each_series(services, run, found, wanted);
  return json_response(200, {{"run", run_dir.filename().string()},
                             {"left_out_lines", services.ingest.left_out(run_dir)},
                             {"series", std::move(list)}});
}

Response add_points(Services& services, const Call& call) {
  const fs::path run_dir = find_run_folder(services, call.parameters[0]);
  const std::string type = call.request.content_type();
  if (type != "application/x-ndjson" && type != "application/jsonl" && type != "application/json") {
    throw HttpError(
        415, fmt::format("the body is '{}': expected application/x-ndjson, one record per line", type.substr(0, 80)));
  }
  const ParsedBatch batch = parse_points(call.request.body, now_us());
  // The index is asked first, to avoid reading the whole specification for each batch.
  const auto known = services.index.id_of(run_dir.filename());
  const int64_t run = known ? *known : home::read_spec(run_dir).id;
  const store::BatchResult result = services.journal.add_batch(run, batch.records);
  Json last = Json::object();
  for (const auto& [rank, sequence] : services.journal.last_sequences(run)) last[std::to_string(rank)] = sequence;
  return json_response(200, {{"accepted", result.accepted},
                             {"duplicates", result.duplicates},
                             {"points", result.points},
                             {"last_sequence", last}});
}

}  // namespace run_handlers

}  // namespace mlbench::master
