#pragma once

// What every verb shares: the home, how to answer, and the terminal.

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

namespace CLI {
class App;
}

namespace mlbench::cli {

struct Context {
  std::optional<std::string> home_option;
  bool json = false;                                         // one JSON value on standard output, nothing else
  std::optional<std::string> url_option, token_file_option;  // of a master elsewhere
  std::string command = "mlbench";     // this program as the user called it, for what to type next
  std::vector<std::string> arguments;  // as it was called, its name first

  std::filesystem::path home() const;          // resolve_home()
  std::filesystem::path home_to_read() const;  // the same where nothing is written
  std::filesystem::path worker() const;        // MLBENCH_WORKER, or mlbench-worker beside this program
};

// A verb adds itself to the app; its callback sets `action`, which main runs. The action's result is the exit code.
struct Program {
  Context context;
  std::optional<std::vector<std::string>> behind;  // words behind "--" of the verb run: the command of a custom run
  std::function<ExitCode()> action;
  // The action acts on SIGINT and SIGTERM itself (terminal/interrupt.h), from its first instruction.
  bool reads_signals = false;
};

// A subcommand with --home and --json.
CLI::App* add_verb(CLI::App& app, Program& program, const std::string& name, const std::string& description);

// What a verb does once it is called. Signals::kRead: it acts on SIGINT and SIGTERM itself (Program::reads_signals).
enum class Signals { kEndIt, kRead };
void act(CLI::App& verb, Program& program, std::function<ExitCode(const Context& context)> action,
         Signals signals = Signals::kEndIt);

// ---- answers -------------------------------------------------------------------------------------------------------

// Standard output. IoError when it cannot be written (checked at the latest by flush_output()).
// Lines for people: text of others does nothing to a terminal (printable_lines).
void print(std::string_view text);
// What programs read, or what is coloured: its texts were looked at.
void print_as_it_is(std::string_view text);
void print_json(const Json& value, int indent = 2);
void flush_output();
// What helps and is no answer, to standard error as a rule. Where it cannot be written (a full disk, a closed pipe), it
// is lost, and nothing else is.
void tell(std::FILE* out, std::string_view text);
// A diagnostic on standard error: "mlbench: TEXT".
void say(std::string_view text);

bool is_terminal(int fd);
bool colours(int fd);        // a terminal, and NO_COLOR is not set
int terminal_width(int fd);  // 80 when unknown
int terminal_rows(int fd);   // 24 when unknown

// UserError, with what to do, where there is no worker program.
void require_worker(const Context& context);

}  // namespace mlbench::cli
