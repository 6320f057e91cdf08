#include "mlbench/report/collectives_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "mlbench/base/printable.h"
#include "mlbench/report/table.h"

namespace mlbench::report {

namespace {

using record::CollectiveForm;
using record::CollectiveRow;
using RowKey = std::tuple<std::string, std::string, std::string, std::string, int64_t, int64_t, int64_t, bool>;

constexpr size_t kEnoughCycles = 3;

RowKey key_of(const CollectiveRow& row, bool in_place) {
  return {row.operation, row.dtype, row.reduction, row.device, row.root, row.size_bytes, row.count, in_place};
}

// The same row and form as often as it was measured.
struct Measurements {
  CollectiveRow row;
  bool in_place = false;
  std::vector<const CollectiveForm*> forms;
};

std::vector<Measurements> measurements_of(const CollectivesResult& result) {
  std::vector<Measurements> all;
  std::map<RowKey, size_t> places;
  for (const CollectiveRow& row : result.rows) {
    for (const bool in_place : {false, true}) {
      const std::optional<CollectiveForm>& form = in_place ? row.in_place : row.out_of_place;
      if (!form) continue;
      const auto [place, added] = places.try_emplace(key_of(row, in_place), all.size());
      if (added) {
        Measurements& one = all.emplace_back(Measurements{row, in_place, {}});
        one.row.out_of_place.reset();
        one.row.in_place.reset();
      }
      all[place->second].forms.push_back(&*form);
    }
  }
  return all;
}

std::vector<double> medians_of(const Measurements& measured) {
  std::vector<double> medians;
  for (const CollectiveForm* form : measured.forms) {
    medians.push_back(form->iterations ? form->iterations->p50_us : form->time_us);
  }
  return medians;
}

bool has_wrong(const Measurements& measured) {
  return std::ranges::any_of(measured.forms, [](const CollectiveForm* form) { return form->wrong.value_or(0) > 0; });
}

// Of the median over the iterations of every time it was measured; none where one of them has none.
std::optional<Interval> interval_of_iterations(const Measurements& measured) {
  std::optional<Interval> interval;
  for (const CollectiveForm* form : measured.forms) {
    if (!form->iterations || !form->iterations->p50_low_us || !form->iterations->p50_high_us) return std::nullopt;
    const Interval one{*form->iterations->p50_low_us, *form->iterations->p50_high_us};
    interval = interval ? Interval{std::min(interval->low, one.low), std::max(interval->high, one.high)} : one;
  }
  return interval;
}

void judge(const Measurements& mine, const Measurements& other, CollectiveComparison& comparison) {
  const std::vector<double> my_medians = medians_of(mine), other_medians = medians_of(other);
  comparison.median_us = median(my_medians).value_or(0);
  comparison.other_us = median(other_medians).value_or(0);
  if (has_wrong(mine) || has_wrong(other)) {
    comparison.why_unknown = "wrong results";
    return;
  }
  if (!(comparison.median_us > 0 && comparison.other_us > 0)) {
    comparison.why_unknown = "no time";
    return;
  }
  comparison.ratio = comparison.median_us / comparison.other_us;
  if (my_medians.size() >= kEnoughCycles && other_medians.size() >= kEnoughCycles) {
    if (const auto estimate = ratio_of(my_medians, other_medians); estimate && estimate->interval) {
      comparison.of_cycles = true;
      comparison.ratio = estimate->ratio;
      comparison.interval = estimate->interval;
    }
  } else {
    const auto low_high = interval_of_iterations(mine), others = interval_of_iterations(other);
    if (low_high && others && others->low > 0) {
      comparison.interval = Interval{low_high->low / others->high, low_high->high / others->low};
    }
  }
  if (!comparison.interval) {
    comparison.why_unknown = "too few iterations";
  } else if (comparison.interval->high < 1) {
    comparison.verdict = CollectiveVerdict::kFaster;
  } else if (comparison.interval->low > 1) {
    comparison.verdict = CollectiveVerdict::kSlower;
  } else {
    comparison.verdict = CollectiveVerdict::kNoDifference;
  }
}

// What makes a time something else. UserError's words, "" where nothing does.
std::string why_not_comparable(const CollectivesResult& a, const CollectivesResult& b) {
  std::vector<std::string> words;
  const auto differ = [&](const char* what, const auto& mine, const auto& other) {
    if (mine != other) words.push_back(fmt::format("{} ({}, {})", what, mine, other));
  };
  differ("ranks", a.workers, b.workers);
  differ("average over ranks", spec::name_of(a.spec.average), spec::name_of(b.spec.average));
  differ("aggregated operations", a.spec.aggregated, b.spec.aggregated);
  differ("blocking", a.spec.blocking, b.spec.blocking);
  differ("misaligned elements", a.spec.misaligned_elements, b.spec.misaligned_elements);
  differ("misaligned bytes", a.spec.misaligned_bytes, b.spec.misaligned_bytes);
  differ("window", a.spec.window, b.spec.window);
  return words.empty() ? "" : fmt::format("not comparable: {} differ", fmt::join(words, ", "));
}

// "node-1:2 node-2:2": hosts in the order of their first ranks, and how many each has.
std::string hosts_in_words(const CollectivesResult& result) {
  std::vector<std::pair<std::string, int64_t>> hosts;
  for (const CollectiveDevice& device : result.devices) {
    const auto known = std::ranges::find(hosts, device.host, &std::pair<std::string, int64_t>::first);
    ++(known == hosts.end() ? hosts.emplace_back(device.host, 0) : *known).second;
  }
  std::vector<std::string> words;
  for (const auto& [host, ranks] : hosts) words.push_back(fmt::format("{}:{}", host, ranks));
  return fmt::format("{}", fmt::join(words, " "));
}

std::vector<std::string> differences_of(const CollectivesResult& a, const CollectivesResult& b) {
  std::vector<std::string> notes;
  const auto differ = [&](const char* what, const auto& mine, const auto& other) {
    if (mine != other) notes.push_back(fmt::format("{}: {}, {}", what, mine, other));
  };
  differ("back end", a.backend, b.backend);
  differ("communicators", a.comm_stack, b.comm_stack);
  differ("oversubscribed", a.oversubscribed, b.oversubscribed);
  if (!a.devices.empty() && !b.devices.empty()) differ("hosts", hosts_in_words(a), hosts_in_words(b));
  differ("variables", fmt::format("{}", fmt::join(a.env, " ")), fmt::format("{}", fmt::join(b.env, " ")));
  differ("buffers of the communicator", a.spec.communicator_memory, b.spec.communicator_memory);
  return notes;
}

std::string_view name_of(CollectiveVerdict verdict) {
  switch (verdict) {
    case CollectiveVerdict::kFaster:
      return "faster";
    case CollectiveVerdict::kSlower:
      return "slower";
    case CollectiveVerdict::kNoDifference:
      return "no difference";
    default:
      return "unknown";
  }
}

std::string verdict_words(const CollectiveComparison& one) {
  return one.why_unknown.empty() ? std::string(name_of(one.verdict)) : one.why_unknown;
}

void sum_up(CollectivesComparison& comparison) {
  std::vector<double> ratios;
  bool of_iterations = false;
  for (const CollectiveComparison& one : comparison.rows) {
    ++(one.verdict == CollectiveVerdict::kFaster         ? comparison.faster
       : one.verdict == CollectiveVerdict::kSlower       ? comparison.slower
       : one.verdict == CollectiveVerdict::kNoDifference ? comparison.same
                                                         : comparison.unknown);
    if (one.ratio) ratios.push_back(*one.ratio);
    of_iterations = of_iterations || (one.interval && !one.of_cycles);
  }
  comparison.ratio = geometric_mean(ratios);
  if (of_iterations) {
    comparison.notes.emplace_back(
        "intervals are of the iterations of one time: what differs from one time to the next is not in them (-N 3 of "
        "both measures it)");
  }
}

}  // namespace

CollectivesComparison compare_collectives(const CollectivesResult& result, const CollectivesResult& other) {
  CollectivesComparison comparison;
  comparison.name = result.name.empty() ? "this" : result.name;
  comparison.other = other.name.empty() ? "the other" : other.name;
  comparison.notes = differences_of(result, other);
  comparison.not_comparable = why_not_comparable(result, other);
  if (!comparison.not_comparable.empty()) return comparison;
  const std::vector<Measurements> others = measurements_of(other);
  std::map<RowKey, size_t> places;
  for (size_t i = 0; i < others.size(); ++i) places[key_of(others[i].row, others[i].in_place)] = i;
  size_t missing = 0;
  for (const Measurements& mine : measurements_of(result)) {
    const auto found = places.find(key_of(mine.row, mine.in_place));
    if (found == places.end()) {
      ++missing;
      continue;
    }
    CollectiveComparison& one = comparison.rows.emplace_back();
    one.row = mine.row;
    one.in_place = mine.in_place;
    judge(mine, others[found->second], one);
  }
  if (missing > 0) comparison.notes.push_back(fmt::format("{} rows are not in {}", missing, comparison.other));
  if (const size_t more = others.size() - comparison.rows.size(); more > 0) {
    comparison.notes.push_back(fmt::format("{} rows of {} are not in {}", more, comparison.other, comparison.name));
  }
  sum_up(comparison);
  return comparison;
}

std::string comparison_text(const CollectivesComparison& comparison) {
  std::string out = fmt::format("{} against {}: ratio of the medians, below 1 is faster [its 95 % interval]\n",
                                comparison.name, comparison.other);
  if (!comparison.not_comparable.empty()) out += comparison.not_comparable + "\n";
  if (!comparison.rows.empty()) {
    Table table({{"operation", "", Align::kLeft},
                 {"size", "B", Align::kRight},
                 {"type", "", Align::kLeft},
                 {"redop", "", Align::kLeft},
                 {"form", "", Align::kLeft},
                 {"median", "us", Align::kRight},
                 {"other", "us", Align::kRight},
                 {"ratio", "", Align::kRight},
                 {"verdict", "", Align::kLeft}});
    for (const CollectiveComparison& one : comparison.rows) {
      std::string ratio = format_ratio(one.ratio);
      if (one.interval) ratio += fmt::format(" [{:.2f}, {:.2f}]", one.interval->low, one.interval->high);
      table.add_row(
          {one.row.operation, fmt::format("{}", one.row.size_bytes), one.row.dtype.empty() ? "none" : one.row.dtype,
           one.row.reduction.empty() ? "none" : one.row.reduction, one.in_place ? "in_place" : "out_of_place",
           fmt::format("{:.2f}", one.median_us), fmt::format("{:.2f}", one.other_us), ratio, verdict_words(one)});
    }
    out += table.render();
    out += fmt::format("{} faster, {} slower, {} without a difference, {} unknown; geometric mean of the ratios: {}\n",
                       comparison.faster, comparison.slower, comparison.same, comparison.unknown,
                       format_ratio(comparison.ratio));
  }
  for (const std::string& note : comparison.notes) out += fmt::format("note: {}\n", note);
  return printable_lines(out, "");
}

Json to_json(const CollectivesComparison& comparison) {
  const auto figure = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  Json rows = Json::array();
  for (const CollectiveComparison& one : comparison.rows) {
    rows.push_back({{"operation", one.row.operation},
                    {"size", one.row.size_bytes},
                    {"count", one.row.count},
                    {"dtype", one.row.dtype.empty() ? Json(nullptr) : Json(one.row.dtype)},
                    {"redop", one.row.reduction.empty() ? "none" : one.row.reduction},
                    {"root", one.row.root},
                    {"device", one.row.device},
                    {"form", one.in_place ? "in_place" : "out_of_place"},
                    {"median", one.median_us},
                    {"other_median", one.other_us},
                    {"ratio", figure(one.ratio)},
                    {"interval", one.interval ? Json({one.interval->low, one.interval->high}) : Json(nullptr)},
                    {"interval_of", !one.interval   ? Json(nullptr)
                                    : one.of_cycles ? Json("cycles")
                                                    : Json("iterations")},
                    {"verdict", verdict_words(one)}});
  }
  return {{"name", comparison.name},
          {"other", comparison.other},
          {"confidence", 0.95},
          {"not_comparable", comparison.not_comparable.empty() ? Json(nullptr) : Json(comparison.not_comparable)},
          {"rows", rows},
          {"ratio", figure(comparison.ratio)},
          {"faster", comparison.faster},
          {"slower", comparison.slower},
          {"no_difference", comparison.same},
          {"unknown", comparison.unknown},
          {"notes", comparison.notes}};
}

}  // namespace mlbench::report
