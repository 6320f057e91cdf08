#pragma once

// Results of collectives for the tests of this folder.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/report/collectives/result.h"

namespace mlbench::report {

// A form with `count` times that lie evenly around the median, from `spread` (relative) below it to `spread` above.
inline record::CollectiveForm make_form(double median_us, double alg_bw, double bus_bw, int64_t count = 20,
                                        double spread = 0.02) {
  std::vector<double> times;
  for (int64_t i = 0; i < count; ++i) {
    const double place = count == 1 ? 0 : 2.0 * static_cast<double>(i) / static_cast<double>(count - 1) - 1;
    times.push_back(median_us * (1 + spread * place));
  }
  record::CollectiveForm form;
  form.time_us = median_us;
  form.alg_bw = alg_bw;
  form.bus_bw = bus_bw;
  form.wrong = 0;
  form.iterations = record::summarise(std::move(times));
  return form;
}

inline record::CollectiveRow make_row(const std::string& operation, int64_t count, const std::string& dtype,
                                      std::optional<record::CollectiveForm> out_of_place,
                                      std::optional<record::CollectiveForm> in_place = std::nullopt) {
  record::CollectiveRow row;
  row.operation = operation;
  row.count = count;
  row.dtype = dtype;
  row.size_bytes = dtype.empty() ? 0 : count * static_cast<int64_t>(size_of(spec::dtype_named(dtype)));
  row.reduction = spec::traits_of(spec::collective_named(operation)).reduces ? "sum" : "";
  row.out_of_place = std::move(out_of_place);
  row.in_place = std::move(in_place);
  return row;
}

inline CollectivesResult make_result(const std::string& name, const std::string& backend, int64_t workers,
                                     std::vector<record::CollectiveRow> rows) {
  CollectivesResult result;
  result.name = name;
  result.backend = backend;
  result.workers = workers;
  result.start_time = "2026-01-31T12:00:00.000000Z";
  result.end_time = "2026-01-31T12:00:10.000000Z";
  result.args = {"mlbench", "bench", "collectives", "all_reduce", "-k", "2"};
  for (int64_t rank = 0; rank < workers; ++rank) result.devices.push_back({.host = "node-" + std::to_string(rank + 1)});
  result.rows = std::move(rows);
  return result;
}

}  // namespace mlbench::report
