#include "mlbench/report/collectives/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/printable.h"
#include "mlbench/report/draw/figure.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/report/study/significance.h"

namespace mlbench::report {

namespace {

using record::CollectiveForm;
using record::CollectiveRow;
using RowKey = std::tuple<std::string, std::string, std::string, std::string, int64_t, int64_t, int64_t, bool>;

constexpr size_t kFewestStarts = 2;  // fewer have no spread

RowKey key_of(const CollectiveRow& row, bool in_place) {
  return {row.operation, row.dtype, row.reduction, row.device, row.root, row.size_bytes, row.count, in_place};
}

// What the cycles of one start measured for a row in one form.
struct Cycles {
  std::vector<double> medians_us;
  bool wrong = false;
};

// What all starts measured for a row in one form.
struct Measurements {
  CollectiveRow row;
  bool in_place = false;
  std::vector<double> medians_us;  // of the starts that have this row
  bool wrong = false;
};

std::map<RowKey, Cycles> cycles_of(const CollectivesResult& start) {
  std::map<RowKey, Cycles> all;
  for (const CollectiveRow& row : start.rows) {
    for (const bool in_place : {false, true}) {
      const std::optional<CollectiveForm>& form = in_place ? row.in_place : row.out_of_place;
      if (!form) continue;
      Cycles& cycles = all[key_of(row, in_place)];
      cycles.medians_us.push_back(form->iterations ? form->iterations->p50_us : form->time_us);
      cycles.wrong = cycles.wrong || form->wrong.value_or(0) > 0;
    }
  }
  return all;
}

// The measurements of all starts, in the order of their rows.
std::vector<Measurements> measurements_of(const std::vector<CollectivesResult>& starts) {
  std::vector<Measurements> all;
  std::map<RowKey, size_t> places;
  for (const CollectivesResult& start : starts) {
    const std::map<RowKey, Cycles> cycles = cycles_of(start);
    std::set<RowKey> seen;
    for (const CollectiveRow& row : start.rows) {
      for (const bool in_place : {false, true}) {
        const RowKey key = key_of(row, in_place);
        const auto found = cycles.find(key);
        if (found == cycles.end() || !seen.insert(key).second) continue;
        const auto [place, added] = places.try_emplace(key, all.size());
        if (added) {
          Measurements& one = all.emplace_back(Measurements{row, in_place, {}});
          one.row.out_of_place.reset();
          one.row.in_place.reset();
        }
        all[place->second].medians_us.push_back(median(found->second.medians_us).value_or(0));
        all[place->second].wrong = all[place->second].wrong || found->second.wrong;
      }
    }
  }
  return all;
}

void judge(const Measurements& mine, const Measurements& other, CollectiveComparison& comparison) {
  comparison.median_us = median(mine.medians_us).value_or(0);
  comparison.other_us = median(other.medians_us).value_or(0);
  if (mine.wrong || other.wrong) {
    comparison.why_unknown = "wrong results";
    return;
  }
  comparison.estimate = ratio_of(mine.medians_us, other.medians_us);
  if (!comparison.estimate) {
    comparison.why_unknown = "no time";
    return;
  }
  const auto differs = comparison.estimate->differs();
  if (!differs) {
    comparison.why_unknown = comparison.estimate->no_spread ? "equal starts" : "needs starts";
  } else if (!*differs) {
    comparison.verdict = CollectiveVerdict::kNoDifference;
  } else {
    comparison.verdict = comparison.estimate->ratio < 1 ? CollectiveVerdict::kFaster : CollectiveVerdict::kSlower;
  }
}

// Why the times of two results mean different things, in words; "" where they can be compared.
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

// Differences that a user may want to compare, as notes. `of_one_side`: `a` and `b` are starts of one result, whose
// hosts may have other names in each start where they are created for it.
std::vector<std::string> differences_of(const CollectivesResult& a, const CollectivesResult& b, bool of_one_side) {
  std::vector<std::string> notes;
  const auto differ = [&](const char* what, const auto& mine, const auto& other) {
    if (mine != other) notes.push_back(fmt::format("{}: {}, {}", what, mine, other));
  };
  differ("back end", a.backend, b.backend);
  differ("communicators", a.comm_stack, b.comm_stack);
  differ("oversubscribed", a.oversubscribed, b.oversubscribed);
  if (!of_one_side && !a.devices.empty() && !b.devices.empty()) differ("hosts", hosts_in_words(a), hosts_in_words(b));
  differ("variables", fmt::format("{}", fmt::join(a.env, " ")), fmt::format("{}", fmt::join(b.env, " ")));
  differ("buffers of the communicator", a.spec.communicator_memory, b.spec.communicator_memory);
  return notes;
}

std::string name_of(const CollectivesResult& result) { return result.name.empty() ? "a result" : result.name; }

// Why `starts` are not all starts of one benchmark; "" where they are.
std::string why_not_alike(const std::vector<CollectivesResult>& starts) {
  for (const CollectivesResult& start : starts) {
    std::vector<std::string> notes = differences_of(starts.front(), start, true);
    if (std::string why = why_not_comparable(starts.front(), start); !why.empty()) notes.push_back(std::move(why));
    if (notes.empty()) continue;
    return fmt::format("not comparable: {} and {} are no starts of one benchmark ({})", name_of(starts.front()),
                       name_of(start), fmt::join(notes, "; "));
  }
  return "";
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

std::string in_words(const CollectiveComparison& one) {
  if (one.verdict == CollectiveVerdict::kNoDifference) return no_difference_words(*one.estimate);
  return one.why_unknown.empty() ? std::string(name_of(one.verdict)) : one.why_unknown;
}

Json ratio_interval(const CollectiveComparison& one) {
  if (!one.estimate || !one.estimate->interval) return nullptr;
  return {one.estimate->interval->low, one.estimate->interval->high};
}

// The figures of a compared row, in the order of JSON.
const Figures<CollectiveComparison>& compared_figures() {
  using Row = CollectiveComparison;
  const auto none_if_empty = [](const std::string& text) { return text.empty() ? "none" : text; };
  static const Figures<Row> kFigures = {
      {"operation", "operation", "", [](const Row& one) { return one.row.operation; }, forms::kText},
      {"size", "size", "B", [](const Row& one) { return one.row.size_bytes; }, forms::kNumber},
      {"count", [](const Row& one) { return one.row.count; }},
      {"dtype", "type", "", [](const Row& one) { return text_or_null(one.row.dtype); },
       [none_if_empty](const Row& one) { return none_if_empty(one.row.dtype); }, Align::kLeft},
      {"redop", "redop", "", [none_if_empty](const Row& one) { return none_if_empty(one.row.reduction); },
       forms::kText},
      {"root", [](const Row& one) { return one.row.root; }},
      {"device", [](const Row& one) { return one.row.device; }},
      {"form", "form", "", [](const Row& one) { return one.in_place ? "in_place" : "out_of_place"; }, forms::kText},
      {"median", "median", "us", &Row::median_us, forms::kFixed2},
      {"other_median", "other", "us", &Row::other_us, forms::kFixed2},
      {"ratio", "ratio", "", [](const Row& one) { return one.estimate ? Json(one.estimate->ratio) : Json(nullptr); },
       [](const Row& one) { return ratio_words(one.estimate); }},
      {"interval", ratio_interval},
      {"shown_by_half",
       [](const Row& one) { return one.estimate ? or_null(one.estimate->shown_by_half()) : Json(nullptr); }},
      {"verdict", "verdict", "",
       [](const Row& one) { return one.why_unknown.empty() ? std::string(name_of(one.verdict)) : one.why_unknown; },
       [](const Row& one) { return in_words(one); }, Align::kLeft},
  };
  return kFigures;
}

void sum_up(CollectivesComparison& comparison) {
  std::vector<double> ratios;
  for (const CollectiveComparison& one : comparison.rows) {
    ++(one.verdict == CollectiveVerdict::kFaster         ? comparison.faster
       : one.verdict == CollectiveVerdict::kSlower       ? comparison.slower
       : one.verdict == CollectiveVerdict::kNoDifference ? comparison.same
                                                         : comparison.unknown);
    if (one.estimate) ratios.push_back(one.estimate->ratio);
  }
  comparison.ratio = geometric_mean(ratios);
  if (std::min(comparison.starts, comparison.other_starts) < kFewestStarts) {
    comparison.notes.emplace_back(
        "no verdicts: what differs from one start to the next is in no iteration or cycle of one; --repeat 4 of both "
        "measures it");
  }
}

}  // namespace

CollectivesComparison compare_collectives(const std::vector<CollectivesResult>& starts,
                                          const std::vector<CollectivesResult>& other_starts) {
  MLBENCH_CHECK(!starts.empty() && !other_starts.empty(), "each side has a start");
  const CollectivesResult &result = starts.front(), &other = other_starts.front();
  CollectivesComparison comparison;
  comparison.name = result.name.empty() ? "this" : result.name;
  comparison.other = other.name.empty() ? "the other" : other.name;
  comparison.starts = starts.size();
  comparison.other_starts = other_starts.size();
  comparison.notes = differences_of(result, other, false);
  for (std::string why : {why_not_comparable(result, other), why_not_alike(starts), why_not_alike(other_starts)}) {
    if (comparison.not_comparable.empty()) comparison.not_comparable = std::move(why);
  }
  if (!comparison.not_comparable.empty()) return comparison;
  const std::vector<Measurements> others = measurements_of(other_starts);
  std::map<RowKey, size_t> places;
  for (size_t i = 0; i < others.size(); ++i) places[key_of(others[i].row, others[i].in_place)] = i;
  size_t missing = 0;
  for (const Measurements& mine : measurements_of(starts)) {
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
  const auto side = [](const std::string& name, size_t starts) {
    return starts == 1 ? name : fmt::format("{} ({} starts)", name, starts);
  };
  std::string out =
      fmt::format("{} against {}: ratio of the medians, below 1 is faster [its 95 % interval]\n",
                  side(comparison.name, comparison.starts), side(comparison.other, comparison.other_starts));
  if (!comparison.not_comparable.empty()) out += comparison.not_comparable + "\n";
  if (!comparison.rows.empty()) {
    out += table_of(compared_figures(), comparison.rows).render();
    out += fmt::format("{} faster, {} slower, {} without a difference, {} unknown; geometric mean of the ratios: {}\n",
                       comparison.faster, comparison.slower, comparison.same, comparison.unknown,
                       format_ratio(comparison.ratio));
  }
  for (const std::string& note : comparison.notes) out += fmt::format("note: {}\n", note);
  return printable_lines(out, "");
}

Json to_json(const CollectivesComparison& comparison) {
  Json rows = Json::array();
  for (const CollectiveComparison& one : comparison.rows) rows.push_back(json_of(compared_figures(), one));
  return {{"name", comparison.name},
          {"other", comparison.other},
          {"starts", comparison.starts},
          {"other_starts", comparison.other_starts},
          {"confidence", 0.95},
          {"not_comparable", text_or_null(comparison.not_comparable)},
          {"rows", rows},
          {"ratio", or_null(comparison.ratio)},
          {"faster", comparison.faster},
          {"slower", comparison.slower},
          {"no_difference", comparison.same},
          {"unknown", comparison.unknown},
          {"notes", comparison.notes}};
}

}  // namespace mlbench::report
