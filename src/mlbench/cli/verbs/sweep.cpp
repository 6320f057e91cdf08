#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "mlbench/base/build_info.h"
#include "mlbench/base/choices.h"
#include "mlbench/base/clock.h"
#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/cli/clusters/defaults.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/terminal/interrupt.h"
#include "mlbench/cli/verbs/kept_runs.h"
#include "mlbench/cli/verbs/option_flags.h"
#include "mlbench/cli/verbs/start_runs.h"
#include "mlbench/cli/verbs/study_files.h"
#include "mlbench/cli/verbs/timeline_file.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/home/runs.h"
#include "mlbench/plan/plan.h"
#include "mlbench/plan/sweep_plan.h"
#include "mlbench/report/draw/page.h"
#include "mlbench/report/records.h"
#include "mlbench/report/study/measured_run.h"
#include "mlbench/report/study/study.h"
#include "mlbench/report/study/sweep.h"
#include "mlbench/report/timeline/run.h"
#include "mlbench/report/timeline/summary.h"

namespace mlbench::cli {

namespace fs = std::filesystem;
using report::Sweep;
using report::SweepAnswer;
using report::SweepPoint;
using report::SweepRequest;
using report::SweepSetting;

namespace {

constexpr Range kProcsPerNode{1, 1024};
const std::vector<std::string> kSweepFormats = {"png", "svg", "csv", "html", "markdown", "latex", "json"};
const std::vector<std::string> kOnOff = {"on", "off"};

// The options as they were given.
struct SweepWords {
  spec::RunOptions run;
  StartOptions start;
  std::vector<std::string> procs_per_node = {"1", "2", "4"}, intra_op = {"1", "2"}, inter_op = {"1"},
                           nodes = {"1", "2", "4", "8"}, lr_scaling, formats;
  std::string probe_steps = "200", output;
  bool steps_only = false;
};

plan::SweepOptions options_of(const SweepWords& words) {
  plan::SweepOptions options;
  options.run = words.run;
  const Range threads = spec::kThreadCounts;
  options.procs_per_node = plan::parse_counts(words.procs_per_node, "--procs-per-node", kProcsPerNode);
  options.intra_op = plan::parse_counts(words.intra_op, "--intra-op", threads);
  options.inter_op = plan::parse_counts(words.inter_op, "--inter-op", threads);
  options.nodes = plan::parse_counts(words.nodes, "--nodes", spec::run_option(&spec::RunOptions::workers).range);
  options.probe_steps =
      parse_count(words.probe_steps, "--probe-steps", spec::run_option(&spec::RunOptions::max_steps).range);
  for (const std::string& word : words.lr_scaling) check_choice("value of --lr-scaling", word, kOnOff);
  const auto wanted = [&](const char* word) {
    return words.lr_scaling.empty() || std::ranges::count(words.lr_scaling, word) > 0;
  };
  options.scaled = wanted("on");
  options.unscaled = wanted("off");
  if (options.run.task.empty()) throw UserError("no task: give --task TASK, as in --task mnist");
  if (!spec::asks_for_training(options.run)) {
    throw UserError(fmt::format("task {} trains nothing: 'mlbench bench collectives' measures it", options.run.task));
  }
  plan::check_lr_scaling(options, !words.lr_scaling.empty());
  return options;
}

std::vector<report::Section> sections_with_answers(const Sweep& sweep, const std::vector<report::Study>& studies) {
  std::vector<report::Section> sections;
  for (const report::Study& study : studies) sections.push_back({"", report::answer_lines(study)});
  std::ranges::move(report::sections_of(sweep), std::back_inserter(sections));
  sections.back().notes = report::findings_of(sweep);
  return sections;
}

// The page's first part shows the points; further parts show the runs over nodes as `mlbench charts` does.
report::Page sweep_page(const Sweep& sweep, const std::vector<report::Chart>& charts,
                        const std::vector<report::MeasuredRun>& runs, const report::PricedStudies& priced) {
  report::Page page;
  page.prices = priced.prices;
  page.worker = priced.worker;
  page.price_note = priced.price_note;
  page.notes = priced.notes;
  page.made = fmt::format("Made by mlbench {} ({}), {} UTC.", build_info().version, build_info().git_describe,
                          format_utc(std::chrono::system_clock::now()).substr(0, 16));
  page.studies.push_back({{{"task", sweep.task},
                           {"title", "Scaling of " + sweep.task},
                           {"lines", Json::array()},
                           {"notes", report::findings_of(sweep)}},
                          charts});
  for (const report::Study& study : priced.studies) {
    page.studies.push_back(
        {report::to_json(study, runs), report::charts_of(study, runs, {page.prices.currency, page.price_note})});
  }
  return page;
}

void write_sweep(StudyFiles& files, const Sweep& sweep, const std::vector<report::MeasuredRun>& runs,
                 const report::PricedStudies& priced) {
  const UserUmask named;
  const std::vector<report::Chart> charts = report::charts_of(sweep);
  files.write({"sweep", "Scaling of " + sweep.task, charts, sections_with_answers(sweep, priced.studies),
               report::csv_of(sweep), report::to_json(sweep)});
  if (files.wanted("html")) files.put("report.html", report::report_page(sweep_page(sweep, charts, runs, priced)));
}

// Makes the runs of a sweep that do not exist yet.
class SweepRunner {
 public:
  SweepRunner(const Context& context, const SweepWords& words, const plan::SweepOptions& options)
      : home_(context.home()),
        options_(options),
        runs_(context, words.start),
        repeats_(spec::count_of(options.run, &spec::RunOptions::repeat, 1)) {}

  bool interrupted() const { return runs_.interrupted(); }

  // Throws UserError for runs that cannot be made, before any run is made.
  void check() const {
    const int64_t most = *std::ranges::max_element(options_.nodes);
    for (const SweepSetting& setting : settings()) {
      runs_.plan(plan::setting_options(options_, setting, 0));
      runs_.plan(plan::nodes_options(options_, {setting, most, options_.scaled}, 0));
    }
  }

  std::vector<SweepSetting> settings() const {
    return report::settings_of(options_.procs_per_node, options_.intra_op, options_.inter_op);
  }

  SweepAnswer answer_setting(const SweepSetting& setting) {
    return answer({.setting = setting},
                  [&](int64_t repeat) { return plan::setting_options(options_, setting, repeat); });
  }

  SweepAnswer answer_nodes(const SweepRequest& request) {
    SweepAnswer made = answer(request, [&](int64_t repeat) { return plan::nodes_options(options_, request, repeat); });
    add_timeline(made);
    return made;
  }

  // The answer for a point from runs that exist, for --dry-run. Adds the runs that would be made to `missing`.
  // `setting` says whether it is a point on one node.
  SweepAnswer look_at(const SweepRequest& request, bool setting, std::vector<spec::RunSpec>& missing) const {
    std::vector<spec::RunOptions> wanted;
    for (int64_t repeat = 0; repeat < repeats_; ++repeat) {
      wanted.push_back(setting ? plan::setting_options(options_, request.setting, repeat)
                               : plan::nodes_options(options_, request, repeat));
    }
    return {.request = request, .records = runs_.look_at(wanted, missing)};
  }

 private:
  SweepAnswer answer(const SweepRequest& request, const std::function<spec::RunOptions(int64_t repeat)>& options_of) {
    KeptRuns::Made made = runs_.make_repeats(repeats_, options_of);
    return {.request = request, .records = std::move(made.records), .refused = std::move(made.refused)};
  }

  void add_timeline(SweepAnswer& answer) const {
    for (const record::Record& record : answer.records) {
      const fs::path run_dir = runs_dir(home_) / record.name;
      if (record.state != "finished" || !report::has_timeline(run_dir)) continue;
      try {
        report::TimelineRun run = report::read_timeline_run(run_dir, record);
        answer.timeline = report::summarize_timeline(run).at("verdict").at("text");
      } catch (const UserError& wrong) {
        say(fmt::format("the timeline of {} is left out: {}", record.name, wrong.what()));
      }
    }
  }

  const fs::path home_;
  const plan::SweepOptions& options_;
  KeptRuns runs_;
  const int64_t repeats_;
};

ExitCode print_steps(const Context& context, const plan::SweepOptions& options) {
  const std::vector<report::SweepSteps> steps = plan::steps_of(options);
  if (context.json) {
    print_json(report::to_json(steps));
  } else {
    print(report::written({report::section_of(steps)}, context.table_style()));
  }
  return ExitCode::kOk;
}

// Prints the runs that are missing, and the commands that they would start. The best setting is known only when all
// settings have been measured; until then the first one stands for it.
ExitCode print_plan(const Context& context, const plan::SweepOptions& options, const SweepRunner& runner) {
  std::vector<SweepAnswer> settings, nodes;
  std::vector<spec::RunSpec> first, second;
  for (const SweepSetting& setting : runner.settings()) {
    settings.push_back(runner.look_at({.setting = setting}, true, first));
  }
  const Sweep so_far = report::analyse_sweep(settings, {});
  const bool known = first.empty() && so_far.best;
  const SweepSetting setting = known ? so_far.settings[*so_far.best].request.setting : runner.settings().front();
  for (const SweepRequest& request : plan::node_requests(options, setting)) {
    if (!plan::same_as_scaled(options, request)) nodes.push_back(runner.look_at(request, false, second));
  }
  if (context.json) {
    print_json({{"best_is_known", known},
                {"setting", report::short_name(setting)},
                {"settings", plans_of(context, first, 1, std::nullopt)},
                {"nodes", plans_of(context, second, 1, std::nullopt)}});
    return ExitCode::kOk;
  }
  print(fmt::format("{} runs to find the best setting of one node\n", first.size()));
  print_dry_run(context, first, 1, std::nullopt);
  print(fmt::format("\n{} runs over nodes with {}{}\n", second.size(), report::short_name(setting),
                    known ? "" : ", if that is the best setting"));
  print_dry_run(context, second, 1, std::nullopt);
  return ExitCode::kOk;
}

ExitCode finish_sweep(const Context& context, const std::vector<SweepAnswer>& settings,
                      const std::vector<SweepAnswer>& nodes, bool interrupted, StudyFiles& files) {
  const Sweep sweep = report::analyse_sweep(settings, nodes);
  std::vector<report::MeasuredRun> runs;
  for (const SweepAnswer& answer : nodes) {
    for (const record::Record& record : answer.records) {
      const bool again = std::ranges::any_of(runs, [&](const auto& one) { return one.record.name == record.name; });
      if (!again && record.state == "finished") {
        runs.push_back(report::read_run_folder(runs_dir(context.home()) / record.name));
      }
    }
  }
  const report::PricedStudies priced = report::priced_studies(runs);
  write_sweep(files, sweep, runs, priced);
  if (context.json) {
    Json answer = report::to_json(sweep);
    answer["studies"] = Json::array();
    for (const report::Study& study : priced.studies) answer["studies"].push_back(report::to_json(study, runs));
    answer["folder"] = files.folder().string();
    answer["files"] = files.files();
    answer["interrupted"] = interrupted;
    print_json(answer);
  } else {
    std::vector<report::Section> sections = report::sections_of(sweep);
    for (const report::Study& study : priced.studies) {
      sections.push_back(report::section_of(study, priced.prices.currency));
    }
    if (!priced.studies.empty()) {
      sections.push_back({"", {fmt::format("Each worker is priced as {}", priced.price_note)}});
    }
    print(report::written(sections, context.table_style()) + "\n");
    for (const std::string& line : report::findings_of(sweep)) print(line + "\n");
    print(fmt::format("{} files in {}\n", files.files().size(), files.folder().string()));
  }
  if (interrupted) {
    say("the sweep was interrupted: type the same again to go on with what is missing");
    return ExitCode::kStopped;
  }
  const bool complete = sweep.best && std::ranges::all_of(sweep.nodes, &SweepPoint::finished);
  return complete ? ExitCode::kOk : ExitCode::kRunFailed;
}

ExitCode sweep(const Context& context, SweepWords words) {
  if (!words.start.local && !words.steps_only) apply_cluster(context, words.start.executor_given, words.run);
  words.start.executor_given = true;
  const plan::SweepOptions options = options_of(words);
  if (words.steps_only) return print_steps(context, options);
  const InterruptGuard guard;
  outlive_readers();
  refuse_master_elsewhere(context, words.start, "a sweep");
  StudyFiles files(words.formats, kSweepFormats, words.output.empty() ? words.run.name : words.output);
  SweepRunner runner(context, words, options);
  runner.check();
  if (words.start.dry_run) return print_plan(context, options, runner);

  std::vector<SweepAnswer> settings, nodes;
  for (const SweepSetting& setting : runner.settings()) {
    if (!runner.interrupted()) settings.push_back(runner.answer_setting(setting));
  }
  const Sweep so_far = report::analyse_sweep(settings, {});
  if (so_far.best && !runner.interrupted()) {
    for (const SweepRequest& request : plan::node_requests(options, so_far.settings[*so_far.best].request.setting)) {
      if (runner.interrupted()) break;
      if (plan::same_as_scaled(options, request)) {
        nodes.push_back(nodes.back());
        nodes.back().request = request;
      } else {
        nodes.push_back(runner.answer_nodes(request));
      }
    }
  }
  return finish_sweep(context, settings, nodes, runner.interrupted(), files);
}

}  // namespace

void add_sweep(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "sweep", "Find the best setting of one node, and how it scales over nodes");
  auto words = std::make_shared<SweepWords>();
  words->run.name = "sweep";
  // With other runs on the hosts, times are useless.
  add_run_options(*verb, words->run,
                  {"workers", "threads_per_worker", "inter_op_threads", "ranks_per_host", "to_the_end", "share_host"});
  verb->get_option("NAME")->required(false)->description("the runs are called NAME.SETTING-K (default: sweep)");
  const auto list = [&](const char* flag, std::vector<std::string>& values, const char* help) {
    verb->add_option(flag, values, help)->delimiter(',')->allow_extra_args(false)->type_name("LIST")->group("Sweep");
  };
  list("--procs-per-node", words->procs_per_node, "processes of a node to try (default: 1,2,4)");
  list("--intra-op", words->intra_op, "threads of each process to try (default: 1,2)");
  list("--inter-op", words->inter_op, "threads for operations beside each other to try (default: 1)");
  list("--nodes", words->nodes, "numbers of nodes for the best setting (default: 1,2,4,8)");
  list("--lr-scaling", words->lr_scaling, "over nodes: on (as the task scales it), off, or both (default)");
  list("--format", words->formats, "of png, svg, csv, html, markdown, latex, json (default: all)");
  verb->add_option("--probe-steps", words->probe_steps, "steps of each setting's run (default: 200)")
      ->type_name("N")
      ->group("Sweep");
  verb->add_flag("--steps-only", words->steps_only, "compute how many steps cover the epochs, and run nothing")
      ->group("Sweep");
  verb->add_option("-o,--output", words->output, "the folder of tables and charts (default: NAME)")->type_name("DIR");
  verb->add_flag("--local", words->start.local, "start runs from here even when a master serves this home");
  verb->add_flag("--dry-run", words->start.dry_run, "print what would run, and start nothing");
  add_timeline_option(*verb, words->start.timeline);
  add_wide_option(*verb, program);
  verb->footer(
      "Runs that have finished with the same specification are kept: type the same again to go on.\n"
      "Limits (--max-epochs, --max-time, ...) are those of the runs over nodes. See docs/scaling-exercise.md");
  const auto action = [words, verb](const Context& context) {
    words->start.executor_given = verb->count("--executor") > 0;
    return sweep(context, *words);
  };
  act(*verb, program, action, Signals::kRead);
}

}  // namespace mlbench::cli
