#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "mlbench/base/files.h"
#include "mlbench/base/growing_lines.h"
#include "mlbench/base/input.h"
#include "mlbench/base/printable.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/runs.h"
#include "mlbench/cli/verbs.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/logs.h"
#include "mlbench/report/records.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

using report::LogFile;

constexpr std::chrono::milliseconds kLogsPoll{200}, kRemoteLogsPoll{1000};
constexpr Range kRanks{0, spec::kMostWorkers - 1};

std::vector<LogFile> log_files(const fs::path& run_dir, std::optional<int64_t> only_rank) {
  std::vector<LogFile> files = report::log_files(run_dir);
  std::error_code error;
  std::erase_if(files, [&](const LogFile& file) {
    if (only_rank) return file.rank != *only_rank;
    return file.rank < 0 && fs::file_size(file.path, error) == 0;
  });
  return files;
}

std::string title(const LogFile& file) {
  return file.rank < 0 ? "supervisor" : fmt::format("rank {}, segment {}", file.rank, file.segment);
}

constexpr size_t kPieceBytes = size_t{1} << 20;

// Makes lines of what comes piece by piece. One that is longer than kMostLineBytes comes as several.
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
  // What comes behind the last line end is a line, too.
  void end(const Take& take) {
    if (!rest_.empty()) take(std::exchange(rest_, ""));
  }

 private:
  std::string rest_;
};

// What a script or a stranger on its port wrote: into a file or pipe as it is, on a terminal nothing that moves it.
std::string shown(std::string_view line) {
  static const bool terminal = is_terminal(STDOUT_FILENO);
  if (!terminal) return std::string(line);
  std::string text;
  for (size_t tab; (tab = line.find('\t')) != std::string_view::npos; line.remove_prefix(tab + 1)) {
    text += printable_lines(line.substr(0, tab)) + '\t';
  }
  return text + printable_lines(line);
}

// The lines of all logs as one; with `follow` until the run has ended.
void combined_logs(const fs::path& run_dir, bool follow, const Lines::Take& take) {
  report::CombinedLog log(run_dir);
  bool active = false;
  do {
    active = follow && record::is_active(current_record(run_dir));
    log.read(!active, INT64_MAX,
             [&](int64_t rank, std::string_view line) { take(report::line_with_rank(rank, line)); });
    flush_output();
    if (active) std::this_thread::sleep_for(kLogsPoll);
  } while (active);
}

// Lines appended to the logs of one rank, until the run has ended.
void follow_rank(const fs::path& run_dir, int64_t rank) {
  struct Followed {
    std::uintmax_t offset = 0;
    Lines lines;
  };
  std::map<fs::path, Followed> all;
  const auto copy_new = [&](bool last) {
    for (const LogFile& file : log_files(run_dir, rank)) {
      Followed& followed = all[file.path];
      const auto line = [&](std::string_view content) { print_as_it_is(shown(content) + "\n"); };
      for (std::string text; !(text = read_from(file.path, followed.offset, kPieceBytes)).empty();) {
        followed.offset += text.size();
        followed.lines.add(text, line);
      }
      if (last) followed.lines.end(line);
    }
    flush_output();
  };
  while (record::is_active(current_record(run_dir))) {
    copy_new(false);
    std::this_thread::sleep_for(kLogsPoll);
  }
  copy_new(true);
}

// ---- logs of a master elsewhere ----

// As combined_logs().
void remote_combined_logs(const MasterClient& master, const std::string& name, bool follow, const Lines::Take& take) {
  const std::string path = path_of_run(name);
  std::string cursor;
  bool active = false;
  do {
    active = follow && record::is_active_state(report::text(master.get(path), "/state"));
    for (;;) {
      const auto page = master.get_answer(path + "/logs/all?cursor=" + net::http::percent_encode(cursor));
      cursor = header_of(page, "X-Next-Cursor");
      Lines lines;
      lines.add(page.body, take);
      if (page.body.empty() || cursor.empty()) break;
    }
    flush_output();
    if (active) std::this_thread::sleep_for(kRemoteLogsPoll);
  } while (active);
}

struct RemoteLog {
  Json rank;  // a number, or null: the supervisor
  int64_t segment = 1;
  size_t shown = 0;  // bytes
  Lines lines = {};
};

class RemoteLogs {
 public:
  RemoteLogs(const MasterClient& master, const std::string& name, std::optional<int64_t> only_rank)
      : master_(master), path_(path_of_run(name)), only_rank_(only_rank) {}

  bool active() const { return record::is_active_state(report::text(master_.get(path_), "/state")); }

  std::vector<RemoteLog>& update() {
    const Json answer = master_.get(path_ + "/logs");
    for (const Json& one : answer.at("logs")) {
      const Json rank = one.at("rank").is_number() ? one["rank"] : Json(nullptr);
      const int64_t segment = integer_of(one.value("segment", Json())).value_or(1);
      if (only_rank_ && rank != *only_rank_) continue;
      if (rank.is_null() && integer_of(one.value("bytes", Json())).value_or(0) == 0) continue;
      const auto same = [&](const RemoteLog& log) { return log.rank == rank && log.segment == segment; };
      if (std::none_of(logs_.begin(), logs_.end(), same)) logs_.push_back({rank, segment});
    }
    return logs_;
  }

  // Hands out the lines behind what was shown; with `last` also one without its end.
  void more(RemoteLog& log, bool last, const Lines::Take& take) const {
    const std::string where =
        log.rank.is_null() ? "/logs/supervisor?" : fmt::format("/logs/{}?segment={}&", log.rank.dump(), log.segment);
    for (;;) {
      const std::string text = master_.get_bytes(fmt::format("{}{}offset={}", path_, where, log.shown));
      if (text.empty()) break;
      log.shown += text.size();
      log.lines.add(text, take);
    }
    if (last) log.lines.end(take);
  }

 private:
  const MasterClient& master_;
  const std::string path_;
  const std::optional<int64_t> only_rank_;
  std::vector<RemoteLog> logs_;
};

// Prints what `lines` hands out, or gives it as JSON.
ExitCode show_combined(const Context& context, const std::string& name,
                       const std::function<void(const Lines::Take&)>& lines) {
  std::vector<std::string> all;
  bool any = false;
  lines([&](std::string_view line) {
    any = true;
    if (context.json) {
      all.emplace_back(line);
    } else {
      print_as_it_is(shown(line) + "\n");
    }
  });
  if (context.json) {
    print_json(Json::array({{{"rank", "all"}, {"segment", nullptr}, {"path", nullptr}, {"lines", all}}}));
  } else if (!any) {
    say(fmt::format("run '{}' has no logs yet", name));
  }
  return ExitCode::kOk;
}

ExitCode remote_logs(const Context& context, const MasterClient& master, const std::string& name, bool follow,
                     std::optional<int64_t> rank) {
  RemoteLogs source(master, name, rank);
  if (follow) {
    for (bool active = true; active;) {
      active = source.active();
      for (RemoteLog& log : source.update()) {
        source.more(log, !active, [&](std::string_view line) { print_as_it_is(shown(line) + "\n"); });
      }
      flush_output();
      if (active) std::this_thread::sleep_for(kRemoteLogsPoll);
    }
    return ExitCode::kOk;
  }
  std::vector<RemoteLog>& logs = source.update();
  Json answer = Json::array();
  for (RemoteLog& log : logs) {
    if (context.json) {
      std::vector<std::string> lines;
      source.more(log, true, [&](std::string_view line) { lines.emplace_back(line); });
      answer.push_back({{"rank", log.rank},
                        {"segment", log.rank.is_null() ? Json() : Json(log.segment)},
                        {"path", nullptr},
                        {"lines", lines}});
      continue;
    }
    if (logs.size() > 1) {
      print(log.rank.is_null() ? "==> supervisor <==\n"
                               : fmt::format("==> rank {}, segment {} <==\n", log.rank.dump(), log.segment));
    }
    source.more(log, true, [](std::string_view line) { print_as_it_is(shown(line) + "\n"); });
  }
  if (context.json) {
    print_json(answer);
  } else if (logs.empty()) {
    say(fmt::format("run '{}' has no logs yet", name));
  }
  return ExitCode::kOk;
}

struct LogsOptions {
  std::string name, rank;
  bool all = false, follow = false;
};

ExitCode logs(const Context& context, const LogsOptions& options) {
  const std::string& name = options.name;
  if (options.follow && context.json) throw UserError("logs -f prints lines as they come: leave out --json");
  if (options.all && !options.rank.empty()) throw UserError("--all is of all ranks, --rank of one: leave out either");
  const bool all = options.all || (options.follow && options.rank.empty());
  std::optional<int64_t> rank;
  if (!options.rank.empty()) rank = parse_count(options.rank, "--rank", kRanks);
  if (const auto master = given_master(context)) {
    if (!all) return remote_logs(context, *master, name, options.follow, rank);
    return show_combined(context, name,
                         [&](const Lines::Take& take) { remote_combined_logs(*master, name, options.follow, take); });
  }
  const fs::path run_dir = report::find_run(context.home_to_read(), name);
  if (all) {
    return show_combined(context, name, [&](const Lines::Take& take) { combined_logs(run_dir, options.follow, take); });
  }
  if (rank) {
    const int64_t workers = read_spec(run_dir).workers;
    if (*rank >= workers) {
      throw UserError(fmt::format("run '{}' has ranks 0 to {}, no rank {}", name, workers - 1, *rank));
    }
  }
  if (options.follow) {
    follow_rank(run_dir, *rank);
    return ExitCode::kOk;
  }
  const std::vector<LogFile> files = log_files(run_dir, rank);
  Json answer = Json::array();
  for (const LogFile& file : files) {
    const auto each = [&](const Lines::Take& take) {
      Lines split;
      std::uintmax_t offset = 0;
      for (std::string text; !(text = read_from(file.path, offset, kPieceBytes)).empty(); offset += text.size()) {
        split.add(text, take);
      }
      split.end(take);
    };
    if (context.json) {
      std::vector<std::string> lines;
      each([&](std::string_view line) { lines.emplace_back(line); });
      answer.push_back({{"rank", file.rank < 0 ? Json() : Json(file.rank)},
                        {"segment", file.rank < 0 ? Json() : Json(file.segment)},
                        {"path", file.path.string()},
                        {"lines", lines}});
      continue;
    }
    if (files.size() > 1) print(fmt::format("==> {} <==\n", title(file)));
    each([](std::string_view line) { print_as_it_is(shown(line) + "\n"); });
  }
  if (context.json) {
    print_json(answer);
  } else if (files.empty()) {
    say(fmt::format("run '{}' has no logs yet", name));
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
  verb->add_flag("-a,--all", options->all, "all ranks as one log, in the order of the times that lines begin with");
  act(*verb, program, [options](const Context& context) { return logs(context, *options); });
}

}  // namespace mlbench::cli
