#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "mlbench/home/runs.h"
#include "mlbench/home/summary.h"
#include "mlbench/master/http/run_handlers.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/study/scaling.h"
#include "mlbench/report/study/significance.h"
#include "mlbench/report/study/statistics.h"
#include "mlbench/report/study/study.h"

namespace mlbench::master::run_handlers {

namespace {

constexpr size_t kMostCompared = 100;

Json scaling_json(const std::optional<report::Scaling>& scaling) {
  if (!scaling) return nullptr;
  return {{"speed_up", scaling->speed_up}, {"efficiency", scaling->efficiency}};
}

// The named runs with their repeats, in the order of `names`, grouped as `mlbench compare` does.
std::vector<report::RepeatedRun> repeated_runs(const Services& services, const std::string& names) {
  std::vector<report::RepeatedRun> runs;
  size_t count = 0;
  for (size_t begin = 0; begin <= names.size() && !names.empty();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = find_run_folder(services, names.substr(begin, end - begin)).filename();
    begin = end + 1;
    const std::string base = home::without_repeat(name);
    auto run = std::ranges::find(runs, base, &report::RepeatedRun::name);
    if (run == runs.end()) run = runs.insert(run, report::RepeatedRun{base, {}});
    for (record::Record& record : home::records_of_repeats(services.home, name)) {
      if (std::ranges::count(run->records, record.name, &record::Record::name) > 0) continue;
      run->records.push_back(std::move(record));
      if (++count > kMostCompared) {
        throw HttpError(400, fmt::format("runs: with their repeats, at most {} can be compared", kMostCompared));
      }
    }
  }
  if (runs.empty()) throw HttpError(400, "runs is needed: names with commas between them");
  return runs;
}

// The median over the repeats; null where one of them has no value.
Json median_of(const std::vector<const report::ScaledRun*>& repeats,
               std::optional<report::Scaling> report::ScaledRun::*of) {
  std::vector<double> speed_ups, efficiencies;
  for (const report::ScaledRun* repeat : repeats) {
    const std::optional<report::Scaling>& scaling = repeat->*of;
    if (!scaling) return nullptr;
    speed_ups.push_back(scaling->speed_up);
    efficiencies.push_back(scaling->efficiency);
  }
  const auto speed_up = report::median(speed_ups), efficiency = report::median(efficiencies);
  return speed_up && efficiency ? scaling_json(report::Scaling{*speed_up, *efficiency}) : Json(nullptr);
}

// The repeat whose parts, losses and evaluations are shown: the one of median time to the goal or, where a repeat
// missed the goal, of median train clock.
size_t shown_of(const std::vector<const report::ScaledRun*>& repeats) {
  std::vector<double> to_goal, train;
  for (const report::ScaledRun* repeat : repeats) {
    if (repeat->figures.time_to_goal_s) to_goal.push_back(*repeat->figures.time_to_goal_s);
    train.push_back(repeat->figures.train_s.value_or(0));
  }
  return report::median_index(to_goal.size() == repeats.size() ? to_goal : train);
}

}  // namespace

Response compare(const Services& services, const Request& request) {
  const std::vector<report::RepeatedRun> runs = repeated_runs(services, request.query("runs").value_or(""));
  std::vector<record::Record> records;
  for (const report::RepeatedRun& run : runs) records.insert(records.end(), run.records.begin(), run.records.end());
  const report::ScaledRuns scaled = report::scale_runs(records);
  std::map<std::string, const report::ScaledRun*> by_name;
  Json rows = Json::array();
  for (size_t i = 0; i < records.size(); ++i) {
    by_name[scaled.runs[i].figures.name] = &scaled.runs[i];
    Json row = home::summary_of(records[i]);
    row["to_goal"] = scaling_json(scaled.runs[i].to_goal);
    row["rate"] = scaling_json(scaled.runs[i].rate);
    row["baseline"] = scaled.runs[i].baseline;
    row["no_ratio"] = scaled.runs[i].no_ratio;
    rows.push_back(std::move(row));
  }
  const report::Significance compared = report::significance_of(runs, {});
  Json significance = report::to_json(compared), words = report::words_json(compared);
  for (size_t i = 0; i < words.size(); ++i) {
    Json& group = significance["runs"][i];
    group["words"] = std::move(words[i]);
    std::vector<const report::ScaledRun*> repeats;
    for (const Json& name : group["repeats"]) repeats.push_back(by_name.at(name.get<std::string>()));
    const report::ScaledRun& shown = *repeats[shown_of(repeats)];
    group["shown"] = shown.figures.name;
    group["scaling"] = {{"to_goal", median_of(repeats, &report::ScaledRun::to_goal)},
                        {"rate", median_of(repeats, &report::ScaledRun::rate)},
                        {"baseline", shown.baseline},
                        {"no_ratio", shown.no_ratio}};
  }
  return json_response(200, {{"baseline_workers", scaled.baseline_workers},
                             {"baseline", scaled.baseline_names},
                             {"notes", scaled.notes},
                             {"runs", std::move(rows)},
                             {"repeated", std::move(significance)}});
}

Response scaling(const Services& services, const Request& request) {
  std::vector<report::MeasuredRun> runs;
  for (const report::RepeatedRun& run : repeated_runs(services, request.query("runs").value_or(""))) {
    for (const record::Record& record : run.records) runs.push_back({record, {}, ""});
  }
  const report::PricedStudies priced = report::priced_studies(runs);
  Json studies = Json::array();
  for (const report::Study& study : priced.studies) studies.push_back(report::to_json(study, runs));
  return json_response(200, {{"studies", std::move(studies)},
                             {"price", priced.price_note},
                             {"currency", priced.prices.currency},
                             {"notes", priced.notes}});
}

}  // namespace mlbench::master::run_handlers
