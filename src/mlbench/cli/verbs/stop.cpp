#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <thread>

#include "mlbench/cli/context.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/home/runs.h"
#include "mlbench/report/records.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::milliseconds kPoll{200};
// Longer than a supervisor takes at most (supervise/orderly_stop.h).
constexpr std::chrono::seconds kStopPatience{35};

ExitCode stop(const Context& context, const std::vector<std::string>& names) {
  if (const auto master = given_master(context)) {
    Json answer = Json::array();
    for (const std::string& name : names) {
      const Json run = master->post(path_of_run(name) + "/stop", Json::object());
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
    const record::Record record = home::current_record(run);
    if (!record::is_active(record)) {
      throw UserError(fmt::format("run '{}' is not active: it is {}", run.filename().string(), record.state));
    }
  }
  for (const fs::path& run : runs) home::stop_run(home, run);
  const auto deadline = std::chrono::steady_clock::now() + kStopPatience;
  Json answer = Json::array();
  for (const fs::path& run : runs) {
    while (supervise::lease_held(run) && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(kPoll);
    const std::string state = home::current_record(run).state;
    answer.push_back({{"name", run.filename().string()}, {"state", state}});
    if (!context.json) {
      const bool ended = !record::is_active_state(state);
      print(fmt::format("{}\n", ended ? fmt::format("{} {}", run.filename().string(), state)
                                      : fmt::format("asked {} to stop; it is still {}: mlbench status {}",
                                                    run.filename().string(), state, run.filename().string())));
    }
  }
  if (context.json) print_json(answer);
  return ExitCode::kOk;
}

ExitCode remove(const Context& context, const std::vector<std::string>& names, bool dry_run) {
  if (const auto master = given_master(context)) {
    Json answer = Json::array();
    for (const std::string& name : names) {
      const std::string path = path_of_run(name);
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
    if (home::is_active_run(runs.back())) {
      throw UserError(fmt::format("run '{}' is active: stop it first with 'mlbench stop {}'", name, name));
    }
  }
  Json answer = Json::array();
  for (const fs::path& run : runs) {
    if (!dry_run) home::delete_run(home, run);
    answer.push_back({{"name", run.filename().string()}, {"path", run.string()}, {"deleted", !dry_run}});
    if (!context.json) print(fmt::format("{} {}\n", dry_run ? "would delete" : "deleted", run.string()));
  }
  if (context.json) print_json(answer);
  return ExitCode::kOk;
}

}  // namespace

void add_stop(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "stop", "Stop runs in order; what they measured is kept");
  add_master_options(*verb, program);
  auto names = std::make_shared<std::vector<std::string>>();
  verb->add_option("NAME-K", *names, "the runs")->required();
  act(*verb, program, [names](const Context& context) { return stop(context, *names); });
}

void add_delete(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "delete", "Delete runs with everything they recorded");
  add_master_options(*verb, program);
  auto names = std::make_shared<std::vector<std::string>>();
  auto dry_run = std::make_shared<bool>(false);
  verb->add_option("NAME-K", *names, "the runs")->required();
  verb->add_flag("--dry-run", *dry_run, "say what would be deleted");
  act(*verb, program, [names, dry_run](const Context& context) { return remove(context, *names, *dry_run); });
}

}  // namespace mlbench::cli
