// Clusters of hosts over ssh: a name for -H, --ssh-config and the like, which is given to hosts that were found good.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "mlbench/base/build_info.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/base/text_blocks.h"
#include "mlbench/cli/clusters/host_check.h"
#include "mlbench/cli/clusters/provider.h"
#include "mlbench/cli/context.h"
#include "mlbench/spec/hosts.h"

namespace mlbench::cli {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr size_t kMostAtOnce = 32;
constexpr auto kHostLimit = 30s;

double now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

HostCheck check_host(const spec::HostSlots& host, const Step& step, const std::string& build_id) {
  ProcessOptions options;
  options.arguments = step.arguments;
  const double asked = now_s();
  try {
    const ProcessOutput answer = run_process(options, step.limit);
    return judge_host(host, answer, asked, now_s(), build_id, to_text(step));
  } catch (const CommError&) {
    return {.name = host.name,
            .problem = fmt::format("does not answer within {} s (see: {})", step.limit.count(), to_text(step))};
  } catch (const IoError& error) {
    return {.name = host.name, .problem = error.what()};
  }
}

class HostsProvider : public Provider {
 public:
  void add_create_options(CLI::App& verb) override {
    auto* hosts = verb.add_option("-H,--hosts", cluster_.hosts, "and how many ranks each takes: h1:2,h2:2");
    hosts->type_name("HOSTS");
    verb.add_option("--hostfile", hostfile_, "file that names them: lines as 'h1 slots=2'")
        ->type_name("FILE")
        ->excludes(hosts);
    verb.add_option("--ssh-config", cluster_.ssh_config, "for ssh, in place of the user's own")->type_name("FILE");
    verb.add_option("--interface", cluster_.interface, "network that ranks use: a name, an address or a network")
        ->type_name("NAME");
    verb.add_option("--scratch", cluster_.scratch, "folder on the hosts for what ranks write")->type_name("DIR");
  }

  ClusterPlan plan(const ClusterRequest& request) override {
    ClusterPlan plan{.cluster = cluster_, .steps = {}};
    Cluster& cluster = plan.cluster;
    cluster.provider = "hosts";
    if (!hostfile_.empty()) {
      cluster.hosts = spec::hosts_of_file(read_text_file(hostfile_, inputs::kHostFile), hostfile_);
    }
    if (cluster.hosts.empty()) throw UserError("which hosts? Name them as -H h1:2,h2:2 or --hostfile FILE");
    hosts_ = spec::parse_hosts(cluster.hosts);
    cluster.hosts = spec::to_text(hosts_);
    cluster.nodes = std::ssize(hosts_);
    if (request.nodes > 0 && request.nodes != cluster.nodes) {
      throw UserError(fmt::format("{} hosts are named, and NUM is {}: give the same number, or leave NUM out",
                                  cluster.nodes, request.nodes));
    }
    if (!cluster.ssh_config.empty()) {
      if (!fs::is_regular_file(cluster.ssh_config)) {
        throw UserError(fmt::format("--ssh-config '{}' is no file", cluster.ssh_config));
      }
      cluster.ssh_config = fs::absolute(cluster.ssh_config).lexically_normal();
    }
    if (!cluster.scratch.empty() && !fs::path(cluster.scratch).is_absolute()) {
      throw UserError(fmt::format("--scratch '{}' is no absolute path", shortened(cluster.scratch)));
    }
    for (const spec::HostSlots& host : hosts_) {
      plan.steps.push_back({.what = host.name,
                            .arguments = host_question(host.name, cluster.ssh_config, program_path()),
                            .limit = kHostLimit});
    }
    return plan;
  }

  // Asks all hosts at once (at most kMostAtOnce), and waits for all answers before it refuses one.
  void create(ClusterPlan& plan, StepRunner&) override {
    const std::string& build_id = build_info().build_id;
    std::vector<HostCheck> checks(hosts_.size());
    std::atomic<size_t> next{0};
    {
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < std::min(kMostAtOnce, hosts_.size()); ++i) {
        threads.emplace_back([&] {
          for (size_t host = next++; host < hosts_.size(); host = next++) {
            checks[host] = check_host(hosts_[host], plan.steps[host], build_id);
          }
        });
      }
    }
    size_t width = 0, wrong = 0;
    for (const HostCheck& check : checks) width = std::max(width, check.name.size());
    std::string lines;
    for (size_t host = 0; host < hosts_.size(); ++host) {
      lines += to_text(checks[host], hosts_[host], width);
      wrong += checks[host].problem.empty() ? 0 : 1;
    }
    lines.pop_back();
    say(lines);
    if (wrong > 0) {
      throw UserError(
          fmt::format("{} of {} hosts cannot be used as they are: put right what stands above, or leave "
                      "them out, and type the same again",
                      wrong, hosts_.size()));
    }
  }

  std::vector<Step> plan_removal(const std::string&, const Cluster*) override { return {}; }
  std::string what_goes() const override { return "the name; the hosts and all runs stay"; }

 private:
  Cluster cluster_;
  std::string hostfile_;
  std::vector<spec::HostSlots> hosts_;
};

}  // namespace

std::unique_ptr<Provider> make_hosts() { return std::make_unique<HostsProvider>(); }

}  // namespace mlbench::cli
