// Derives the result of archives of MLBench's task 0 (result.h).

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "mlbench/base/to_number.h"
#include "mlbench/report/archive/derivation.h"
#include "mlbench/report/collectives/result.h"

namespace mlbench::report {

namespace {

constexpr const char *kTensorSize = "val_tensor_size", *kTensorType = "val_dtype", *kTensorCuda = "val_cuda",
                     *kAverageTime = "val_avg_time";
constexpr double kMostElements = 1e12;

// The values of a series in the order of time; the dashboard stores them as they arrive, in parallel requests.
std::vector<double> numbers_in_time(const ArchiveEvents& events, const std::string& name) {
  std::vector<ArchivePoint> points = events.points(name);
  std::ranges::stable_sort(points, {}, &ArchivePoint::date);
  std::vector<double> values;
  for (const ArchivePoint& point : points) {
    const auto value = to_number<double>(point.value);
    if (!value || !std::isfinite(*value)) {
      ArchiveEvents::fail(ArchiveEvents::member_of(name),
                          fmt::format("point {} is '{}'; expected a number", values.size(), point.value));
    }
    values.push_back(*value);
  }
  return values;
}

// The type of floating-point numbers with `bits` bits, which is how the task records types.
std::string dtype_of_bits(double bits, size_t index) {
  if (bits == 16) return "float16";
  if (bits == 32) return "float32";
  if (bits == 64) return "float64";
  ArchiveEvents::fail(ArchiveEvents::member_of(kTensorType),
                      fmt::format("point {} is {}; expected 16, 32 or 64 bits", index, bits));
}

int64_t count_of_size(double size, size_t index) {
  if (size < 1 || size > kMostElements || size != std::floor(size)) {
    ArchiveEvents::fail(
        ArchiveEvents::member_of(kTensorSize),
        fmt::format("point {} is {}; expected whole elements from 1 to {:g}", index, size, kMostElements));
  }
  return static_cast<int64_t>(size);
}

struct Task0Series {
  std::vector<double> sizes, types, cuda, times_s;
  size_t complete() const { return std::min({sizes.size(), types.size(), cuda.size(), times_s.size()}); }
  size_t longest() const { return std::max({sizes.size(), types.size(), cuda.size(), times_s.size()}); }
};

record::CollectiveRow row_of(const Task0Series& series, size_t i, size_t ranks) {
  const double seconds = series.times_s[i];
  if (!(seconds >= 0 && seconds < kMostSeconds)) {
    ArchiveEvents::fail(ArchiveEvents::member_of(kAverageTime),
                        fmt::format("point {} is {}; expected seconds, from 0 to {:g}", i, seconds, kMostSeconds));
  }
  record::CollectiveRow row;
  row.operation = spec::traits_of(spec::Collective::kAllReduce).name;
  row.reduction = spec::name_of(spec::Reduction::kSum);
  row.dtype = dtype_of_bits(series.types[i], i);
  row.count = count_of_size(series.sizes[i], i);
  row.size_bytes = row.count * static_cast<int64_t>(size_of(spec::dtype_named(row.dtype)));
  row.device = series.cuda[i] != 0 ? "cuda" : "cpu";
  record::CollectiveForm& form = row.in_place.emplace();
  form.time_us = seconds * 1e6;
  if (seconds > 0) form.alg_bw = static_cast<double>(row.size_bytes) / seconds / 1e9;
  const auto n = static_cast<double>(ranks);
  if (ranks > 1) form.bus_bw = form.alg_bw * 2 * (n - 1) / n;
  return row;
}

// Whether the sizes of each type on each device ascend: the task measures from small to large.
bool sizes_ascend(const std::vector<record::CollectiveRow>& rows) {
  std::map<std::pair<std::string, std::string>, int64_t> last;
  return std::ranges::all_of(rows, [&](const record::CollectiveRow& row) {
    int64_t& before = last[{row.dtype, row.device}];
    return std::exchange(before, row.count) <= row.count;
  });
}

}  // namespace

bool is_of_task_0(const ArchiveEvents& events) { return events.has(kAverageTime) && events.has(kTensorSize); }

Json derive_task_0(const ArchiveEvents& events) {
  const Task0Series series{numbers_in_time(events, kTensorSize), numbers_in_time(events, kTensorType),
                           numbers_in_time(events, kTensorCuda), numbers_in_time(events, kAverageTime)};
  Json notes =
      Json::array({"each time is the mean of 100 all-reduces at rank 0, as the archive has it: without warm-up, "
                   "with no percentiles and no check of the results"});
  for (const auto& [name, values] : {std::pair{kTensorType, &series.types}, std::pair{kTensorCuda, &series.cuda}}) {
    if (values->empty()) ArchiveEvents::fail(ArchiveEvents::member_of(name), "there is none");
  }
  if (series.complete() < series.longest()) {
    notes.push_back(fmt::format("the four series have {}, {}, {} and {} values: the first {} of each are taken",
                                series.sizes.size(), series.types.size(), series.cuda.size(), series.times_s.size(),
                                series.complete()));
  }
  const size_t ranks = events.ranks_with(kAverageTime).size();
  std::vector<record::CollectiveRow> rows;
  for (size_t i = 0; i < series.complete(); ++i) rows.push_back(row_of(series, i, ranks));
  if (!sizes_ascend(rows)) {
    notes.push_back("the sizes do not ascend: values of one position may not belong together");
  }
  Json results = Json::array();
  for (const record::CollectiveRow& row : rows) results.push_back(record::to_json(row));
  return {{"format", "dashboard"},
          {"name", nullptr},
          {"task", "0a"},
          {"light", nullptr},
          {"workers", ranks},
          {"goal", nullptr},
          {"official_result", nullptr},
          {"claimed", events.claim() ? Json(*events.claim()) : Json(nullptr)},
          {"seconds", nullptr},
          {"source", nullptr},
          {"epochs", 0},
          {"evaluations", 0},
          {"collectives", {{"results", results}}},
          {"differences", Json::array()},
          {"notes", notes}};
}

}  // namespace mlbench::report
