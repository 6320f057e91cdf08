#pragma once

// What all verbs share: the home, the ways to answer, and the terminal.

#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/base/numbers.h"
#include "mlbench/report/draw/table.h"

namespace CLI {
class App;
}

namespace mlbench::cli {

struct Context {
  std::optional<std::string> home_option;
  bool json = false;                                         // standard output gets one JSON value and nothing else
  std::optional<std::string> url_option, token_file_option;  // -u and --token-file: a master elsewhere
  std::string command = "mlbench";     // this program as the user called it, for hints what to type next
  std::vector<std::string> arguments;  // the command line, with the program's name first
  std::string format = "text";         // of tables: text, markdown, latex or csv
  bool wide = false;                   // tables show all columns, however narrow the terminal is

  std::filesystem::path home() const;          // resolve_home()
  std::filesystem::path home_to_read() const;  // resolve_home() for verbs that write nothing
  std::filesystem::path worker() const;        // MLBENCH_WORKER, or mlbench-worker beside this program
  // Where the program lies that has the framework (catalog/programs).
  std::filesystem::path worker_with(std::string_view framework) const;
  // How tables on standard output look. Throws UserError for an unknown `format`.
  report::TableStyle table_style() const;
};

// What verbs share with run_program(). The callback of the verb that was called sets `action`, which is run after
// parsing; its result is the exit code.
struct Program {
  Context context;
  std::optional<std::vector<std::string>> behind;  // words behind "--" of the verb `run`: a custom run's command
  std::function<ExitCode()> action;
  // Whether the action handles SIGINT and SIGTERM itself, from its first instruction (terminal/interrupt.h).
  bool reads_signals = false;
};

// Adds a subcommand with the options --home and --json.
CLI::App* add_verb(CLI::App& app, Program& program, const std::string& name, const std::string& description);

// Adds --wide to a verb that prints tables, or --format and --wide to one that prints nothing else.
void add_wide_option(CLI::App& verb, Program& program);
void add_table_options(CLI::App& verb, Program& program);

// Sets what a verb does once it is called. kEndIt: SIGINT and SIGTERM end the program; kRead: the action handles them.
enum class Signals { kEndIt, kRead };
void act(CLI::App& verb, Program& program, std::function<ExitCode(const Context& context)> action,
         Signals signals = Signals::kEndIt);

// ---- answers -------------------------------------------------------------------------------------------------------

// These write to standard output. They throw IoError when that cannot be written, at the latest in flush_output().
// print() writes lines for people, made printable (printable_lines), so that no text can control the terminal.
void print(std::string_view text);
// Writes text for programs, or with colours. Precondition: all untrusted texts in it were made printable.
void print_as_it_is(std::string_view text);
void print_json(const Json& value, int indent = 2);
// Where the reader of a pipe has left, they end the program without a word, as SIGPIPE does.
void flush_output();
// From this call on, a reader that leaves ends the printing alone: what a verb began, such as runs, goes on.
void outlive_readers();
// Writes a hint, which is no answer, to `out` (as a rule standard error). Where `out` cannot be written (a full disk, a
// closed pipe), the hint is lost without an error.
void tell(std::FILE* out, std::string_view text);
// Writes a diagnostic to standard error: "mlbench: TEXT".
void say(std::string_view text);

bool is_terminal(int fd);
bool colours(int fd);        // `fd` is a terminal, and NO_COLOR is not set
int terminal_width(int fd);  // 80 when unknown
int terminal_rows(int fd);   // 24 when unknown

// Throws UserError, with what to do, where there is no worker program with the framework.
void require_worker(const Context& context, std::string_view framework);

}  // namespace mlbench::cli
