#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/numbers.h"
#include "mlbench/cli/clusters/defaults.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/terminal/interrupt.h"
#include "mlbench/cli/verbs/kept_runs.h"
#include "mlbench/cli/verbs/option_flags.h"
#include "mlbench/cli/verbs/start_runs.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/exec/executor.h"
#include "mlbench/plan/tune_plan.h"
#include "mlbench/report/draw/gnuplot.h"
#include "mlbench/report/study/tuning.h"

namespace mlbench::cli {

namespace fs = std::filesystem;
using plan::TuneOptions;
using report::TuneTrial;
using report::Tuning;

namespace {

constexpr Range kTrials{1, 1000}, kStudies{1, 100}, kShares{0, 0.9};

// As given.
struct TuneWords {
  spec::RunOptions run;
  StartOptions start;
  std::vector<std::string> grid, space;
  std::string trials = "5", studies = "1", holdout = "0.2", output;
};

TuneOptions options_of(const TuneWords& words) {
  TuneOptions options;
  options.run = words.run;
  for (const std::string& text : words.grid) options.grid.push_back(plan::parse_axis(text));
  for (const std::string& text : words.space) options.space.push_back(plan::parse_axis(text));
  options.trials = parse_count(words.trials, "--trials", kTrials);
  options.studies = parse_count(words.studies, "--studies", kStudies);
  options.holdout = parse_real(words.holdout, "--holdout", kShares);
  if (options.run.task.empty()) throw UserError("no task: give --task TASK, as in --task 2a");
  if (!spec::asks_for_training(options.run)) {
    throw UserError(fmt::format("task {} trains nothing, so there is nothing to tune", options.run.task));
  }
  if (options.run.workers.size() > 1) {
    throw UserError("a tuning has one number of workers: what is best for one need not be for another");
  }
  if (!options.grid.empty() && !options.space.empty()) {
    throw UserError("--grid and --space exclude each other: give the points, or say what they are drawn from");
  }
  return options;
}

std::string command_of(const Context& context) { return fmt::format("{}", fmt::join(context.arguments, " ")); }

// The command of a run with the winner's settings: the words of this command without the options of a tuning alone.
std::string run_of_winner(const Context& context, const fs::path& winner) {
  constexpr std::array<std::string_view, 7> kWithValue = {"--grid",    "--space",  "--trials", "--studies",
                                                          "--holdout", "--output", "-o"};
  constexpr std::array<std::string_view, 2> kFlags = {"--dry-run", "--json"};
  std::vector<std::string> words = {context.command, "run"};
  const std::vector<std::string>& given = context.arguments;
  for (auto word = std::ranges::find(given, "tune") + 1; word < given.end(); ++word) {
    const std::string name = word->substr(0, word->find('='));
    const bool has_value = std::ranges::find(kWithValue, name) != kWithValue.end();
    if (has_value && name == *word) ++word;  // the value is the next word
    const bool short_with_value = name.starts_with("-o");
    if (has_value || short_with_value || std::ranges::find(kFlags, name) != kFlags.end()) continue;
    words.push_back(*word);
  }
  words.insert(words.end(), {"--set", "@" + winner.string()});
  return exec::command_line({}, words);
}

// The table, the chart and the winner, as files.
std::vector<std::string> write_files(const Context& context, const fs::path& folder, const TuneOptions& options,
                                     const std::vector<TuneTrial>& trials, const Tuning& tuning) {
  const UserUmask named;
  make_folder(folder);
  std::vector<std::string> files;
  const auto put = [&](const std::string& name, const std::string& content) {
    write_file_atomically(folder / name, content);
    files.push_back((folder / name).string());
  };
  put("tuning.csv", report::csv_of(tuning));
  put("tuning.json", report::to_json(tuning).dump(2) + "\n");
  if (tuning.winner) put("winner.set", report::winner_file(tuning, trials, command_of(context)));
  const std::vector<plan::TuneAxis>& axes = options.grid.empty() ? options.space : options.grid;
  if (axes.empty()) return files;
  const report::Chart chart = report::chart_of(tuning, trials, axes.front().key);
  if (chart.series.empty()) return files;
  if (!report::gnuplot_exists()) {
    say("no chart: gnuplot is not installed (apt-get install gnuplot-nox)");
    return files;
  }
  put("tuning.svg", report::draw(chart, report::ImageFormat::kSvg));
  put("tuning.png", report::draw(chart, report::ImageFormat::kPng));
  return files;
}

ExitCode print_plan(const Context& context, const TuneOptions& options, const KeptRuns& runs,
                    const std::vector<plan::TunePoint>& points, int64_t repeats) {
  std::vector<spec::RunSpec> missing;
  std::vector<spec::RunOptions> wanted;
  for (const plan::TunePoint& point : points) {
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
      wanted.push_back(plan::trial_options(options, point, repeat, repeats));
    }
  }
  runs.look_at(wanted, missing);
  print_dry_run(context, missing, 1, std::nullopt);
  return ExitCode::kOk;
}

ExitCode tune(const Context& context, TuneWords words) {
  if (!words.start.local) apply_cluster(context, words.start.executor_given, words.run);
  words.start.executor_given = true;
  const TuneOptions options = options_of(words);
  const std::vector<plan::TunePoint> points = plan::tune_points(options);
  const int64_t repeats = spec::count_of(options.run, &spec::RunOptions::repeat, 1);
  const InterruptGuard guard;
  outlive_readers();
  refuse_master_elsewhere(context, words.start, "a tuning");
  KeptRuns runs(context, words.start);
  for (const plan::TunePoint& point : points) runs.plan(plan::trial_options(options, point, 0, repeats));
  if (words.start.dry_run) return print_plan(context, options, runs, points, repeats);

  std::vector<TuneTrial> trials;
  for (const plan::TunePoint& point : points) {
    KeptRuns::Made made = runs.make_repeats(
        repeats, [&](int64_t repeat) { return plan::trial_options(options, point, repeat, repeats); });
    TuneTrial trial{.study = point.study,
                    .trial = point.trial,
                    .settings = point.settings,
                    .records = std::move(made.records),
                    .refused = std::move(made.refused)};
    trials.push_back(std::move(trial));
  }
  const Tuning tuning = report::analyse_tuning(trials);
  const fs::path folder = fs::absolute(words.output.empty() ? words.run.name : words.output).lexically_normal();
  const std::vector<std::string> files = write_files(context, folder, options, trials, tuning);
  if (context.json) {
    Json answer = report::to_json(tuning);
    answer["folder"] = folder.string();
    answer["files"] = files;
    answer["interrupted"] = runs.interrupted();
    print_json(answer);
  } else {
    print(report::text_of(tuning));
    print(fmt::format("{} files in {}\n", files.size(), folder.string()));
    if (tuning.winner) {
      print(fmt::format("run it:  {}\n", run_of_winner(context, folder / "winner.set")));
    }
  }
  if (runs.interrupted()) {
    say("the tuning was interrupted: type the same again to go on with what is missing");
    return ExitCode::kStopped;
  }
  return tuning.winner ? ExitCode::kOk : ExitCode::kRunFailed;
}

}  // namespace

void add_tune(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "tune", "Find the settings that reach a task's goal soonest");
  auto words = std::make_shared<TuneWords>();
  // These would leave a trial no time to a target.
  add_run_options(*verb, words->run, {"to_the_end", "fixed_batch", "compute", "share_host"});
  verb->get_option("NAME")->description("the runs are called NAME.tN-K");
  const auto axes = [&](const char* flag, std::vector<std::string>& values, const char* help) {
    verb->add_option(flag, values, help)->allow_extra_args(false)->type_name("KEY=VALUES")->group("Tuning");
  };
  axes("--grid", words->grid,
       "all combinations of these: lr=0.1,0.2, powers of ten 0.001..10, 0.001..1/7 (repeatable)");
  axes("--space", words->space, "draw points from ranges 0.001..10 and lists, quasi-randomly (repeatable)");
  verb->add_option("--trials", words->trials, "points of each study from --space (default: 5)")
      ->type_name("N")
      ->group("Tuning");
  verb->add_option("--studies", words->studies, "how often all is done, with other points and seeds (default: 1)")
      ->type_name("N")
      ->group("Tuning");
  verb->add_option("--holdout", words->holdout,
                   "share of the training set that trials are evaluated on; 0: as the task says (default: 0.2)")
      ->type_name("SHARE")
      ->group("Tuning");
  verb->add_option("-o,--output", words->output, "the folder of table, chart and winner (default: NAME)")
      ->type_name("DIR");
  verb->add_flag("--local", words->start.local, "start runs from here even when a master serves this home");
  verb->add_flag("--dry-run", words->start.dry_run, "print what would run, and start nothing");
  verb->footer(
      "Runs that have finished with the same specification are kept: type the same again to go on.\n"
      "Limits (--max-epochs, --max-time, ...) are the caps of a trial. See docs/tuning.md");
  const auto action = [words, verb](const Context& context) {
    words->start.executor_given = verb->count("--executor") > 0;
    return tune(context, *words);
  };
  act(*verb, program, action, Signals::kRead);
}

}  // namespace mlbench::cli
