#include "mlbench/master/run_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "mlbench/home/summary.h"
#include "mlbench/report/run_figures.h"
#include "mlbench/report/study/significance.h"

namespace mlbench::master {

namespace {

using store::FigureValue;
using store::ListedRun;

constexpr std::array<std::string_view, 2> kListed = {"labels", "tags"};  // figures without an order
constexpr const char* kTimeToGoal = "time_to_goal_s";
constexpr const char* kRate = "samples_per_s";
constexpr const char* kSharedHost = "shared_host";
constexpr const char* kExperiment = "experiment";  // of runs of MLflow's clients

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

FigureValue order_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (value.is_number()) return value.get<double>();
  if (value.is_string() && !value.get_ref<const std::string&>().empty()) return value.get<std::string>();
  return {};
}

std::string summary_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? value.dump() : "";
}

std::vector<std::string> summary_texts(const Json& summary, const char* key) {
  const Json list = summary.value(key, Json::array());
  return list.is_array() ? list.get<std::vector<std::string>>() : std::vector<std::string>();
}

}  // namespace

const std::vector<std::string>& list_filters() {
  static const std::vector<std::string> kFilters = {"state", "task", "workers", "executor", "label", "tag"};
  return kFilters;
}

const std::vector<std::string>& list_orders() {
  static const std::vector<std::string> kOrders = [] {
    std::vector<std::string> orders;
    for (const report::Figure<report::ShownRun>& figure : report::run_figures()) {
      if (std::ranges::count(kListed, figure.key) == 0) orders.push_back(figure.key);
    }
    for (const auto& figure : report::goal_figures()) orders.push_back("goal_" + figure.key);
    orders.emplace_back(kExperiment);
    return orders;
  }();
  return kOrders;
}

Json list_figures() {
  Json figures = Json::array();
  for (Json& figure : report::described(report::run_figures())) {
    figures.push_back(std::move(figure));
    if (figures.back()["key"] != "goal") continue;
    for (Json& of_goal : report::described(report::goal_figures())) {
      of_goal["key"] = "goal_" + of_goal["key"].get<std::string>();
      figures.push_back(std::move(of_goal));
    }
  }
  figures.push_back({{"key", kExperiment}, {"title", "Experiment"}, {"unit", ""}, {"form", report::forms::kText.name}});
  return figures;
}

store::IndexedRun indexed_run(const Json& summary, const std::string& words) {
  const auto member = [&](const char* key) { return summary.value(key, Json(nullptr)); };
  store::IndexedRun run;
  run.id = member("id").is_number_integer() ? member("id").get<int64_t>() : 0;
  run.name = summary_text(member("name"));
  run.state = summary_text(member("state"));
  run.task = summary_text(member("task"));
  run.workers = summary_text(member("workers"));
  run.executor = summary_text(member("executor"));
  run.labels = summary_texts(summary, "labels");
  run.tags = summary_texts(summary, "tags");
  run.summary = summary.dump(-1, ' ', false, Json::error_handler_t::replace);
  run.words = words;
  for (const std::string& key : list_orders()) run.figures[key] = order_of(member(key.c_str()));
  if (const Json goal = member("goal"); goal.is_object()) {
    run.figures["goal"] = goal.value("reached", false) ? "reached" : "not reached";
    for (const auto& figure : report::goal_figures()) {
      run.figures["goal_" + figure.key] = order_of(goal.value(figure.key, Json()));
    }
  }
  return run;
}

namespace {

struct ListRow {
  std::vector<size_t> runs;  // the oldest first
  FigureValue value;
  bool fits = false;
};

// Whether `a` comes before `b`, which are of one figure.
bool in_order(const FigureValue& a, const FigureValue& b, bool descending) {
  const bool none_a = std::holds_alternative<std::monostate>(a), none_b = std::holds_alternative<std::monostate>(b);
  if (none_a || none_b) return !none_a && none_b;
  if (a.index() != b.index()) return a.index() < b.index();
  if (const double* number = std::get_if<double>(&a)) {
    return descending ? *number > std::get<double>(b) : *number < std::get<double>(b);
  }
  const int order = strverscmp(std::get<std::string>(a).c_str(), std::get<std::string>(b).c_str());
  return descending ? order > 0 : order < 0;
}

class RunListing {
 public:
  RunListing(const store::RunIndex& index, const ListQuery& query, const std::vector<store::IndexedRun>& others)
      : index_(index),
        query_(query),
        runs_(index.list()),
        times_(index.figure(kTimeToGoal)),
        rates_(index.figure(kRate)),
        shared_(index.figure(kSharedHost)) {
    for (const store::IndexedRun& run : others) {
      others_[run.name] = &run;
      runs_.push_back({run.id, run.name, run.state, run.task, run.workers, run.executor, "", run.labels, run.tags});
    }
    group();
    make_rows();
    order();
  }

  std::string text() const {
    const size_t begin = std::min<size_t>(rows_.size(), static_cast<size_t>(query_.offset));
    const size_t end = std::min<size_t>(rows_.size(), begin + static_cast<size_t>(query_.limit));
    size_t count = 0;
    for (const ListRow& row : rows_) count += row.runs.size();
    std::string out =
        fmt::format(R"({{"total":{},"limit":{},"offset":{},"runs":[)", rows_.size(), query_.limit, query_.offset);
    bool first = true;
    for (size_t row = begin; row < end; ++row) {
      for (const size_t run : rows_[row].runs) {
        const std::string summary = summary_of_run(runs_[run].name);
        if (summary.empty()) continue;  // it was just deleted
        out += first ? "" : ",";
        out.append(summary, 0, summary.rfind('}'));
        out += "," + repeats_text(runs_[run]) + "}";
        first = false;
      }
    }
    return out + fmt::format(R"(],"count":{},"choices":{}}})", count,
                             choices().dump(-1, ' ', false, Json::error_handler_t::replace));
  }

 private:
  std::string summary_of_run(const std::string& name) const {
    if (const auto other = others_.find(name); other != others_.end()) return other->second->summary;
    const std::vector<std::string> summaries = index_.summaries({name});
    return summaries.empty() ? "" : summaries.front();
  }

  // Damaged runs repeat none, nor do those beside the index.
  static std::string configuration_of(const ListedRun& run) {
    return run.configuration.empty() ? "\n" + run.name : run.configuration;
  }

  void group() {
    for (size_t run = runs_.size(); run-- > 0;) groups_[configuration_of(runs_[run])].push_back(run);
  }

  bool has(const ListedRun& run, const std::string& filter, const std::string& value) const {
    if (filter == "state") return run.state == value;
    if (filter == "task") return run.task == value;
    if (filter == "workers") return run.workers == value;
    if (filter == "executor") return run.executor == value;
    return std::ranges::count(filter == "label" ? run.labels : run.tags, value) > 0;
  }

  void make_rows() {
    const std::vector<std::string> words = home::searched_parts(query_.search);
    const auto found = words.empty() ? std::unordered_set<std::string>() : index_.search(words);
    std::unordered_map<std::string, size_t> row_of;  // by configuration
    for (size_t i = 0; i < runs_.size(); ++i) {
      const ListedRun& run = runs_[i];
      const auto other = others_.find(run.name);
      const bool is_found = other == others_.end() ? words.empty() || found.contains(run.name)
                                                   : home::is_found(run.name, other->second->words, query_.search);
      const bool fits = is_found && std::ranges::all_of(query_.filters, [&](const auto& filter) {
                          return has(run, filter.first, filter.second);
                        });
      if (!query_.together) {
        if (fits) rows_.push_back({{i}, {}, true});
        continue;
      }
      const auto [row, added] = row_of.emplace(configuration_of(run), rows_.size());
      if (added) rows_.push_back({groups_.at(row->first), {}, false});
      rows_[row->second].fits = rows_[row->second].fits || fits;
    }
    std::erase_if(rows_, [](const ListRow& row) { return !row.fits; });
  }

  void order() {
    if (query_.sort == "id" && query_.descending) return;  // the index's own
    auto values = index_.figure(query_.sort);
    for (const auto& [name, run] : others_) {
      if (const auto value = run->figures.find(query_.sort); value != run->figures.end()) values[name] = value->second;
    }
    const bool latest = query_.sort == "id" || query_.sort.ends_with("_at");
    for (ListRow& row : rows_) {
      const std::string& name = runs_[latest ? row.runs.back() : row.runs.front()].name;
      if (row.runs.size() > 1 && (query_.sort == kTimeToGoal || query_.sort == kRate)) {
        const report::RepeatSamples samples = samples_of_runs(row.runs);
        const auto& mean = (query_.sort == kRate ? samples.samples_per_s : samples.time_to_goal_s).mean;
        row.value = mean ? FigureValue(*mean) : FigureValue();
      } else if (const auto value = values.find(name); value != values.end()) {
        row.value = value->second;
      }
      if (auto* text = std::get_if<std::string>(&row.value)) *text = lower(*text);
    }
    std::ranges::stable_sort(
        rows_, [&](const ListRow& a, const ListRow& b) { return in_order(a.value, b.value, query_.descending); });
  }

  std::optional<double> number_of(const std::unordered_map<std::string, FigureValue>& values, size_t run) const {
    const auto value = values.find(runs_[run].name);
    const double* number = value == values.end() ? nullptr : std::get_if<double>(&value->second);
    return number ? std::optional(*number) : std::nullopt;
  }

  report::RepeatSamples samples_of_runs(const std::vector<size_t>& runs) const {
    std::vector<report::MeasuredRepeat> measured;
    bool shared = false;
    for (const size_t run : runs) {
      measured.push_back({number_of(times_, run), number_of(rates_, run)});
      shared = shared || number_of(shared_, run).value_or(0) != 0;
    }
    return report::samples_of(measured, shared);
  }

  // The members of a summary that are about the run's repeats.
  std::string repeats_text(const ListedRun& run) const {
    const report::RepeatSamples samples = samples_of_runs(groups_.at(configuration_of(run)));
    const Json repeats = {{"runs", samples.runs},
                          {"reached", samples.reached},
                          {kTimeToGoal, report::to_json(samples.time_to_goal_s)},
                          {kRate, report::to_json(samples.samples_per_s)}};
    const Json configuration = run.configuration.empty() ? Json(nullptr) : Json(run.configuration);
    return fmt::format(R"("configuration":{},"repeats":{})", configuration.dump(), repeats.dump());
  }

  // What there is to filter by, with the number of runs that have it.
  Json choices() const {
    std::map<std::string, std::map<std::string, int64_t>> counts;
    for (const std::string& filter : list_filters()) counts[filter];
    const auto add = [&](const char* filter, const std::string& value) {
      if (!value.empty()) ++counts[filter][value];
    };
    for (const ListedRun& run : runs_) {
      add("state", run.state);
      add("task", run.task);
      add("workers", run.workers);
      add("executor", run.executor);
      for (const std::string& label : run.labels) add("label", label);
      for (const std::string& tag : run.tags) add("tag", tag);
    }
    return counts;
  }

  const store::RunIndex& index_;
  const ListQuery& query_;
  std::vector<ListedRun> runs_;  // the newest first, those beside the index behind the others
  std::unordered_map<std::string, const store::IndexedRun*> others_;
  const std::unordered_map<std::string, FigureValue> times_, rates_, shared_;
  std::unordered_map<std::string, std::vector<size_t>> groups_;  // by configuration, the oldest run first
  std::vector<ListRow> rows_;
};

}  // namespace

std::string list_of_runs(const store::RunIndex& index, const ListQuery& query,
                         const std::vector<store::IndexedRun>& others) {
  return RunListing(index, query, others).text();
}

}  // namespace mlbench::master
