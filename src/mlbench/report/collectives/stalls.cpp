#include "mlbench/report/collectives/stalls.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "mlbench/base/or_null.h"

namespace mlbench::report {

namespace {
using record::CollectiveRow;

constexpr double kStallFactor = 10;

double time_of(const CollectiveRow& row, bool in_place) {
  return (in_place ? row.in_place : row.out_of_place)->time_us;
}

}  // namespace

std::vector<size_t> stalled_among(const std::vector<double>& times) {
  std::vector<size_t> stalled;
  for (size_t i = 1; i + 1 < times.size(); ++i) {
    if (times[i - 1] > 0 && times[i + 1] > 0 && times[i] >= kStallFactor * std::max(times[i - 1], times[i + 1])) {
      stalled.push_back(i);
    }
  }
  return stalled;
}

std::vector<Stall> stalls_of(std::span<const CollectiveRow> rows) {
  using Key = std::tuple<std::string, std::string, std::string, std::string, int64_t, int64_t, bool>;
  std::map<Key, std::vector<const CollectiveRow*>> lines;
  for (const CollectiveRow& row : rows) {
    for (const bool in_place : {false, true}) {
      if (!(in_place ? row.in_place : row.out_of_place)) continue;
      lines[{row.operation, row.dtype, row.reduction, row.device, row.root, row.cycle, in_place}].push_back(&row);
    }
  }
  std::vector<Stall> stalls;
  for (auto& [key, line] : lines) {
    const bool in_place = std::get<6>(key);
    std::ranges::stable_sort(line, {}, &CollectiveRow::size_bytes);
    std::vector<double> times;
    for (const CollectiveRow* row : line) times.push_back(time_of(*row, in_place));
    for (const size_t i : stalled_among(times)) stalls.push_back({line[i], line[i - 1], line[i + 1], in_place});
  }
  std::ranges::stable_sort(stalls, {}, [](const Stall& stall) { return std::pair(stall.row, stall.in_place); });
  return stalls;
}

std::string in_words(const Stall& stall) {
  const double time = time_of(*stall.row, stall.in_place);
  const auto times = [&](const CollectiveRow& other) {
    return fmt::format("{:.0f} times as long as {} B", time / time_of(other, stall.in_place), other.size_bytes);
  };
  return fmt::format("{} B {} took {} and {}", stall.row->size_bytes, stall.in_place ? "in place" : "out of place",
                     times(*stall.smaller), times(*stall.larger));
}

Json to_json(const Stall& stall) {
  const auto size = [&](const CollectiveRow& row) {
    return Json{{"size", row.size_bytes}, {"time", time_of(row, stall.in_place)}};
  };
  return {{"operation", stall.row->operation},
          {"cycle", stall.row->cycle},
          {"dtype", text_or_null(stall.row->dtype)},
          {"redop", stall.row->reduction.empty() ? "none" : stall.row->reduction},
          {"form", stall.in_place ? "in_place" : "out_of_place"},
          {"size", stall.row->size_bytes},
          {"time", time_of(*stall.row, stall.in_place)},
          {"smaller", size(*stall.smaller)},
          {"larger", size(*stall.larger)}};
}

}  // namespace mlbench::report
