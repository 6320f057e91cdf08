
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "mlbench/base/choices.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/remote_runs.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/home/runs.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/records.h"
#include "mlbench/report/study/comparison.h"
#include "mlbench/report/study/measured_run.h"
#include "mlbench/report/study/significance.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

// A run's record, and the folder or master in which the run was found.
struct Found {
  fs::path folder;
  record::Record record;
};

// The runs that `given` stands for: a path to one or several runs, or the name of a run at the chosen master or in this
// home. A name also stands for the run's repeats, unless it is that of a repeat.
std::vector<Found> find_runs(const Context& context, const std::string& given, std::vector<std::string>& notes) {
  std::vector<Found> found;
  if (given.find('/') != std::string::npos || given.ends_with(".zip") || given.ends_with(".json")) {
    for (report::MeasuredRun& run : report::read_runs(given, notes)) {
      found.push_back({fs::absolute(run.source).parent_path(), std::move(run.record)});
    }
    return found;
  }
  if (const auto master = given_master(context)) {
    for (record::Record& record : remote_repeats(*master, given)) found.push_back({master->url(), std::move(record)});
    return found;
  }
  const fs::path run = report::find_run(context.home_to_read(), given);
  for (record::Record& record : home::records_of_repeats(context.home_to_read(), run.filename())) {
    found.push_back({run.parent_path(), std::move(record)});
  }
  return found;
}

struct CompareOptions {
  std::vector<std::string> runs, vary;
  std::string after;
};

ExitCode compare(const Context& context, const CompareOptions& options) {
  for (const std::string& key : options.vary) check_choice("key of --vary", key, report::keys_to_vary());
  std::optional<double> after_s;
  if (!options.after.empty()) {
    after_s = parse_duration(options.after, "--after", spec::run_option(&spec::RunOptions::max_time).range);
  }
  std::vector<std::string> notes;
  std::vector<report::RepeatedRun> runs;
  std::vector<std::pair<fs::path, std::string>> keys;  // of `runs`; one name in two homes means two runs
  for (const std::string& one : options.runs) {
    for (Found& found : find_runs(context, one, notes)) {
      const std::string name = found.record.name;
      std::pair key(found.folder, home::without_repeat(name));
      const auto known = std::find(keys.begin(), keys.end(), key);
      if (known == keys.end()) {
        runs.push_back({key.second, {std::move(found.record)}});
        keys.push_back(std::move(key));
        continue;
      }
      std::vector<record::Record>& repeats = runs[static_cast<size_t>(known - keys.begin())].records;
      const bool twice = std::ranges::count(repeats, name, &record::Record::name) > 0;
      if (!twice) repeats.push_back(std::move(found.record));
    }
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    const bool shared = std::any_of(keys.begin(), keys.end(),
                                    [&](const auto& key) { return key != keys[i] && key.second == keys[i].second; });
    if (shared) runs[i].name = (keys[i].first / keys[i].second).string();
  }
  report::Significance significance = report::significance_of(runs, {after_s, options.vary});
  significance.notes.insert(significance.notes.end(), notes.begin(), notes.end());
  if (context.json) {
    print_json(report::to_json(significance));
  } else {
    print(report::significance_text(significance, context.table_style()));
  }
  return ExitCode::kOk;
}

}  // namespace

void add_compare(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "compare", "Runs side by side, and whether their differences are real");
  add_master_options(*verb, program);
  add_table_options(*verb, program);
  auto options = std::make_shared<CompareOptions>();
  verb->add_option("RUN", options->runs, "NAME-K (with its repeats), or a run folder, archive or record as a path")
      ->required();
  verb->add_option("--after", options->after, "the metric after this time of training and evaluation, e.g. 2h")
      ->type_name("TIME");
  verb->add_option("--vary", options->vary,
                   "ratios also between runs that differ in all of these, e.g. framework,hardware")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("KEYS");
  act(*verb, program, [options](const Context& context) { return compare(context, *options); });
}

}  // namespace mlbench::cli
