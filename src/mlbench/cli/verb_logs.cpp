#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <regex>
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
#include "mlbench/report/records.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::milliseconds kLogsPoll{200}, kRemoteLogsPoll{1000};
constexpr Range kRanks{0, spec::kMostWorkers - 1};

struct LogFile {
  int64_t rank = -1;  // -1: the supervisor
  int64_t segment = 1;
  fs::path path;
};

std::vector<LogFile> log_files(const fs::path& run_dir, std::optional<int64_t> only_rank) {
  static const std::regex kName(R"(rank-(\d+)\.seg-(\d+)\.log)");
  std::vector<LogFile> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run_dir / "logs", error)) {
    const std::string name = entry.path().filename();
    std::smatch match;
    if (std::regex_match(name, match, kName)) {
      files.push_back({std::stoll(match[1]), std::stoll(match[2]), entry.path()});
    } else if (name == "supervisor.log" && fs::file_size(entry.path(), error) > 0) {
      files.push_back({-1, 0, entry.path()});
    }
  }
  std::erase_if(files, [&](const LogFile& file) { return only_rank && file.rank != *only_rank; });
  std::sort(files.begin(), files.end(), [](const LogFile& a, const LogFile& b) {
    return std::pair(a.segment, a.rank) < std::pair(b.segment, b.rank);
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

// Lines appended to any log file, with their rank, until the run has ended.
void follow_logs(const fs::path& run_dir, std::optional<int64_t> only_rank) {
  struct Followed {
    std::uintmax_t offset = 0;
    Lines lines;
  };
  std::map<fs::path, Followed> all;
  const auto copy_new = [&](bool last) {
    for (const LogFile& file : log_files(run_dir, only_rank)) {
      Followed& followed = all[file.path];
      const auto line = [&](std::string_view content) {
        print(only_rank       ? fmt::format("{}\n", shown(content))
              : file.rank < 0 ? fmt::format("supervisor | {}\n", shown(content))
                              : fmt::format("rank {} | {}\n", file.rank, shown(content)));
      };
      for (std::string text; !(text = read_from(file.path, followed.offset, kPieceBytes)).empty();) {
        followed.offset += text.size();
        followed.lines.add(text, line);
      }
      if (last) followed.lines.end(line);
    }
    flush_output();
  };
  while (report::is_active(current_record(run_dir))) {
    copy_new(false);
    std::this_thread::sleep_for(kLogsPoll);
  }
  copy_new(true);
}

// ---- logs of a master elsewhere ----

struct RemoteLog {
  Json rank;  // a number, or null: the supervisor
  int64_t segment = 1;
  size_t shown = 0;  // bytes
  Lines lines = {};
};

class RemoteLogs {
 public:
  RemoteLogs(const MasterClient& master, const std::string& name, std::optional<int64_t> only_rank)
      : master_(master), path_("/runs/" + net::http::percent_encode(name)), only_rank_(only_rank) {}

  bool active() const { return report::is_active(master_.get(path_)); }

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

ExitCode remote_logs(const Context& context, const MasterClient& master, const std::string& name, bool follow,
                     std::optional<int64_t> rank) {
  RemoteLogs source(master, name, rank);
  if (follow) {
    for (bool active = true; active;) {
      active = source.active();
      for (RemoteLog& log : source.update()) {
        source.more(log, !active, [&](std::string_view line) {
          print(rank                 ? fmt::format("{}\n", shown(line))
                : log.rank.is_null() ? fmt::format("supervisor | {}\n", shown(line))
                                     : fmt::format("rank {} | {}\n", log.rank.dump(), shown(line)));
        });
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
    source.more(log, true, [](std::string_view line) { print(fmt::format("{}\n", shown(line))); });
  }
  if (context.json) {
    print_json(answer);
  } else if (logs.empty()) {
    say(fmt::format("run '{}' has no logs yet", name));
  }
  return ExitCode::kOk;
}

ExitCode logs(const Context& context, const std::string& name, bool follow, const std::string& rank_text) {
  if (follow && context.json) throw UserError("logs -f prints lines as they come: leave out --json");
  if (const auto master = given_master(context)) {
    const auto rank = rank_text.empty() ? std::nullopt : std::optional(parse_count(rank_text, "--rank", kRanks));
    return remote_logs(context, *master, name, follow, rank);
  }
  const fs::path run_dir = report::find_run(context.home_to_read(), name);
  std::optional<int64_t> rank;
  if (!rank_text.empty()) {
    rank = parse_count(rank_text, "--rank", kRanks);
    const int64_t workers = read_spec(run_dir).workers;
    if (*rank >= workers) {
      throw UserError(fmt::format("run '{}' has ranks 0 to {}, no rank {}", name, workers - 1, *rank));
    }
  }
  if (follow) {
    follow_logs(run_dir, rank);
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
    each([](std::string_view line) { print(fmt::format("{}\n", shown(line))); });
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
  auto name = std::make_shared<std::string>();
  auto rank = std::make_shared<std::string>();
  auto follow = std::make_shared<bool>(false);
  verb->add_option("NAME-K", *name, "the run")->required();
  verb->add_flag("-f,--follow", *follow, "go on until the run has ended");
  verb->add_option("--rank", *rank, "only this rank")->type_name("R");
  verb->callback([&program, name, rank, follow] {
    program.action = [&program, name, rank, follow] { return logs(program.context, *name, *follow, *rank); };
  });
}

}  // namespace mlbench::cli
