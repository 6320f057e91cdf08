#include "mlbench/record/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/or_null.h"
#include "mlbench/spec/collectives.h"
#include "mlbench/spec/fields.h"

namespace mlbench::record {

namespace {

using spec::FieldReader;
using spec::kRequired;

// The probability beyond each end of the median's interval.
constexpr double kTail = 0.0125;
constexpr double kTailDeviations = 2.2415;  // for the normal distribution

// Leaves out members that are null; elements of lists that are null (the diagonals of matrices) become 0.
Json without_nulls(const Json& json) {
  Json kept = json;
  if (json.is_object()) {
    kept = Json::object();
    for (const auto& [key, value] : json.items()) {
      if (!value.is_null()) kept[key] = without_nulls(value);
    }
  } else if (json.is_array()) {
    for (Json& element : kept) element = element.is_null() ? Json(0.0) : without_nulls(element);
  }
  return kept;
}

Json summary_json(const TimeSummary& summary) {
  return {{"count", summary.count},
          {"min", summary.min_us},
          {"p50", summary.p50_us},
          {"p95", summary.p95_us},
          {"p99", summary.p99_us},
          {"max", summary.max_us},
          {"avg", summary.mean_us},
          {"stdev", summary.stdev_us},
          {"cv", summary.cv},
          {"p50_low", or_null(summary.p50_low_us)},
          {"p50_high", or_null(summary.p50_high_us)}};
}

Json form_json(const std::optional<CollectiveForm>& form) {
  if (!form) return nullptr;
  return {{"time", form->time_us},
          {"alg_bw", form->alg_bw},
          {"bus_bw", or_null(form->bus_bw)},
          {"nwrong", or_null(form->wrong)},
          {"iterations", form->iterations ? summary_json(*form->iterations) : Json(nullptr)},
          {"copies", form->copies},
          {"capped", form->capped},
          {"raw_times", form->raw_times_us.empty() ? Json(nullptr) : Json(form->raw_times_us)}};
}

// A field that may be absent.
template <typename T>
void read_optional(FieldReader& reader, const Json& object, const char* name, std::optional<T>& value) {
  if (object.contains(name)) reader.field(name, value.emplace());
}

void read_summary(FieldReader& reader, const Json& json, TimeSummary& summary) {
  reader.field("count", summary.count, kRequired);
  reader.field("min", summary.min_us, kRequired);
  reader.field("p50", summary.p50_us, kRequired);
  reader.field("p95", summary.p95_us, kRequired);
  reader.field("p99", summary.p99_us, kRequired);
  reader.field("max", summary.max_us, kRequired);
  reader.field("avg", summary.mean_us, kRequired);
  reader.field("stdev", summary.stdev_us, kRequired);
  reader.field("cv", summary.cv, kRequired);
  read_optional(reader, json, "p50_low", summary.p50_low_us);
  read_optional(reader, json, "p50_high", summary.p50_high_us);
}

void read_form(FieldReader& reader, const Json& row, const char* name, std::optional<CollectiveForm>& form) {
  reader.optional_table(name, [&] {
    const Json& json = row.at(name);
    form.emplace();
    reader.field("time", form->time_us, kRequired);
    reader.field("alg_bw", form->alg_bw, kRequired);
    read_optional(reader, json, "bus_bw", form->bus_bw);
    read_optional(reader, json, "nwrong", form->wrong);
    reader.optional_table("iterations",
                          [&] { read_summary(reader, json.at("iterations"), form->iterations.emplace()); });
    reader.field("copies", form->copies);
    reader.field("capped", form->capped);
    reader.field("raw_times", form->raw_times_us);
  });
}

}  // namespace

double percentile(std::span<const double> ascending, double share) {
  MLBENCH_CHECK(!ascending.empty(), "a percentile of no values");
  const double place = share * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<size_t>(place);
  if (below + 1 >= ascending.size()) return ascending.back();
  return ascending[below] + (place - static_cast<double>(below)) * (ascending[below + 1] - ascending[below]);
}

std::optional<std::pair<size_t, size_t>> median_interval(size_t count) {
  // The number of values below the median, of `count`, is binomial.
  std::optional<size_t> lowest;
  const auto n = static_cast<double>(count);
  if (count > 1000) {
    lowest = static_cast<size_t>(n / 2 - kTailDeviations * std::sqrt(n) / 2 - 1.5);
  } else {
    double probability = std::pow(0.5, n), sum = probability;
    for (size_t below = 0; sum <= kTail && 2 * below < count; ++below) {
      lowest = below;
      probability *= (n - static_cast<double>(below)) / static_cast<double>(below + 1);
      sum += probability;
    }
  }
  if (!lowest) return std::nullopt;
  return std::pair(*lowest, count - 1 - *lowest);
}

TimeSummary summarise(std::vector<double> times_us) {
  MLBENCH_CHECK(!times_us.empty(), "a summary of no times");
  std::sort(times_us.begin(), times_us.end());
  const auto n = static_cast<double>(times_us.size());
  TimeSummary summary;
  summary.count = std::ssize(times_us);
  summary.min_us = times_us.front();
  summary.max_us = times_us.back();
  summary.p50_us = percentile(times_us, 0.5);
  summary.p95_us = percentile(times_us, 0.95);
  summary.p99_us = percentile(times_us, 0.99);
  summary.mean_us = std::accumulate(times_us.begin(), times_us.end(), 0.0) / n;
  double squares = 0;
  for (const double time : times_us) squares += (time - summary.mean_us) * (time - summary.mean_us);
  if (times_us.size() > 1) summary.stdev_us = std::sqrt(squares / (n - 1));
  if (summary.mean_us > 0) summary.cv = summary.stdev_us / summary.mean_us;
  if (const auto interval = median_interval(times_us.size())) {
    summary.p50_low_us = times_us[interval->first];
    summary.p50_high_us = times_us[interval->second];
  }
  return summary;
}

Json to_json(const CollectiveRow& row) {
  int64_t iterations = 0;
  for (const auto* form : {&row.out_of_place, &row.in_place}) {
    if (!*form || !(*form)->iterations) continue;
    const int64_t count = (*form)->iterations->count;
    iterations = iterations == 0 ? count : std::min(iterations, count);
  }
  const bool typed = !row.dtype.empty();
  return {{"operation", row.operation},
          {"cycle", row.cycle},
          {"size", row.size_bytes},
          {"count", row.count},
          {"type", typed ? Json(spec::nccl_name_of(spec::dtype_named(row.dtype))) : Json("none")},
          {"dtype", typed ? Json(row.dtype) : Json(nullptr)},
          {"redop", row.reduction.empty() ? "none" : row.reduction},
          {"root", row.root},
          {"device", row.device},
          {"out_of_place", form_json(row.out_of_place)},
          {"in_place", form_json(row.in_place)},
          {"actual_iterations", iterations},
          {"experiment_name", row.operation}};
}

CollectiveRow collective_row_from_json(const Json& given, const std::string& where) {
  if (!given.is_object()) throw UserError(where + ": expected an object, got " + spec::describe_value(given));
  const Json json = without_nulls(given);
  const auto locate = [&](const std::string&, spec::Part) { return where; };
  FieldReader reader(json, locate, FieldReader::Unknown::kIgnore);
  CollectiveRow row;
  reader.field("operation", row.operation, kRequired);
  reader.field("cycle", row.cycle);
  reader.field("size", row.size_bytes, kRequired);
  reader.field("count", row.count, kRequired);
  reader.field("dtype", row.dtype);
  reader.field("redop", row.reduction, kRequired);
  reader.field("root", row.root, kRequired);
  reader.field("device", row.device);
  read_form(reader, json, "out_of_place", row.out_of_place);
  read_form(reader, json, "in_place", row.in_place);
  reader.finish();
  if (row.reduction == "none") row.reduction.clear();
  if (row.device != "cpu" && row.device != "cuda") {
    throw UserError(fmt::format("{}: 'device' is {}{}", where, spec::describe_value(row.device),
                                valid_text(row.device, {"cpu", "cuda"})));
  }
  try {
    spec::collective_named(row.operation);
    if (!row.reduction.empty()) spec::reduction_named(row.reduction);
    if (!row.dtype.empty()) spec::dtype_named(row.dtype);
  } catch (const UserError& error) {
    throw UserError(where + ": " + error.what());
  }
  return row;
}

Json to_json(const PairMatrix& pairs) {
  const auto matrix = [](const std::vector<std::vector<double>>& values) {
    Json rows = Json::array();
    for (size_t from = 0; from < values.size(); ++from) {
      Json row = values[from];
      row.at(from) = nullptr;
      rows.push_back(std::move(row));
    }
    return rows;
  };
  Json slow = Json::array();
  for (const SlowPart& one : pairs.slow) {
    slow.push_back({{"measure", one.measure},
                    {"kind", one.kind},
                    {"ranks", one.ranks},
                    {"hosts", one.hosts},
                    {"ratio", one.ratio}});
  }
  return {{"hosts", pairs.hosts},
          {"latency_bytes", pairs.latency_bytes},
          {"bandwidth_bytes", pairs.bandwidth_bytes},
          {"window", pairs.window},
          {"disjoint", pairs.disjoint},
          {"latency", matrix(pairs.latency_us)},
          {"bandwidth", matrix(pairs.bandwidth)},
          {"slow", slow},
          {"verdict", pairs.verdict}};
}

PairMatrix pair_matrix_from_json(const Json& given, const std::string& where) {
  if (!given.is_object()) throw UserError(where + ": expected an object, got " + spec::describe_value(given));
  const Json json = without_nulls(given);
  const auto locate = [&](const std::string&, spec::Part) { return where; };
  FieldReader reader(json, locate, FieldReader::Unknown::kIgnore);
  PairMatrix pairs;
  reader.field("hosts", pairs.hosts, kRequired);
  reader.field("latency_bytes", pairs.latency_bytes, kRequired);
  reader.field("bandwidth_bytes", pairs.bandwidth_bytes, kRequired);
  reader.field("window", pairs.window, kRequired);
  reader.field("disjoint", pairs.disjoint, kRequired);
  reader.field("latency", pairs.latency_us, kRequired);
  reader.field("bandwidth", pairs.bandwidth, kRequired);
  reader.list("slow", pairs.slow, [&](SlowPart& one) {
    reader.field("measure", one.measure, kRequired);
    reader.field("kind", one.kind, kRequired);
    reader.field("ranks", one.ranks, kRequired);
    reader.field("hosts", one.hosts, kRequired);
    reader.field("ratio", one.ratio, kRequired);
  });
  reader.field("verdict", pairs.verdict, kRequired);
  reader.finish();
  for (const auto* matrix : {&pairs.latency_us, &pairs.bandwidth}) {
    const bool square = matrix->size() == pairs.hosts.size() &&
                        std::ranges::all_of(*matrix, [&](const auto& row) { return row.size() == matrix->size(); });
    if (!square) throw UserError(where + ": 'latency' and 'bandwidth' are not as large as 'hosts' says");
  }
  return pairs;
}

}  // namespace mlbench::record
