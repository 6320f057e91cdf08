#include "mlbench/cli/context.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/system_error.h"
#include "mlbench/catalog/programs/programs.h"

namespace mlbench::cli {

std::filesystem::path Context::home() const { return resolve_home(home_option); }

std::filesystem::path Context::home_to_read() const { return resolve_home(home_option, HomeUse::kRead); }

std::filesystem::path Context::worker() const {
  if (const auto given = environment_variable(variables::kWorker)) return std::filesystem::absolute(*given);
  return program_path().parent_path() / catalog::programs().front().name;
}

std::filesystem::path Context::worker_with(std::string_view framework) const {
  return catalog::path_of(catalog::program_with(framework), worker());
}

CLI::App* add_verb(CLI::App& app, Program& program, const std::string& name, const std::string& description) {
  CLI::App* verb = app.add_subcommand(name, description);
  verb->add_option("--home", program.context.home_option,
                   fmt::format("folder of runs, data and caches (default: {}, or mlbench below XDG_DATA_HOME)",
                               variables::kHome))
      ->type_name("DIR");
  verb->add_flag("--json", program.context.json, "print one JSON value");
  return verb;
}

namespace {

constexpr struct NamedFormat {
  const char* name;
  report::TableFormat format;
} kTableFormats[] = {{"text", report::TableFormat::kText},
                     {"markdown", report::TableFormat::kMarkdown},
                     {"latex", report::TableFormat::kLatex},
                     {"csv", report::TableFormat::kCsv}};

}  // namespace

report::TableStyle Context::table_style() const {
  report::TableStyle style{row_named(kTableFormats, "format", format).format};
  if (!wide && is_terminal(STDOUT_FILENO)) style.width = terminal_width(STDOUT_FILENO);
  return style;
}

void add_wide_option(CLI::App& verb, Program& program) {
  verb.add_flag("--wide", program.context.wide, "tables with all columns, however narrow the terminal is");
}

void add_table_options(CLI::App& verb, Program& program) {
  const std::vector<std::string> names = names_of(kTableFormats);
  verb.add_option("--format", program.context.format,
                  fmt::format("of tables: {} (default: text)", fmt::join(names, ", ")))
      ->excludes("--json")
      ->type_name("FORMAT");
  add_wide_option(verb, program);
}

void act(CLI::App& verb, Program& program, std::function<ExitCode(const Context& context)> action, Signals signals) {
  verb.callback([&program, action = std::move(action), signals] {
    program.reads_signals = signals == Signals::kRead;
    program.action = [&program, action] { return action(program.context); };
  });
}

void print(std::string_view text) { print_as_it_is(printable_lines(text, "")); }

void print_as_it_is(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) flush_output();
}

void print_json(const Json& value, int indent) {
  print_as_it_is(printable_json(value.dump(indent, ' ', false, Json::error_handler_t::replace)) + "\n");
}

namespace {

bool readers_are_outlived = false;

void reader_has_left() {
  if (!readers_are_outlived) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  if (std::freopen("/dev/null", "w", stdout) == nullptr) throw_system_error("cannot open /dev/null", errno);
}

}  // namespace

void flush_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  if (errno == EPIPE) return reader_has_left();
  throw_system_error("cannot write to standard output", errno);
}

void outlive_readers() { readers_are_outlived = true; }

void tell(std::FILE* out, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), out);
  std::fflush(out);
}

void say(std::string_view text) { tell(stderr, fmt::format("mlbench: {}\n", printable_lines(text, ""))); }

void require_worker(const Context& context, std::string_view framework) {
  const std::filesystem::path worker = context.worker_with(framework);
  if (std::filesystem::exists(worker)) return;
  throw UserError(fmt::format("there is no worker program at {}: {}", worker.string(),
                              catalog::advice_for(catalog::program_with(framework))));
}

bool is_terminal(int fd) { return isatty(fd) == 1; }

bool colours(int fd) { return is_terminal(fd) && !environment_variable("NO_COLOR"); }

int terminal_width(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

int terminal_rows(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 1 ? size.ws_row : 24;
}

}  // namespace mlbench::cli
