#include "mlbench/cli/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "mlbench/base/build_info.h"
#include "mlbench/base/choices.h"
#include "mlbench/base/log.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/program_start.h"
#include "mlbench/base/signals.h"
#include "mlbench/base/system_error.h"
#include "mlbench/catalog/control/catalog.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/home/runs.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::cli {

namespace {

// `mlbench supervise ...`: the process that owns a run. It is internal: supervise/ writes and reads its arguments.
int supervise_run(const std::vector<std::string>& arguments) {
  set_up_logging("supervisor");
  const supervise::SupervisorOptions options = supervise::options_from_arguments(arguments);
  const spec::RunSpec run = home::read_spec(options.run_dir);
  const auto executor = catalog::make_executor(run.executor, run.engine);
  return supervise::supervise(options, *executor);
}

// `mlbench withdraw --run-dir DIR`: ends the job of an engine whose supervisor is gone. It is internal, too.
int withdraw_run(const std::vector<std::string>& arguments) {
  set_up_logging("withdraw");
  if (arguments.size() != 2 || arguments[0] != "--run-dir") throw UserError("withdraw: --run-dir DIR is needed");
  const spec::RunSpec run = home::read_spec(arguments[1]);
  const auto executor = catalog::make_executor(run.executor, run.engine);
  if (supervise::withdraw_job(arguments[1], *executor)) print("withdrawn\n");
  return static_cast<int>(ExitCode::kOk);
}

ExitCode print_version(const Context& context) {
  const BuildInfo& build = build_info();
  if (context.json) {
    print_json({{"version", build.version},
                {"git_describe", build.git_describe},
                {"build_id", build.build_id},
                {"compiler", build.compiler},
                {"build_type", build.build_type},
                {"libraries", build.libraries}});
  } else {
    print(fmt::format("mlbench {} ({})\n", build.version, build.git_describe));
  }
  return ExitCode::kOk;
}

// The innermost verb that was recognised, or the app itself where there is none. Appends the names of verbs to `path`:
// "mlbench data fetch".
const CLI::App* innermost(const CLI::App& app, std::string& path) {
  const CLI::App* current = &app;
  while (!current->get_subcommands().empty()) {
    current = current->get_subcommands().front();
    path += " " + current->get_name();
  }
  return current;
}

// CLI11's message, with the word that may have been meant and what to type next.
std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  std::string path = "mlbench";
  const CLI::App* verb = innermost(app, path);
  std::string message = error.what();
  const std::vector<std::string> extras = verb->remaining(true).empty() ? app.remaining(true) : verb->remaining(true);
  const bool needs_verb =
      dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && verb->get_require_subcommand_min() > 0;
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr || (needs_verb && !extras.empty())) {
    const std::string unknown = extras.empty() ? "" : extras.front();
    std::vector<std::string> known;
    const bool option = unknown.starts_with('-');
    if (option) {
      for (const CLI::Option* one : verb->get_options()) {
        for (const std::string& name : one->get_lnames()) known.push_back("--" + name);
      }
    } else {
      for (const CLI::App* one : verb->get_subcommands([](const CLI::App* a) { return !a->get_group().empty(); })) {
        known.push_back(one->get_name());
      }
    }
    const bool is_verb = !option && !known.empty();
    message = is_verb ? fmt::format("unknown verb '{}' of {}{}", unknown, path, valid_text(unknown, known))
                      : fmt::format("{} '{}' is not expected by {}", option ? "option" : "argument", unknown, path);
    const auto meant = is_verb ? std::vector<std::string>() : nearest(unknown, known, 1);
    if (!meant.empty()) message += fmt::format("; did you mean '{}'?", meant.front());
  } else if (needs_verb) {
    std::vector<std::string> known;
    for (const CLI::App* one : verb->get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(one->get_name());
    message = fmt::format("{} needs one of {}", path, fmt::join(known, ", "));
  }
  return fmt::format("{} (see {} --help)", message, path);
}

// Writes "--requeue[=N]" for a flag that may have a value, where CLI11 writes "--requeue{3} N".
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, is_positional);
    const size_t value = name.find('{');
    return value == std::string::npos ? name : fmt::format("{}[={}]", name.substr(0, value), option->get_type_name());
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const bool flag = CLI::Formatter::make_option_name(option, false).find('{') != std::string::npos;
    return flag ? "" : CLI::Formatter::make_option_opts(option);
  }
};

ExitCode run(int argc, char** argv) {
  CLI::App app("Benchmarks of distributed machine learning: tasks with a goal, measured over worker counts.",
               "mlbench");
  Program program;
  if (std::string_view(argv[0]).find('/') != std::string_view::npos) program.context.command = argv[0];
  program.context.arguments.assign(argv, argv + argc);
  bool version = false;
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->column_width(36);
  app.add_flag("--version", version, "print the version");
  app.add_flag("--json", program.context.json, "with --version: print one JSON value");
  for (const auto add :
       {add_run,      add_resume, add_stop,   add_status,    add_watch,          add_logs,           add_note,
        add_download, add_delete, add_serve,  add_dashboard, add_create_cluster, add_delete_cluster, add_clusters,
        add_list,     add_data,   add_result, add_charts,    add_compare,        add_score,          add_evaluate,
        add_bench,    add_sweep,  add_study,  add_timeline,  add_schedule,       add_doctor,         add_tune}) {
    add(app, program);
  }
  app.require_subcommand(0, 1);  // words behind a verb are no other verb: `list data` lists
  app.footer(
      "Start with:  mlbench list tasks\n"
      "             mlbench run first 1 2 --task TASK --light\n"
      "Exit codes:  0 done, 1 internal error, 2 wrong input, 3 communication, 4 file or disk,\n"
      "             5 a run failed, 130 stopped");
  // The words behind "--" are the command line of a custom run's program.
  const auto begin = argv, end = argv + argc;
  const bool running = std::find(begin, end, std::string_view("run")) == argv + std::min(argc, 1);
  const auto cut = running ? std::find(begin, end, std::string_view("--")) : end;
  if (cut != end) program.behind.emplace(cut + 1, end);
  try {
    app.parse(static_cast<int>(cut - begin), argv);
  } catch (const CLI::Success& success) {  // --help
    app.exit(success);
    return ExitCode::kOk;
  } catch (const CLI::ParseError& error) {
    throw UserError(explain(app, error));
  }
  if (version) return print_version(program.context);
  if (!program.action) {
    tell(stderr, app.help());
    return ExitCode::kUserError;
  }
  if (!program.reads_signals) release_end_signals();
  return program.action();
}

}  // namespace

namespace {

// Words to add to an error message: "" unless the working folder is gone.
const char* what_else_is_wrong() {
  return working_folder_is_gone() ? "; the folder in which this command was started is gone: change to another" : "";
}

// What the error says; of the standard library's about a file, the file and the reason alone.
std::string words_of(const std::exception& error) {
  const auto* about_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  if (about_file == nullptr || about_file->path1().empty()) return error.what();
  return fmt::format("{}: {}", about_file->path1().string(), about_file->code().message());
}

}  // namespace

int run_program(int argc, char** argv) {
  try {
    begin_program({.held = end_signals()});
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (!arguments.empty() && arguments.front() == "supervise") {
      return supervise_run({arguments.begin() + 1, arguments.end()});
    }
    if (!arguments.empty() && arguments.front() == "withdraw") {
      return withdraw_run({arguments.begin() + 1, arguments.end()});
    }
    const ExitCode code = run(argc, argv);
    flush_output();
    return static_cast<int>(code);
  } catch (const DiskFull& error) {
    tell(stderr, fmt::format("mlbench: error: {}; free space there, and type the same again\n",
                             printable_lines(error.what(), "")));
    return static_cast<int>(exit_code_of(error));
  } catch (const std::exception& error) {
    tell(stderr, fmt::format("mlbench: error: {}{}\n", printable_lines(words_of(error), ""), what_else_is_wrong()));
    return static_cast<int>(exit_code_of(error));
  }
}

}  // namespace mlbench::cli
