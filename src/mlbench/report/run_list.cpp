#include "mlbench/report/run_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "mlbench/report/draw/figure.h"
#include "mlbench/report/draw/section.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/run_figures.h"

namespace mlbench::report {

namespace {

struct ListRow {
  std::vector<ShownRun> repeats;  // at least one
  const ShownRun& first() const { return repeats.front(); }
  bool alone() const { return repeats.size() == 1; }
};

// "r-2 (4 repeats)".
std::string name_words(const ListRow& row) {
  const std::string& name = row.first().record.name;
  return row.alone() ? name : fmt::format("{} ({} repeats)", name, row.repeats.size());
}

// "finished"; "1 failed, 3 finished".
std::string state_words(const ListRow& row) {
  std::map<std::string, int> states;
  for (const ShownRun& run : row.repeats) ++states[run.record.state];
  if (states.size() == 1) return states.begin()->first;
  std::vector<std::string> words;
  for (const auto& [state, count] : states) words.push_back(fmt::format("{} {}", count, state));
  return fmt::format("{}", fmt::join(words, ", "));
}

// A single run gives its value, whatever its state; repeats give the values of those that finished.
std::vector<double> values_over(const ListRow& row, const auto& figure) {
  std::vector<double> values;
  for (const ShownRun& run : row.repeats) {
    const std::optional<double> value = figure(run);
    if (value && (row.alone() || run.record.state == "finished")) values.push_back(*value);
  }
  return values;
}

Sample train_of(const ListRow& row) {
  return sample_of(values_over(row, [](const ShownRun& run) { return run.figures.train_s; }));
}

std::string evaluation_words(const ListRow& row) {
  if (row.alone()) return row.first().figures.evaluation;
  std::vector<double> values = values_over(row, [](const ShownRun& run) { return last_value(run.record); });
  if (values.empty()) return "";
  const std::string& metric = row.first().record.goal->metric;
  const Sample sample = sample_of_metric(std::move(values), metric);
  return sample.mean ? fmt::format("{} {}", metric, with_interval(sample, forms::kMetric)) : "";
}

// "reached"; "3 of 4 reached".
std::string goal_cell(const ListRow& row, const Figure<ShownRun>& of_run) {
  const auto reached = std::ranges::count_if(row.repeats, [](const auto& run) { return reached_goal(run.record); });
  const bool alike = reached == 0 || reached == std::ssize(row.repeats);
  return alike ? of_run.cell(row.first()) : fmt::format("{} of {} reached", reached, row.repeats.size());
}

std::vector<std::string> labels_over(const ListRow& row) {
  std::vector<std::string> labels;
  for (const ShownRun& run : row.repeats) {
    for (const std::string& label : run.figures.labels) add_label(labels, label);
  }
  return labels;
}

// The columns of the list. What repeats have in common is taken from the first of them.
Figures<ListRow> list_figures(const TableStyle& style) {
  // CSV has the number of workers alone, since it shows values and no words.
  const char* workers = style.format == TableFormat::kCsv ? "workers" : "";
  Figures<ListRow> figures;
  for (const Figure<ShownRun>& one : chosen(run_figures(), {{"id", 2},
                                                            "name",
                                                            "state",
                                                            {"task", 1},
                                                            workers,
                                                            {"threads_per_worker", 3},
                                                            {"created_at", 4},
                                                            {"train_s", 2},
                                                            {"evaluation", 3},
                                                            {"goal", 1},
                                                            "labels"})) {
    const auto value = [one](const ListRow& row) { return one.value(row.first()); };
    const auto cell = [one](const ListRow& row) { return one.cell(row.first()); };
    Figure<ListRow>& figure = figures.emplace_back(one.key, one.heading, one.unit, value, cell, one.align);
    figure.rank = one.rank;
    if (one.key == "name") {
      figure.heading = "name";
      figure.cell = name_words;
    } else if (one.key == "state") {
      figure.cell = state_words;
      figure.value = state_words;
    } else if (one.key == "train_s") {
      figure.cell = [](const ListRow& row) { return with_interval(train_of(row), forms::kSeconds); };
      figure.value = [](const ListRow& row) { return figure_value(train_of(row).mean); };
    } else if (one.key == "evaluation") {
      figure.cell = evaluation_words;
      figure.value = evaluation_words;
    } else if (one.key == "goal") {
      figure.cell = [one](const ListRow& row) { return goal_cell(row, one); };
    } else if (one.key == "labels") {
      figure.cell = [](const ListRow& row) { return fmt::format("{}", fmt::join(labels_over(row), ", ")); };
      figure.value = labels_over;
    }
  }
  return figures;
}

}  // namespace

std::string status_table(const std::vector<RepeatedRun>& runs, const TableStyle& style) {
  std::vector<std::string> notes;
  const std::vector<RepeatedRun> parts = split_where_different(runs, notes);
  std::vector<ListRow> rows;
  bool repeated = false;
  for (const RepeatedRun& part : parts) {
    ListRow& row = rows.emplace_back();
    for (const record::Record& record : part.records) row.repeats.push_back({record, figures_of(record)});
    repeated = repeated || !row.alone();
  }
  const Figures<ListRow> figures = list_figures(style);
  notes.clear();
  if (repeated) {
    notes.emplace_back("repeats: means of those that finished [their 95 % intervals]; --all shows each run");
  }
  return written({{"", {}, table_of(figures, rows), notes}}, style);
}

}  // namespace mlbench::report
