// Clusters that are a master with a home of its own on this machine. The master goes on when this command ends;
// set-cluster starts it again after a restart of the machine.

#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/system_error.h"
#include "mlbench/cli/clusters/provider.h"
#include "mlbench/cli/context.h"
#include "mlbench/home/owner.h"
#include "mlbench/home/runs.h"

namespace mlbench::cli {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr auto kMasterPatience = 30s;
constexpr auto kMasterPoll = 50ms;

// The step that starts a master. Port 0 means any free port; clients find its number in the home.
Step serve_step(const fs::path& home) {
  return {.what = "the master",
          .arguments = {program_path().string(), "serve", "--listen", "127.0.0.1:0", "--home", home.string()},
          .makes = true};
}

void start_master(const Step& step, const fs::path& home) {
  make_folder(home);
  if (home::find_master(home)) return;
  ProcessOptions options;
  options.arguments = step.arguments;
  options.output = home.parent_path() / "serve.log";
  options.new_session = true;
  ChildProcess master = ChildProcess::start(options);
  const auto deadline = std::chrono::steady_clock::now() + kMasterPatience;
  while (!home::find_master(home)) {
    const auto end = master.wait(kMasterPoll);
    if (end || std::chrono::steady_clock::now() > deadline) {
      if (!end) master.stop(5s);
      throw CommError(fmt::format("'{}' {}: see {}", to_text(step),
                                  end ? fmt::format("ended with {}", end->code) : "does not serve",
                                  options.output->string()));
    }
  }
}

class LocalProvider : public Provider {
 public:
  ClusterPlan plan(const ClusterRequest& request) override {
    ClusterPlan plan;
    plan.cluster.provider = "local";
    plan.cluster.nodes = request.nodes;
    plan.cluster.home = request.folder / "home";
    plan.steps = {serve_step(plan.cluster.home)};
    return plan;
  }

  void create(ClusterPlan& plan, StepRunner&) override { start_master(plan.steps.front(), plan.cluster.home); }

  std::vector<Step> plan_removal(const std::string&, const Cluster* known) override {
    if (known == nullptr) return {};
    home_ = known->home;
    std::vector<Step> steps;
    if (const auto master = home::find_master(home_)) {
      steps.push_back({.what = "the master", .arguments = {"kill", std::to_string(master->pid)}});
    }
    return steps;
  }

  void remove(const std::vector<Step>&, StepRunner&) override {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(runs_dir(home_), ignored)) {
      if (!fs::exists(spec_path(entry.path())) || !home::is_active_run(entry.path())) continue;
      const std::string name = entry.path().filename();
      throw UserError(fmt::format("run '{}' is active: stop it first with 'mlbench stop {} --home {}'", name, name,
                                  home_.string()));
    }
    const auto master = home::find_master(home_);
    if (!master) return;
    if (kill(master->pid, SIGTERM) != 0 && errno != ESRCH) {
      throw_system_error(fmt::format("cannot end the master, process {}", master->pid), errno);
    }
    const auto deadline = std::chrono::steady_clock::now() + kMasterPatience;
    while (home::find_master(home_)) {
      if (std::chrono::steady_clock::now() > deadline) {
        throw CommError(
            fmt::format("the master, process {}, goes on after SIGTERM: end it, and delete again", master->pid));
      }
      std::this_thread::sleep_for(kMasterPoll);
    }
  }

  std::string what_goes() const override { return "its master, its home and all runs in it"; }

  void choose(const Cluster& cluster) override { start_master(serve_step(cluster.home), cluster.home); }

 private:
  fs::path home_;
};

}  // namespace

std::unique_ptr<Provider> make_local() { return std::make_unique<LocalProvider>(); }

}  // namespace mlbench::cli
