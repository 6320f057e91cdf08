#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include "mlbench/base/clock.h"
#include "mlbench/base/files.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/system_error.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/follow.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/remote_runs.h"
#include "mlbench/cli/terminal/collectives_view.h"
#include "mlbench/cli/terminal/interrupt.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/home/runs.h"
#include "mlbench/home/summary.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/report/records.h"
#include "mlbench/report/run_figures.h"
#include "mlbench/report/summary.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::milliseconds kWatchPoll{1000};
constexpr std::chrono::milliseconds kNap{50};  // the time within which an interrupt or another size is seen
constexpr size_t kMostRuns = 200;

// ---- where runs are read from ---------------------------------------------------------------------------------------

bool is_active_summary(const Json& run) { return record::is_active_state(report::text(run, "/state")); }

class Source {
 public:
  virtual ~Source() = default;
  virtual record::Record record(const std::string& name) = 0;  // throws UserError when there is no such run
  virtual std::vector<Json> summaries() = 0;  // RunSummary (api/openapi.json) of the newest runs, oldest first
};

class RemoteSource final : public Source {
 public:
  explicit RemoteSource(MasterClient master) : master_(std::move(master)) {}
  record::Record record(const std::string& name) override { return remote_record(master_, name); }
  std::vector<Json> summaries() override {
    auto runs = master_.get(fmt::format("/runs?limit={}", kMostRuns)).at("runs").get<std::vector<Json>>();
    std::reverse(runs.begin(), runs.end());
    return runs;
  }

 private:
  const MasterClient master_;
};

class FolderSource final : public Source {
 public:
  explicit FolderSource(fs::path home) : home_(std::move(home)) {}
  record::Record record(const std::string& name) override {
    return home::current_record(report::find_run(home_, name));
  }
  std::vector<Json> summaries() override {
    if (std::vector<std::string> names = report::run_names(home_); names != names_) {  // ids of runs never change
      newest_ = report::list_runs(home_);
      if (newest_.size() > kMostRuns) newest_.erase(newest_.begin(), newest_.end() - kMostRuns);
      names_ = std::move(names);
    }
    std::map<fs::path, Json> known;
    std::vector<Json> runs;
    for (const fs::path& folder : newest_) {
      try {
        // A run that is over changes only when it is resumed, and then it is active for a while.
        const auto before = known_.find(folder);
        const bool same = before != known_.end() && !is_active_summary(before->second) && !home::is_active_run(folder);
        runs.push_back(same ? before->second : home::summary_of(home::current_record(folder)));
        known[folder] = runs.back();
      } catch (const std::exception& error) {
        const char* state = is_transient(error) ? "unreadable" : "damaged";
        runs.push_back({{"name", folder.filename().string()}, {"state", state}, {"failure", error.what()}});
      }
    }
    known_ = std::move(known);
    return runs;
  }

 private:
  const fs::path home_;
  std::vector<std::string> names_;  // of all runs when newest_ was read
  std::vector<fs::path> newest_;
  std::map<fs::path, Json> known_;
};

// ---- what is shown --------------------------------------------------------------------------------------------------

// A run as a line: "r-1  running  train 12.3 s  Prec@1 84.21".
std::string plain_line(const Json& run) {
  std::string line = fmt::format("{}  {}", run.value("name", ""), run.value("state", ""));
  if (const auto train = report::number(run, "/train_s"); train && *train > 0) {
    line += fmt::format("  train {} s", report::format_seconds(train));
  }
  if (const std::string evaluation = report::text(run, "/evaluation"); !evaluation.empty()) line += "  " + evaluation;
  if (const auto goal = report::number(run, "/time_to_goal_s")) {
    line += fmt::format("  goal reached after {} s", report::format_seconds(goal));
  }
  if (const std::string failure = report::text(run, "/failure"); !failure.empty()) line += "  " + failure;
  return printable_lines(line, "");
}

// A text that changes when a new plain line is due: with state, evaluation or failure, but not with the clock alone.
std::string stage_of(const Json& run) {
  return run.value("state", "") + "|" + report::text(run, "/evaluation") + "|" + report::text(run, "/failure");
}

std::string table_of(std::vector<Json> runs, size_t most_rows, const report::TableStyle& style) {
  if (runs.size() > most_rows) runs.erase(runs.begin(), runs.end() - static_cast<std::ptrdiff_t>(most_rows));
  return report::summaries_table(runs,
                                 {"name",
                                  "state",
                                  {"task", 2},
                                  {"workers", 3},
                                  {"train_s", 3},
                                  {"samples_per_s", 2},
                                  {"evaluation", 1},
                                  {"time_to_goal_s", 1}},
                                 style);
}

struct ScreenSize {
  int rows = terminal_rows(STDOUT_FILENO), columns = terminal_width(STDOUT_FILENO);
  bool operator==(const ScreenSize&) const = default;
};

// The beginning of a line that fits: a line that goes on in the next row would push the last ones off the screen.
std::string fitting(std::string line, int columns) {
  while (!line.empty() && report::display_width(line) > static_cast<size_t>(columns)) {
    while ((line.back() & 0xC0) == 0x80) line.pop_back();  // the further bytes of a character
    line.pop_back();
  }
  return line;
}

// Draws whole screens, each over the one before.
class Screen {
 public:
  // `wide`: lines that are too long go on in the next row.
  explicit Screen(bool wide) : wide_(wide) {}
  void draw(const std::string& text) {
    const ScreenSize size;
    const int rows = size.rows - 1;
    std::string out = "\x1b[H";
    int row = 0;
    for (size_t begin = 0; begin < text.size() && row < rows; ++row) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string line = printable_lines(text.substr(begin, end - begin));
      out += (wide_ ? line : fitting(line, size.columns)) + "\x1b[K\n";
      begin = end + 1;
    }
    print_as_it_is((first_ ? "\x1b[2J" : "") + out + "\x1b[J");
    flush_output();
    first_ = false;
  }

 private:
  const bool wide_;
  bool first_ = true;
};

// Waits until the next look, or until the terminal has another size.
void nap() {
  const ScreenSize before;
  for (auto left = kWatchPoll; left > kNap && InterruptGuard::count() == 0 && ScreenSize() == before; left -= kNap)
    std::this_thread::sleep_for(kNap);
}

ExitCode watch_run(const Context& context, Source& source, const std::string& name) {
  const bool terminal = !context.json && is_terminal(STDOUT_FILENO);
  Screen screen(context.wide);
  CollectivesView rows(context.json ? RowFormat::kNone : RowFormat::kTable);
  std::string stage, line;
  while (InterruptGuard::count() == 0) {
    const record::Record record = source.record(name);
    const Json summary = home::summary_of(record);
    if (record.collectives && !context.json) {
      if (record::is_active(record)) {
        rows.update(record);
      } else {
        rows.finish(record);
        print(plain_line(summary) + "\n");
      }
    } else if (terminal) {
      screen.draw(fmt::format("{} UTC, Ctrl-C ends the view\n\n{}",
                              format_utc(std::chrono::system_clock::now()).substr(11, 8),
                              report::run_details(record, context.table_style())));
    } else if (context.json) {
      if (summary.dump() != line) print_json(summary, -1);
      line = summary.dump();
    } else if (stage_of(summary) != stage) {
      print(plain_line(summary) + "\n");
      stage = stage_of(summary);
    }
    flush_output();
    if (!record::is_active(record)) return exit_code_of_runs({record});
    nap();
  }
  return ExitCode::kOk;
}

ExitCode watch_all(const Context& context, Source& source) {
  const bool terminal = !context.json && is_terminal(STDOUT_FILENO);
  Screen screen(context.wide);
  std::map<std::string, std::string> shown;
  while (InterruptGuard::count() == 0) {
    const std::vector<Json> runs = source.summaries();
    if (terminal) {
      const auto active = std::ranges::count_if(runs, is_active_summary);
      const int screen_rows = terminal_rows(STDOUT_FILENO);
      const size_t rows = screen_rows > 8 ? static_cast<size_t>(screen_rows) - 6 : 18;
      screen.draw(fmt::format("{} UTC, {} of {} runs active, Ctrl-C ends the view\n\n{}",
                              format_utc(std::chrono::system_clock::now()).substr(11, 8), active, runs.size(),
                              table_of(runs, rows, context.table_style())));
    } else {
      for (const Json& run : runs) {
        std::string& before = shown[run.value("name", "")];
        const std::string now = context.json ? run.dump(-1, ' ', false, Json::error_handler_t::replace) : stage_of(run);
        if (now != before && context.json) print_json(run, -1);
        if (now != before && !context.json) print(plain_line(run) + "\n");
        before = now;
      }
    }
    flush_output();
    nap();
  }
  return ExitCode::kOk;
}

ExitCode watch(const Context& context, const std::string& name) {
  const InterruptGuard guard;
  std::unique_ptr<Source> source;
  if (auto master = given_master(context)) {
    source = std::make_unique<RemoteSource>(std::move(*master));
  } else {
    source = std::make_unique<FolderSource>(context.home_to_read());
  }
  return name.empty() ? watch_all(context, *source) : watch_run(context, *source, name);
}

}  // namespace

void add_watch(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "watch", "A live view of all runs, or of one until it is over");
  add_master_options(*verb, program);
  add_wide_option(*verb, program);
  auto name = std::make_shared<std::string>();
  verb->add_option("NAME-K", *name, "the run (default: all)");
  verb->footer(
      "On a terminal the view is redrawn once a second, and when the terminal has another size. Elsewhere each change\n"
      "is a line, with --json a JSON object in one line (RunSummary in api/openapi.json). Of a benchmark of\n"
      "collectives each row is printed as it comes, on both.\n"
      "Exit code: as that of the run; 0 after Ctrl-C, which stops no run.");
  act(
      *verb, program, [name](const Context& context) { return watch(context, *name); }, Signals::kRead);
}

}  // namespace mlbench::cli
