#include "mlbench/master/http/run_handlers.h"

#include <fmt/format.h>

#include <cmath>

#include "mlbench/home/runs.h"
#include "mlbench/master/http/dates.h"
#include "mlbench/master/http/points.h"

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

std::vector<Found> all_series(Services& services, const fs::path& run_dir, int64_t run) {
  services.ingest.catch_up(run_dir);
  std::vector<Found> out;
  for (store::SeriesStore* source : {&services.series, &services.journal.series()}) {
    for (store::SeriesInfo& info : source->list(run)) out.push_back({source, std::move(info)});
  }
  return out;
}

}  // namespace

// Without ?name a list of the series, else their points, at most ?points per series: columns of one length.
Response series(Services& services, const Call& call) {
  const fs::path run_dir = find_run_folder(services, call.parameters[0]);
  const int64_t run = home::read_spec(run_dir).id;
  const auto name = call.request.query("name");
  const int64_t rank = whole_number(call.request, "rank", -1, 0, 1'000'000);
  store::SeriesRange range;
  range.buckets = static_cast<size_t>(whole_number(call.request, "points", 1000, 1, kMostBuckets));
  range.from_step = whole_number(call.request, "from_step", INT64_MIN, 0, INT64_MAX);
  range.to_step = whole_number(call.request, "to_step", INT64_MAX, 0, INT64_MAX);
  range.from_time_us = whole_number(call.request, "from_time_us", INT64_MIN, 0, INT64_MAX);
  range.to_time_us = whole_number(call.request, "to_time_us", INT64_MAX, 0, INT64_MAX);
  std::vector<Found> wanted = all_series(services, run_dir, run);
  std::erase_if(wanted, [&](const Found& found) {
    return (name && found.info.name.name != *name) || (rank >= 0 && found.info.name.rank != rank);
  });
  std::vector<std::vector<store::Bucket>> charts;
  for (store::SeriesStore* source : {&services.series, &services.journal.series()}) {
    std::vector<store::SeriesName> names;
    for (const Found& found : wanted) {
      if (name && found.source == source) names.push_back(found.info.name);
    }
    for (std::vector<store::Bucket>& chart : source->read(run, names, range)) charts.push_back(std::move(chart));
  }
  Json list = Json::array();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const store::SeriesInfo& info = wanted[i].info;
    Json one = {{"name", info.name.name}, {"rank", info.name.rank}, {"count", info.count}};
    if (!name) {
      one["last"] = {
          {"time_us", info.last.time_us}, {"step", info.last.step}, {"value", number_or_null(info.last.value)}};
    } else {
      Json step = Json::array(), time = Json::array(), mean = Json::array(), min = Json::array(), max = Json::array(),
           count = Json::array();
      for (const store::Bucket& bucket : charts[i]) {
        step.push_back(bucket.last_step);
        time.push_back(bucket.last_time_us);
        mean.push_back(number_or_null(bucket.mean()));
        min.push_back(number_or_null(bucket.min));
        max.push_back(number_or_null(bucket.max));
        count.push_back(bucket.count);
      }
      one["points"] = {{"step", std::move(step)}, {"time_us", std::move(time)}, {"mean", std::move(mean)},
                       {"min", std::move(min)},   {"max", std::move(max)},      {"points", std::move(count)}};
    }
    list.push_back(std::move(one));
  }
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
  // The index spares reading the whole specification, batch by batch.
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
