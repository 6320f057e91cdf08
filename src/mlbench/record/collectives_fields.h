#pragma once

// The members of what a benchmark of collectives measured, each named once: for spec/fields.h.

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/record/collectives.h"
#include "mlbench/record/describe.h"

namespace mlbench::record {

template <typename V, Either<TimeSummary> T>
void describe(V& v, T& summary) {
  v.field("count", summary.count, spec::kRequired);
  v.field("min", summary.min_us, spec::kRequired);
  v.field("p50", summary.p50_us, spec::kRequired);
  v.field("p95", summary.p95_us, spec::kRequired);
  v.field("p99", summary.p99_us, spec::kRequired);
  v.field("max", summary.max_us, spec::kRequired);
  v.field("avg", summary.mean_us, spec::kRequired);
  v.field("stdev", summary.stdev_us, spec::kRequired);
  v.field("cv", summary.cv, spec::kRequired);
  v.field("p50_low", summary.p50_low_us);
  v.field("p50_high", summary.p50_high_us);
}

template <typename V, Either<CollectiveForm> T>
void describe(V& v, T& form) {
  v.field("time", form.time_us, spec::kRequired);
  v.field("alg_bw", form.alg_bw, spec::kRequired);
  v.field("bus_bw", form.bus_bw);
  v.field("nwrong", form.wrong);
  v.structure("iterations", form.iterations);
  v.field("copies", form.copies);
  v.field("capped", form.capped);
  v.field_or_null("raw_times", form.raw_times_us, {});
}

inline constexpr std::string_view kBufferDevices[] = {"cpu", "cuda"};

template <typename V, Either<CollectiveRow> T>
void describe(V& v, T& row) {
  constexpr bool kWrites = std::is_const_v<T>;
  std::string reduction = row.reduction.empty() ? "none" : row.reduction;
  v.field("operation", row.operation, spec::kRequired);
  v.field("cycle", row.cycle);
  v.field("size", row.size_bytes, spec::kRequired);
  v.field("count", row.count, spec::kRequired);
  if constexpr (kWrites) v.field("type", nccl_type_of(row));
  text(v, "dtype", row.dtype);
  v.field("redop", reduction, spec::kRequired);
  v.field("root", row.root, spec::kRequired);
  v.field("device", row.device, {.choices = kBufferDevices});
  v.structure("out_of_place", row.out_of_place);
  v.structure("in_place", row.in_place);
  if constexpr (kWrites) {
    v.field("actual_iterations", fewest_iterations(row));
    v.field("experiment_name", row.operation);
  } else {
    row.reduction = reduction == "none" ? "" : reduction;
    checked(v, [&] { check_names(row); });
  }
}

template <typename V, Either<SlowPart> T>
void describe(V& v, T& part) {
  v.field("measure", part.measure, spec::kRequired);
  v.field("kind", part.kind, spec::kRequired);
  v.field("ranks", part.ranks, spec::kRequired);
  v.field("hosts", part.hosts, spec::kRequired);
  v.field("ratio", part.ratio, spec::kRequired);
}

// The diagonal is null as JSON, and 0 here.
void pair_values(auto& v, const char* name, auto& values) {
  using Row = std::vector<std::optional<double>>;
  std::vector<Row> rows;
  for (const auto& row : values) rows.emplace_back(row.begin(), row.end());
  for (size_t i = 0; i < rows.size(); ++i) rows[i].at(i).reset();
  v.field(name, rows, spec::kRequired);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(values)>>) {
    for (const Row& row : rows) {
      auto& read = values.emplace_back();
      for (const auto& value : row) read.push_back(value.value_or(0));
    }
  }
}

template <typename V, Either<PairMatrix> T>
void describe(V& v, T& pairs) {
  v.field("hosts", pairs.hosts, spec::kRequired);
  v.field("latency_bytes", pairs.latency_bytes, spec::kRequired);
  v.field("bandwidth_bytes", pairs.bandwidth_bytes, spec::kRequired);
  v.field("window", pairs.window, spec::kRequired);
  v.field("disjoint", pairs.disjoint, spec::kRequired);
  pair_values(v, "latency", pairs.latency_us);
  pair_values(v, "bandwidth", pairs.bandwidth);
  v.structures("slow", pairs.slow);
  v.field("verdict", pairs.verdict, spec::kRequired);
  if constexpr (!std::is_const_v<T>) checked(v, [&] { check_square(pairs); });
}

template <typename V, Either<Collectives> T>
void describe(V& v, T& collectives) {
  v.table("config", [&] {
    Json asked = collectives.spec ? spec::to_json(*collectives.spec) : Json(nullptr);
    v.any("spec", asked, {});
    if constexpr (!std::is_const_v<T>) {
      checked(v, [&] {
        if (!asked.is_null()) collectives.spec = spec::collectives_from_json(asked, "config.spec");
      });
    }
  });
  v.structures("results", collectives.rows);
  v.structure("pairs", collectives.pairs);
  v.others(collectives.others);
}

}  // namespace mlbench::record
