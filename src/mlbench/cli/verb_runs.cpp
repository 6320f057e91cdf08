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

#include "mlbench/base/clock.h"
#include "mlbench/base/files.h"
#include "mlbench/base/growing_lines.h"
#include "mlbench/base/input.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/system_error.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/runs.h"
#include "mlbench/cli/verbs.h"
#include "mlbench/report/records.h"
#include "mlbench/report/summary.h"
#include "mlbench/report/table.h"
#include "mlbench/report/tensorboard.h"
#include "mlbench/report/zip.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::milliseconds kPoll{200}, kRemotePoll{1000};
constexpr std::chrono::seconds kStopPatience{20};
constexpr Range kRanks{0, spec::kMostWorkers - 1};

// ---- status ---------------------------------------------------------------------------------------------------------

// The last lines of `status NAME`, as MLBench's scripts read them.
std::string current_values(const Json& record, const std::string& metric) {
  Json last;
  for (const Json& one : record.value("evaluations", Json::array())) {
    if (report::text(one, "/split") == "test") last = one;
  }
  const auto value_line = [&](const std::string& key, const std::string& what, const char* missing) {
    const auto metrics = last.is_object() ? last.value("metrics", Json::object()) : Json::object();
    const auto found = metrics.find(key);
    if (found == metrics.end() || !found->is_number()) return fmt::format("No Validation {} Data yet\n", missing);
    std::string date;
    if (const std::string started = report::text(record, "/started_at"); !started.empty()) {
      const std::chrono::duration<double> passed(report::number(last, "/wall_s").value_or(0));
      date = format_utc(parse_utc(started) + std::chrono::round<std::chrono::microseconds>(passed));
    }
    return fmt::format("Current Global {}: {:.2f} ({})\n", what, found->get<double>(), date);
  };
  return "\n" + value_line("loss", "Loss", "Loss") + value_line(metric, metric, "Precision");
}

ExitCode show_run(const Context& context, const Json& record, const std::string& metric) {
  if (context.json) {
    print_json(record);
  } else {
    print(report::run_details(record) + current_values(record, metric));
  }
  return ExitCode::kOk;
}

// From a master elsewhere.
ExitCode remote_status(const Context& context, const MasterClient& master, const std::string& name,
                       const std::string& metric) {
  if (!name.empty()) return show_run(context, master.get("/runs/" + net::http::percent_encode(name)), metric);
  Json runs = Json::array();
  for (size_t total = 1; runs.size() < total;) {
    const Json page = master.get(fmt::format("/runs?order=oldest&limit=1000&offset={}", runs.size()));
    total = page.at("total").get<size_t>();
    if (page.at("runs").empty()) break;
    for (const Json& run : page.at("runs")) runs.push_back(run);
  }
  if (context.json) {
    print_json(runs);
    return ExitCode::kOk;
  }
  report::Table table({{"run", "", report::Align::kLeft},
                       {"state", "", report::Align::kLeft},
                       {"task", "", report::Align::kLeft},
                       {"workers", "", report::Align::kRight},
                       {"to goal", "s", report::Align::kRight}});
  for (const Json& run : runs) {
    table.add_row({run.value("name", ""), run.value("state", ""), report::text(run, "/task"),
                   fmt::format("{:.0f}", report::number(run, "/workers").value_or(0)),
                   report::format_seconds(report::number(run, "/time_to_goal_s"))});
  }
  print(runs.empty() ? fmt::format("no runs at {}\n", master.url()) : table.render());
  return ExitCode::kOk;
}

ExitCode status(const Context& context, const std::string& name, const std::string& metric) {
  if (const auto master = given_master(context)) return remote_status(context, *master, name, metric);
  const fs::path home = context.home_to_read();
  if (!name.empty()) return show_run(context, current_record(report::find_run(home, name)), metric);
  Json records = Json::array();
  for (const fs::path& run : report::list_runs(home)) {
    try {
      records.push_back(current_record(run));
    } catch (const std::exception& error) {
      const std::string name = run.filename();
      say(is_transient(error) ? fmt::format("run '{}' cannot be read now: {}", name, error.what())
                              : fmt::format("run '{}' is damaged ({}): mlbench delete {}", name, error.what(), name));
    }
  }
  if (context.json) {
    print_json(records);
  } else if (records.empty()) {
    print(fmt::format("no runs in {}; start one with: mlbench run NAME 1 2 --task TASK\n", home.string()));
  } else {
    print(report::status_table(records));
  }
  return ExitCode::kOk;
}

// ---- stop -----------------------------------------------------------------------------------------------------------

ExitCode stop(const Context& context, const std::vector<std::string>& names) {
  if (const auto master = given_master(context)) {
    Json answer = Json::array();
    for (const std::string& name : names) {
      const Json run = master->post("/runs/" + net::http::percent_encode(name) + "/stop", Json::object());
      answer.push_back({{"name", name}, {"state", run.value("state", "")}});
      if (!context.json) print(fmt::format("asked {} to stop\n", name));
    }
    if (context.json) print_json(answer);
    return ExitCode::kOk;
  }
  const fs::path home = context.home();
  std::vector<fs::path> runs;
  for (const std::string& name : names) runs.push_back(report::find_run(home, name));
  for (const fs::path& run : runs) {
    const Json record = current_record(run);
    if (!report::is_active(record)) {
      throw UserError(
          fmt::format("run '{}' is not active: it is {}", run.filename().string(), record.value("state", "unknown")));
    }
  }
  for (const fs::path& run : runs) home::stop_run(home, run);
  const auto deadline = std::chrono::steady_clock::now() + kStopPatience;
  Json answer = Json::array();
  for (const fs::path& run : runs) {
    while (supervise::lease_held(run) && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(kPoll);
    const std::string state = current_record(run).value("state", "");
    answer.push_back({{"name", run.filename().string()}, {"state", state}});
    if (!context.json) {
      const bool ended = state != "queued" && state != "running";
      print(fmt::format("{}\n", ended ? fmt::format("{} {}", run.filename().string(), state)
                                      : fmt::format("asked {} to stop; it is still {}: mlbench status {}",
                                                    run.filename().string(), state, run.filename().string())));
    }
  }
  if (context.json) print_json(answer);
  return ExitCode::kOk;
}

// ---- logs -----------------------------------------------------------------------------------------------------------

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
    std::this_thread::sleep_for(kPoll);
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
      if (active) std::this_thread::sleep_for(kRemotePoll);
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

// ---- download, delete -----------------------------------------------------------------------------------------------

// The event files of all ranks, below a folder.
ExitCode download_tensorboard(const Context& context, const std::string& name, const std::string& output) {
  const fs::path folder = fs::absolute(output.empty() ? name + "-tensorboard" : output).lexically_normal();
  const auto master = given_master(context);
  const std::string path = "/runs/" + net::http::percent_encode(name);
  const fs::path run_dir = master ? fs::path() : report::find_run(context.home_to_read(), name);
  const Json record = master ? master->get(path) : current_record(run_dir);
  Json files = Json::array();
  const UserUmask named;
  for (int64_t rank = 0; rank < record.value("workers", int64_t{1}); ++rank) {
    const fs::path file = folder / report::tensorboard_path(record, rank);
    fs::create_directories(file.parent_path());
    write_file_atomically(file, master ? master->get_bytes(fmt::format("{}/tensorboard?rank={}", path, rank))
                                       : report::tensorboard_events(run_dir, record, rank));
    files.push_back(file.string());
  }
  if (context.json) {
    print_json({{"name", name}, {"folder", folder.string()}, {"files", files}});
  } else {
    for (const Json& file : files) print(file.get<std::string>() + "\n");
    say(fmt::format("to look at it: tensorboard --logdir {}", folder.string()));
  }
  return ExitCode::kOk;
}

ExitCode download(const Context& context, const std::string& name, const std::string& output) {
  const fs::path file = fs::absolute(output.empty() ? name + ".zip" : output).lexically_normal();
  if (fs::is_directory(file)) {
    throw UserError(fmt::format("{} is a folder: give a file, -o {}/{}.zip", file.string(), output, name));
  }
  Json record = Json::object();
  const UserUmask named;
  if (const auto master = given_master(context)) {
    master->get_file("/runs/" + net::http::percent_encode(name) + "/download", file);
  } else {
    const fs::path run_dir = report::find_run(context.home_to_read(), name);
    record = current_record(run_dir);
    report::write_download(run_dir, record, file);
  }
  const auto bytes = static_cast<uint64_t>(fs::file_size(file));
  if (context.json) {
    print_json({{"name", name}, {"file", file.string()}, {"bytes", bytes}});
  } else {
    print(fmt::format("{} ({})\n", file.string(), report::format_bytes(bytes)));
    if (report::is_active(record))
      say(fmt::format("run '{}' is still {}: the archive holds what there is so far", name, record.value("state", "")));
  }
  return ExitCode::kOk;
}

ExitCode remove(const Context& context, const std::vector<std::string>& names, bool dry_run) {
  if (const auto master = given_master(context)) {
    Json answer = Json::array();
    for (const std::string& name : names) {
      const std::string path = "/runs/" + net::http::percent_encode(name);
      if (dry_run) {
        master->get(path);
      } else {
        master->remove(path);
      }
      answer.push_back({{"name", name}, {"deleted", !dry_run}});
      if (!context.json) print(fmt::format("{} {}\n", dry_run ? "would delete" : "deleted", name));
    }
    if (context.json) print_json(answer);
    return ExitCode::kOk;
  }
  const fs::path home = context.home();
  std::vector<fs::path> runs;
  for (const std::string& name : names) {
    runs.push_back(report::find_run(home, name));
    if (is_active_run(runs.back())) {
      throw UserError(fmt::format("run '{}' is active: stop it first with 'mlbench stop {}'", name, name));
    }
  }
  Json answer = Json::array();
  for (const fs::path& run : runs) {
    if (!dry_run) delete_run(home, run);
    answer.push_back({{"name", run.filename().string()}, {"path", run.string()}, {"deleted", !dry_run}});
    if (!context.json) print(fmt::format("{} {}\n", dry_run ? "would delete" : "deleted", run.string()));
  }
  if (context.json) print_json(answer);
  return ExitCode::kOk;
}

}  // namespace

void add_status(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "status", "All runs of this home, or one in detail");
  add_master_options(*verb, program);
  auto name = std::make_shared<std::string>();
  verb->add_option("NAME-K", *name, "the run (default: a table of all)");
  auto metric = std::make_shared<std::string>("Prec@1");
  verb->add_option("-m,--metric", *metric, "of the last evaluation, shown behind a run in detail")
      ->type_name("METRIC")
      ->capture_default_str();
  verb->callback([&program, name, metric] {
    program.action = [&program, name, metric] { return status(program.context, *name, *metric); };
  });
}

void add_stop(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "stop", "Stop runs; what they measured is kept");
  add_master_options(*verb, program);
  auto names = std::make_shared<std::vector<std::string>>();
  verb->add_option("NAME-K", *names, "the runs")->required();
  verb->callback([&program, names] { program.action = [&program, names] { return stop(program.context, *names); }; });
}

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

void add_download(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "download", "Write a run's results into a zip archive, or for TensorBoard");
  add_master_options(*verb, program);
  auto name = std::make_shared<std::string>();
  auto output = std::make_shared<std::string>();
  verb->add_option("NAME-K", *name, "the run")->required();
  verb->add_option("-o,--output", *output, "the archive (default: NAME-K.zip), or TensorBoard's folder")
      ->type_name("FILE");
  auto tensorboard = std::make_shared<bool>(false);
  verb->add_flag("--tensorboard", *tensorboard,
                 "event files of TensorBoard, a folder per rank (default: NAME-K-tensorboard)");
  verb->callback([&program, name, output, tensorboard] {
    program.action = [&program, name, output, tensorboard] {
      return (*tensorboard ? download_tensorboard : download)(program.context, *name, *output);
    };
  });
}

void add_delete(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "delete", "Delete runs with everything they recorded");
  add_master_options(*verb, program);
  auto names = std::make_shared<std::vector<std::string>>();
  auto dry_run = std::make_shared<bool>(false);
  verb->add_option("NAME-K", *names, "the runs")->required();
  verb->add_flag("--dry-run", *dry_run, "say what would be deleted");
  verb->callback([&program, names, dry_run] {
    program.action = [&program, names, dry_run] { return remove(program.context, *names, *dry_run); };
  });
}

}  // namespace mlbench::cli
