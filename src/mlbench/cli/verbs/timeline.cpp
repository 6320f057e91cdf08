#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "mlbench/cli/context.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/remote_runs.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/home/runs.h"
#include "mlbench/report/records.h"
#include "mlbench/report/timeline/summary.h"
#include "mlbench/report/timeline/trace.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

ExitCode export_trace(const Context& context, const std::string& name, const std::string& output) {
  write_file_of_run(context, {"trace", ".timeline.json", "/timeline", report::write_trace}, name, output);
  if (!context.json) say("to look at it: open the file in https://ui.perfetto.dev or chrome://tracing");
  return ExitCode::kOk;
}

// The summary of a run's timeline, or of a trace that was exported. A text that looks like a file's name, or is one, is
// no run's name.
Json summary_of(const Context& context, const std::string& given) {
  std::error_code error;
  if (given.find('/') != std::string::npos || given.ends_with(".json") || fs::is_regular_file(given, error)) {
    return report::read_trace_summary(given);
  }
  if (const auto master = given_master(context)) return master->get(path_of_run(given) + "/timeline/summary");
  const fs::path run_dir = report::find_run(context.home_to_read(), given);
  report::TimelineRun run = report::read_timeline_run(run_dir, home::current_record(run_dir));
  return report::summarize_timeline(run);
}

ExitCode summary(const Context& context, const std::string& given) {
  const Json found = summary_of(context, given);
  const std::string text = report::timeline_summary_text(found);  // also for JSON, since this checks the summary
  if (context.json) {
    print_json(found);
  } else {
    print(text);
  }
  return ExitCode::kOk;
}

}  // namespace

void add_timeline(CLI::App& app, Program& program) {
  CLI::App* group = app.add_subcommand("timeline", "What each rank did when, of runs with --timeline");
  group->require_subcommand(1);
  CLI::App* exported =
      add_verb(*group, program, "export", "Write a run's timeline as a trace for Perfetto or Chromium");
  add_master_options(*exported, program);
  auto name = std::make_shared<std::string>(), output = std::make_shared<std::string>();
  exported->add_option("NAME-K", *name, "the run")->required();
  exported->add_option("-o,--output", *output, "the trace (default: NAME-K.timeline.json)")->type_name("FILE");
  act(*exported, program, [name, output](const Context& context) { return export_trace(context, *name, *output); });
  CLI::App* summed = add_verb(*group, program, "summary", "Say who waits for whom, and what the time goes into");
  add_master_options(*summed, program);
  auto given = std::make_shared<std::string>();
  summed->add_option("NAME-K|FILE", *given, "the run, or a trace that was exported")->required();
  summed->footer("What the figures mean: docs/timeline.md");
  act(*summed, program, [given](const Context& context) { return summary(context, *given); });
}

}  // namespace mlbench::cli
