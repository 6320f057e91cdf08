#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "mlbench/base/files.h"
#include "mlbench/base/growing_lines.h"
#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/remote_runs.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/home/runs.h"
#include "mlbench/report/logs.h"
#include "mlbench/report/records.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::milliseconds kLogsPoll{200}, kRemoteLogsPoll{1000};
constexpr Range kRanks{0, spec::kMostWorkers - 1};
constexpr size_t kPieceBytes = size_t{1} << 20;

// Makes lines from pieces of text. A line longer than kMostLineBytes comes as several.
class Lines {
 public:
  using Take = std::function<void(std::string_view line)>;
  void add(std::string_view text, const Take& take) {
    for (size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
      take(rest_.empty() ? text.substr(0, end) : rest_.append(text.substr(0, end)));
      rest_.clear();
    }
    rest_ += text;
    if (rest_.size() >= kMostLineBytes) take(std::exchange(rest_, ""));
  }
  // Takes the text behind the last line end as a line, too.
  void end(const Take& take) {
    if (!rest_.empty()) take(std::exchange(rest_, ""));
  }

 private:
  std::string rest_;
};

// A line of a log, which is not trusted: as it is for a file or pipe; made printable for a terminal.
std::string shown(std::string_view line) {
  static const bool terminal = is_terminal(STDOUT_FILENO);
  if (!terminal) return std::string(line);
  std::string text;
  for (size_t tab; (tab = line.find('\t')) != std::string_view::npos; line.remove_prefix(tab + 1)) {
    text += printable_lines(line.substr(0, tab)) + '\t';
  }
  return text + printable_lines(line);
}

// A log, and how much of it was shown.
struct ShownLog {
  int64_t rank = -1;  // -1: the supervisor
  int64_t segment = 1;
  LogStream stream = LogStream::kStderr;
  fs::path path = {};        // "" for a run elsewhere
  std::uintmax_t bytes = 0;  // that were read
  Lines lines = {};
};

std::string title(const ShownLog& log) {
  return log.rank < 0 ? "supervisor"
                      : fmt::format("rank {}, segment {}, {}", log.rank, log.segment, name_of(log.stream));
}

// Where the logs of a run are read from.
class LogSource {
 public:
  virtual ~LogSource() = default;
  virtual std::chrono::milliseconds poll() const = 0;
  virtual bool active() const = 0;  // whether the run is
  // The logs that hold something now.
  virtual std::vector<ShownLog> logs() const = 0;
  // The next piece of a log behind `log.bytes`; "" where there is none.
  virtual std::string next(const ShownLog& log) const = 0;
  // Gives the new lines of all logs as one. With `last`, the run is over: a last line without its end is given, too.
  virtual void combined(bool last, const Lines::Take& take) = 0;
};

class FolderLogs final : public LogSource {
 public:
  FolderLogs(fs::path run_dir, std::optional<LogStream> only) : run_dir_(std::move(run_dir)), only_(only) {}
  std::chrono::milliseconds poll() const override { return kLogsPoll; }
  bool active() const override { return record::is_active(home::current_record(run_dir_)); }
  std::vector<ShownLog> logs() const override {
    std::vector<ShownLog> found;
    for (report::LogFile& log : report::log_files(run_dir_, only_)) {
      if (bytes_in(log.path) > 0) found.push_back({log.rank, log.segment, log.stream, std::move(log.path)});
    }
    return found;
  }
  std::string next(const ShownLog& log) const override { return read_from(log.path, log.bytes, kPieceBytes); }
  void combined(bool last, const Lines::Take& take) override {
    if (!combined_) combined_.emplace(run_dir_, only_);
    combined_->read(last, INT64_MAX, [&](const report::LogFile& log, std::string_view line) {
      take(report::line_with_writer(log, line));
    });
  }

 private:
  const fs::path run_dir_;
  const std::optional<LogStream> only_;
  std::optional<report::CombinedLog> combined_;
};

class RemoteLogs final : public LogSource {
 public:
  RemoteLogs(const MasterClient& master, const std::string& name, std::optional<LogStream> only)
      : master_(master),
        name_(name),
        path_(path_of_run(name)),
        only_(only ? fmt::format("stream={}&", name_of(*only)) : "") {}
  std::chrono::milliseconds poll() const override { return kRemoteLogsPoll; }
  bool active() const override { return record::is_active(remote_record(master_, name_)); }
  std::vector<ShownLog> logs() const override {
    std::vector<ShownLog> found;
    const Json answer = master_.get(path_ + "/logs?" + only_);
    for (const Json& one : answer.at("logs")) {
      if (integer_of(one.value("bytes", Json())).value_or(0) == 0) continue;
      found.push_back(
          {.rank = integer_of(one.at("rank")).value_or(-1),
           .segment = integer_of(one.value("segment", Json())).value_or(1),
           .stream = one.at("stream") == name_of(LogStream::kStdout) ? LogStream::kStdout : LogStream::kStderr});
    }
    return found;
  }
  std::string next(const ShownLog& log) const override {
    const std::string rank = log.rank < 0 ? "supervisor" : std::to_string(log.rank);
    return master_.get_bytes(fmt::format("{}/logs/{}?stream={}&segment={}&offset={}", path_, rank, name_of(log.stream),
                                         log.segment, log.bytes));
  }
  void combined(bool, const Lines::Take& take) override {
    for (;;) {
      const auto page =
          master_.get_answer(path_ + "/logs/all?" + only_ + "cursor=" + net::http::percent_encode(cursor_));
      cursor_ = header_of(page, "X-Next-Cursor");
      Lines lines;
      lines.add(page.body, take);
      if (page.body.empty() || cursor_.empty()) break;
    }
  }

 private:
  const MasterClient& master_;
  const std::string name_, path_, only_;  // `only_` is a parameter of the query, or ""
  std::string cursor_;
};

void print_line(std::string_view line) { print_as_it_is(shown(line) + "\n"); }

// Calls `step(last)` until the run has ended, or once.
void each_poll(const LogSource& source, bool follow, const std::function<void(bool last)>& step) {
  for (bool active = true; active;) {
    active = follow && source.active();
    step(!active);
    flush_output();
    if (active) std::this_thread::sleep_for(source.poll());
  }
}

// Gives the lines behind what was shown; with `last` also a line without its end.
void more(const LogSource& source, ShownLog& log, bool last, const Lines::Take& take) {
  for (std::string text; !(text = source.next(log)).empty();) {
    log.bytes += text.size();
    log.lines.add(text, take);
  }
  if (last) log.lines.end(take);
}

// Shows all logs as one; returns whether there was a line.
bool show_combined(const Context& context, LogSource& source, std::optional<LogStream> only, bool follow) {
  std::vector<std::string> all;
  bool any = false;
  const auto take = [&](std::string_view line) {
    any = true;
    if (context.json) {
      all.emplace_back(line);
    } else {
      print_line(line);
    }
  };
  each_poll(source, follow, [&](bool last) { source.combined(last, take); });
  if (context.json) {
    const Json stream = only ? Json(name_of(*only)) : Json();
    print_json(
        Json::array({{{"rank", "all"}, {"segment", nullptr}, {"stream", stream}, {"path", nullptr}, {"lines", all}}}));
  }
  return any;
}

void follow_rank(const LogSource& source, int64_t rank) {
  std::map<std::pair<int64_t, LogStream>, ShownLog> shown;
  each_poll(source, true, [&](bool last) {
    for (const ShownLog& log : source.logs()) {
      if (log.rank != rank) continue;
      more(source, shown.try_emplace({log.segment, log.stream}, log).first->second, last, print_line);
    }
  });
}

// Shows each log (with `rank`, those of one rank) under its title; returns whether there was a log.
bool show_each(const Context& context, const LogSource& source, std::optional<int64_t> rank) {
  std::vector<ShownLog> logs = source.logs();
  if (rank) std::erase_if(logs, [&](const ShownLog& log) { return log.rank != *rank; });
  Json answer = Json::array();
  for (ShownLog& log : logs) {
    if (!context.json) {
      if (logs.size() > 1) print(fmt::format("==> {} <==\n", title(log)));
      more(source, log, true, print_line);
      continue;
    }
    std::vector<std::string> lines;
    more(source, log, true, [&](std::string_view line) { lines.emplace_back(line); });
    answer.push_back({{"rank", log.rank < 0 ? Json() : Json(log.rank)},
                      {"segment", log.rank < 0 ? Json() : Json(log.segment)},
                      {"stream", name_of(log.stream)},
                      {"path", text_or_null(log.path)},
                      {"lines", lines}});
  }
  if (context.json) print_json(answer);
  return !logs.empty();
}

struct LogsOptions {
  std::string name, rank;
  bool all = false, follow = false, only_stdout = false, only_stderr = false;
};

std::optional<LogStream> chosen_stream(const LogsOptions& options) {
  if (options.only_stdout && options.only_stderr) {
    throw UserError("--stdout and --stderr: both are shown without these options; leave out both");
  }
  if (options.only_stdout) return LogStream::kStdout;
  return options.only_stderr ? std::optional(LogStream::kStderr) : std::nullopt;
}

ExitCode logs(const Context& context, const LogsOptions& options) {
  const std::string& name = options.name;
  if (options.follow && context.json) throw UserError("logs -f prints lines as they come: leave out --json");
  if (options.all && !options.rank.empty()) throw UserError("--all is of all ranks, --rank of one: leave out either");
  const auto only = chosen_stream(options);
  std::optional<int64_t> rank;
  if (!options.rank.empty()) rank = parse_count(options.rank, "--rank", kRanks);
  const auto master = given_master(context);
  std::unique_ptr<LogSource> source;
  if (master) {
    source = std::make_unique<RemoteLogs>(*master, name, only);
  } else {
    const fs::path run_dir = report::find_run(context.home_to_read(), name);
    const int64_t workers = rank ? home::read_spec(run_dir).workers : 0;
    if (rank && *rank >= workers) {
      throw UserError(fmt::format("run '{}' has ranks 0 to {}, no rank {}", name, workers - 1, *rank));
    }
    source = std::make_unique<FolderLogs>(run_dir, only);
  }
  bool any = true;
  if (options.all || (options.follow && !rank)) {
    any = show_combined(context, *source, only, options.follow);
  } else if (options.follow) {
    follow_rank(*source, *rank);
  } else {
    any = show_each(context, *source, rank);
  }
  if (!any && !context.json) {
    say(fmt::format("run '{}' has no logs{} yet", name, only ? fmt::format(" of {}", name_of(*only)) : ""));
  }
  return ExitCode::kOk;
}

}  // namespace

void add_logs(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "logs", "What the ranks of a run wrote");
  add_master_options(*verb, program);
  auto options = std::make_shared<LogsOptions>();
  verb->add_option("NAME-K", options->name, "the run")->required();
  verb->add_flag("-f,--follow", options->follow, "go on until the run has ended (without --rank: --all)");
  verb->add_option("--rank", options->rank, "only this rank")->type_name("R");
  verb->add_flag("--stdout", options->only_stdout, "only what ranks wrote to standard output");
  verb->add_flag("--stderr", options->only_stderr, "only standard error, and what the supervisor said");
  verb->add_flag("-a,--all", options->all, "all ranks as one log, in the order of the times that lines begin with");
  act(*verb, program, [options](const Context& context) { return logs(context, *options); });
}

}  // namespace mlbench::cli
