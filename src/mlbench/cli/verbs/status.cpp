#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/system_error.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/remote_runs.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/home/runs.h"
#include "mlbench/home/summary.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/report/notes.h"
#include "mlbench/report/records.h"
#include "mlbench/report/run_figures.h"
#include "mlbench/report/run_list.h"
#include "mlbench/report/summary.h"
#include "mlbench/spec/split.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

// The last lines of `status NAME`, in the form that MLBench's scripts read.
std::string current_values(const record::Record& record, const std::string& metric) {
  record::Evaluation last;
  for (const record::Evaluation& one : record.evaluations) {
    if (one.split == spec::kTestSplit) last = one;
  }
  const auto value_line = [&](const std::string& key, const std::string& what, const char* missing) {
    const auto value = spec::find_number(last.metrics, key);
    if (!value || std::isnan(*value)) return fmt::format("No Validation {} Data yet\n", missing);
    std::string date;
    if (!record.started_at.empty()) {
      const std::chrono::duration<double> passed(last.wall_s.value_or(0));
      date = format_utc(parse_utc(record.started_at) + std::chrono::round<std::chrono::microseconds>(passed));
    }
    return fmt::format("Current Global {}: {:.2f} ({})\n", what, *value, date);
  };
  return "\n" + value_line("loss", "Loss", "Loss") + value_line(metric, metric, "Precision");
}

struct StatusOptions {
  std::string name, search, metric = "Prec@1";
  bool all = false;
};

// Whether a search finds the run. Words are collected only where there is a search.
bool is_found_by_search(const record::Record& record, const fs::path& run, const std::string& search) {
  return search.empty() ||
         home::is_found(run.filename(), home::words_of(home::summary_of(record), report::notes_or_none(run)), search);
}

// The runs with their repeats, in the order of the first of each; `all`: each run alone.
std::vector<report::RepeatedRun> with_repeats(std::vector<record::Record> records, bool all) {
  std::vector<report::RepeatedRun> runs;
  std::map<std::string, size_t> places;
  for (record::Record& record : records) {
    const std::string name = all ? record.name : home::without_repeat(record.name);
    const auto [place, fresh] = places.emplace(name, runs.size());
    if (fresh) runs.push_back({name, {}});
    runs[place->second].records.push_back(std::move(record));
  }
  return runs;
}

ExitCode show_run(const Context& context, const record::Record& record, const report::RunNotes& notes,
                  const std::string& metric) {
  if (context.json) {
    print_json(record::to_json(record));
  } else {
    const std::string said = report::notes_text(notes);
    const std::string last = record.collectives ? "" : current_values(record, metric);
    const report::TableStyle style = context.table_style();
    const std::string more = (said.empty() ? "" : "\n" + said) + last;
    print(report::run_details(record, style) + (style.format == report::TableFormat::kText ? more : ""));
  }
  return ExitCode::kOk;
}

// A table of runs of MLflow's clients; "" without any.
std::string tracked_table(const Json& runs) {
  if (runs.empty()) return "";
  report::Table table({{"run of MLflow", "", report::Align::kLeft},
                       {"state", "", report::Align::kLeft},
                       {"experiment", "", report::Align::kLeft},
                       {"created", "UTC", report::Align::kLeft}});
  for (const Json& run : runs) {
    table.add_row({printable(run.value("title", "")), run.value("state", ""), printable(run.value("experiment", "")),
                   report::short_stamp(run.value("created_at", ""))});
  }
  return "\n" + table.render();
}

// Shows the status of runs at a master elsewhere.
ExitCode remote_status(const Context& context, const MasterClient& master, const StatusOptions& options) {
  if (!options.name.empty()) {
    const std::string path = path_of_run(options.name);
    return show_run(context, remote_record(master, options.name), report::notes_from_json(master.get(path + "/notes")),
                    options.metric);
  }
  Json runs = remote_summaries(master, options.search);
  const Json tracked = remote_tracked_runs(master, options.search);
  if (context.json) {
    runs.insert(runs.end(), tracked.begin(), tracked.end());
    print_json(runs);
    return ExitCode::kOk;
  }
  print(runs.empty() ? fmt::format("no runs at {}\n", master.url())
                     : report::summaries_table(runs.get<std::vector<Json>>(),
                                               {"name", "state", {"task", 1}, {"workers", 2}, "time_to_goal_s"},
                                               context.table_style()));
  print(tracked_table(tracked));
  return ExitCode::kOk;
}

ExitCode status(const Context& context, const StatusOptions& options) {
  if (!options.name.empty() && !options.search.empty()) throw UserError("--search is for the table: leave out NAME-K");
  if (const auto master = given_master(context)) return remote_status(context, *master, options);
  const fs::path home = context.home_to_read();
  if (!options.name.empty()) {
    const fs::path run = report::find_run(home, options.name);
    return show_run(context, home::current_record(run), report::notes_or_none(run), options.metric);
  }
  std::vector<record::Record> records;
  for (const std::string& name : report::run_names(home)) {
    try {
      const fs::path run = runs_dir(home) / name;
      record::Record record = home::current_record(run);
      if (is_found_by_search(record, run, options.search)) records.push_back(std::move(record));
    } catch (const std::exception& error) {
      say(is_transient(error) ? fmt::format("run '{}' cannot be read now: {}", name, error.what())
                              : fmt::format("run '{}' is damaged ({}): mlbench delete {}", name, error.what(), name));
    }
  }
  std::ranges::stable_sort(records, {}, &record::Record::id);
  if (context.json) {
    print_json(record::to_json(records));
  } else if (records.empty() && !options.search.empty()) {
    print(
        fmt::format("no run in {} has '{}' in its name, notes or summary\n", home.string(), printable(options.search)));
  } else if (records.empty()) {
    print(fmt::format("no runs in {}; start one with: mlbench run NAME 1 2 --task TASK\n", home.string()));
  } else {
    print(report::status_table(with_repeats(std::move(records), options.all), context.table_style()));
  }
  // The master alone reads its store.
  if (const auto master = find_master(context); master && !context.json) {
    print(tracked_table(remote_tracked_runs(*master, options.search)));
  }
  return ExitCode::kOk;
}

}  // namespace

void add_status(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "status", "All runs of this home, or one in detail");
  add_master_options(*verb, program);
  add_table_options(*verb, program);
  auto options = std::make_shared<StatusOptions>();
  verb->add_option("NAME-K", options->name, "the run (default: a table of all)");
  verb->add_flag("--all", options->all, "a row for each repeat, which else stand as one");
  verb->add_option("-s,--search", options->search, "only runs with these words in their name, notes or summary")
      ->type_name("TEXT");
  verb->add_option("-m,--metric", options->metric, "of the last evaluation, shown behind a run in detail")
      ->type_name("METRIC")
      ->capture_default_str();
  act(*verb, program, [options](const Context& context) { return status(context, *options); });
}

}  // namespace mlbench::cli
