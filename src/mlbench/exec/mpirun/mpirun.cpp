#include "mlbench/exec/mpirun/mpirun.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/growing_lines.h"
#include "mlbench/base/options.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/exec/engine_group.h"
#include "mlbench/exec/linked.h"
#include "mlbench/exec/mpirun/command.h"
#include "mlbench/exec/mpirun/programs.h"
#include "mlbench/exec/mpirun/words.h"
#include "mlbench/exec/obstacles.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/descendants.h"
#include "mlbench/net/link/link.h"
#include "mlbench/net/sockets.h"

namespace mlbench::exec::mpirun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// The limits until all guards came: usually, and where each host may have to pull an image first.
constexpr seconds kStartPatience{60}, kPullPatience{600};
// The limit, after SIGKILL, for the end of mpirun and of what it leaves on this host: ssh, guards.
constexpr seconds kKillPatience{3};
constexpr size_t kMostSaid = size_t{256} << 10;

class MpirunJob final : public EngineJob {
 public:
  MpirunJob(const ProcessOptions& options, const LaunchRequest& request, std::vector<std::string> hosts,
            const Options& engine)
      : links_(*request.links.server),
        hosts_(std::move(hosts)),
        ssh_config_(engine.ssh_config),
        patience_(engine.image.empty() ? kStartPatience : kPullPatience),
        log_(options.output.value()),
        log_begin_(log_size()),
        deadline_(steady_clock::now() + patience_),
        mpirun_(start_below(options)) {}

  StartStatus status() override {
    if (!failure_.empty()) return {StartState::kFailed, failure_};
    if (const auto end = mpirun_.wait(milliseconds(0))) {
      failure_ = fmt::format("mpirun {} before the ranks ran: {}", how(*end), why_no_start(said(), ssh_config_));
    } else if (steady_clock::now() >= deadline_) {
      failure_ = fmt::format("mpirun has not started the ranks within {} s, no word of {}: {}", patience_.count(),
                             missing(), why_no_start(said(), ssh_config_));
      late_ = true;
    }
    if (!failure_.empty()) return {.state = StartState::kFailed, .words = failure_, .late = late_};
    return {StartState::kStarting};
  }

  void extend_start() override { deadline_ = steady_clock::now() + patience_; }

  std::vector<EngineWord> news() override {
    if (over_) return {};
    const auto end = mpirun_.wait(milliseconds(0));
    const size_t size = log_size();
    if (!end && size == log_seen_) return {};
    log_seen_ = size;
    const std::string text = said();
    const auto host = lost_host(text);
    over_ = host || end;
    // mpirun says at once that it lost a daemon, and ends seconds later. Until then it ends the other ranks, which are
    // not to blame.
    if (host) {
      return {{.fact = EngineFact::kHostGone,
               .words = fmt::format("Open MPI's daemon on {} ({}) is gone, and mpirun ends the ranks of all hosts",
                                    *host, ranks_on(*host, hosts_)),
               .place_lost = true}};
    }
    if (!end) return {};
    const std::string words = last_lines(text);
    return {{.fact = EngineFact::kJobOver,
             .words = fmt::format("mpirun {} under its ranks, {}{}{}", how(*end), places([](size_t) { return true; }),
                                  words.empty() ? "" : ": ", words)}};
  }

  void end(milliseconds patience) override {
    try {
      // A guard that comes from now on is sent away.
      for (size_t rank = 0; rank < hosts_.size(); ++rank) links_.close(static_cast<int>(rank));
      const auto deadline = steady_clock::now() + patience;
      // mpirun needs seconds to act on SIGTERM, and does not act where a host is cut off. Its daemons end without it.
      if (!mpirun_.wait(patience)) {
        mpirun_.signal(SIGKILL);
        mpirun_.wait(kKillPatience);
      }
      // The guards on this host of an mpirun that was killed are below this process: they end the same way.
      const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
      guard::wait_for_descendants(std::max(left, milliseconds(0)));
    } catch (const std::exception&) {
      // What is left of mpirun is below this process.
    }
    guard::end_descendants({}, kKillPatience);
  }

 private:
  static ChildProcess start_below(const ProcessOptions& options) {
    guard::become_subreaper();  // what a killed mpirun leaves behind, this process ends
    return ChildProcess::start(options);
  }

  static std::string how(const ProcessEnd& end) {
    if (!end.signal) return fmt::format("ended with code {}", end.code);
    return fmt::format("was killed by signal {} (SIG{})", *end.signal, sigabbrev_np(*end.signal));
  }

  size_t log_size() const {
    std::error_code error;
    const auto size = std::filesystem::file_size(log_, error);
    return error ? 0 : static_cast<size_t>(size);
  }

  // What this mpirun wrote: an earlier one of the segment may have written to the same file before. Hosts write to the
  // file, too: however much that is, only its end is read.
  std::string said() const {
    return end_of_file(log_, std::min(kMostSaid, log_size() - std::min(log_begin_, log_size())));
  }

  // The hosts of the ranks that `wanted` picks: "h2 (ranks 2, 3), h3 (rank 4)".
  template <typename Wanted>
  std::string places(Wanted wanted) const {
    std::vector<std::string> hosts, words;
    for (size_t rank = 0; rank < hosts_.size(); ++rank) {
      if (!wanted(rank) || std::ranges::find(hosts, hosts_[rank]) != hosts.end()) continue;
      hosts.push_back(hosts_[rank]);
      words.push_back(fmt::format("{} ({})", hosts_[rank], ranks_on(hosts_[rank], hosts_)));
    }
    return fmt::format("{}", fmt::join(words, ", "));
  }

  std::string missing() const {
    const std::string hosts = places([this](size_t rank) { return !links_.came(static_cast<int>(rank)); });
    return hosts.empty() ? "their start" : hosts;
  }

  net::LinkServer& links_;
  const std::vector<std::string> hosts_;  // by rank
  const std::string ssh_config_;
  const seconds patience_;
  const std::filesystem::path log_;
  const size_t log_begin_;
  steady_clock::time_point deadline_;
  ChildProcess mpirun_;
  size_t log_seen_ = 0;
  std::string failure_;
  bool late_ = false;  // whether failure_ says that guards were late
  bool over_ = false;  // whether the end of mpirun, or a lost host, was told
};

class MpirunExecutor final : public Executor {
 public:
  explicit MpirunExecutor(const Json& engine) : engine_(read_options(engine)) {}

  std::string name() const override { return "mpirun"; }
  ExecutorFacts facts() const override { return kFacts; }
  bool limits_cpus() const override { return !engine_.image.empty(); }

  // The first host that is another one has to have an address, as rendezvous() needs it.
  std::string obstacle(const LaunchRequest& request) const override {
    if (std::string reason = missing_programs(request); !reason.empty()) return "executor mpirun: " + reason;
    if (all_here(hosts_of_ranks(engine_, request.workers))) {
      if (std::string reason = missing_gpu(request); !reason.empty()) return reason;
      return missing_interface(request);
    }
    const std::string& asked = request.network_interface;
    if (!asked.empty() && asked.find(',') == std::string::npos && !own_address_on(asked)) return no_interface(asked);
    try {
      rendezvous(request);
      return "";
    } catch (const IoError& error) {
      return fmt::format("executor mpirun: {}", error.what());
    }
  }

  Rendezvous rendezvous(const LaunchRequest& request) const override {
    hosts_of_ranks(engine_, 1);  // throws where there are no hosts, and says what to type
    for (const spec::HostSlots& host : spec::parse_hosts(engine_.hosts)) {
      if (is_this_host(host.name)) continue;
      const auto asked = own_address_on(request.network_interface);
      const std::string address = asked ? *asked : net::address_towards(host.name);
      return {address, address};
    }
    return {};
  }

  // The hosts that were named; nobody is asked about them.
  ClusterNodes nodes() const override {
    ClusterNodes known;
    if (engine_.hosts.empty()) {
      known.problem = "hosts are named with each run (-H, --hostfile): those of active runs are shown";
      return known;
    }
    for (const spec::HostSlots& host : spec::parse_hosts(engine_.hosts)) {
      ClusterNode node;
      if (is_this_host(host.name)) node = this_node();
      node.name = host.name;
      node.slots = engine_.ranks_per_host > 0 ? engine_.ranks_per_host : host.slots;
      known.nodes.push_back(std::move(node));
    }
    return known;
  }

  std::unique_ptr<Start> start(const LaunchRequest& request) override {
    std::vector<std::string> hosts = hosts_of_ranks(engine_, request.workers);
    if (const std::string reason = missing_programs(request); !reason.empty()) {
      throw IoError("executor mpirun: " + reason);
    }
    if (all_here(hosts) || request.in_image) return launch(request, hosts, engine_, std::nullopt);
    const Programs programs = programs_of(request);
    const std::filesystem::path folder = folder_of_build(programs, engine_.scratch);
    return start_with_programs(ssh(), hosts, programs, folder, [request, hosts, engine = engine_, folder](bool copied) {
      return launch(request, hosts, engine, copied ? std::optional(folder) : std::nullopt);
    });
  }

  std::vector<std::string> describe(const LaunchRequest& request) const override {
    LaunchRequest plan = request;
    plan.links.folder = folder_here(plan);
    plan = moved_to(plan, folder_on_hosts(plan, engine_.scratch));
    add_own_gpu(plan);
    const auto added = variables_of_links(plan);
    for (const std::string& name : added) plan.environment[name];
    const std::vector<std::string> hosts = hosts_of_ranks(engine_, plan.workers);
    ProcessOptions options = command(engine_, plan, hosts);
    for (const std::string& name : added) options.environment.erase(name);
    return {command_line(options.environment, options.arguments) + bringing(request, hosts)};
  }

 private:
  std::string missing_programs(const LaunchRequest& request) const {
    static constexpr const char* kSsh[] = {"ssh"};
    std::string reason = missing_program(kMpirunPrograms, kMpirunPackage);
    if (reason.empty() && !all_here(hosts_of_ranks(engine_, request.workers))) {
      reason = missing_program(kSsh, "openssh-client");
    }
    return reason;
  }

  // Lets guards pick the GPUs of ranks: only they see which GPUs their host has.
  static void add_own_gpu(LaunchRequest& request) {
    if (gives_own_gpu(request)) request.environment[variables::kGuardOwnGpu] = "1";
  }

  // Starts mpirun. `copied` is the folder of the programs on the hosts, where they are not at their paths here.
  static std::unique_ptr<Start> launch(const LaunchRequest& request, const std::vector<std::string>& hosts,
                                       const Options& engine, const std::optional<std::filesystem::path>& copied) {
    const std::filesystem::path folder = folder_on_hosts(request, engine.scratch);
    LaunchRequest moved = moved_to(request, folder);
    add_own_gpu(moved);
    moved.environment.merge(guard_environment(request, folder));
    if (copied) {
      moved.guard = *copied / request.guard.filename();
      if (!request.rank_words) {
        moved.command.front() = *copied / std::filesystem::path(request.command.front()).filename();
      }
    }
    const ProcessOptions options = command(engine, moved, hosts);
    auto links = start_linked(request, placement_on(hosts), files_for_guards(request));
    auto job = std::make_unique<MpirunJob>(options, request, hosts, engine);
    return std::make_unique<EngineStart>(std::move(job), std::move(links));
  }

  static Programs programs_of(const LaunchRequest& request) {
    if (request.rank_words) return {.guard = request.guard};
    return {request.guard, request.command.front(), request.modules};
  }

  std::vector<std::string> ssh() const {
    std::vector<std::string> words = ssh_options(engine_.ssh_config);
    words.insert(words.begin(), "ssh");
    return words;
  }

  // The commands that bring the programs before mpirun runs. Nothing can be said where programs do not exist here.
  std::string bringing(const LaunchRequest& request, std::vector<std::string> hosts) const {
    const Programs programs = programs_of(request);
    const bool there = std::filesystem::exists(programs.guard) &&
                       (programs.worker.empty() || std::filesystem::exists(programs.worker));
    if (all_here(hosts) || request.in_image || !there) return "";
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    const std::filesystem::path folder = folder_of_build(programs, engine_.scratch);
    std::string text = "\n# before it, each host is asked for the same programs:";
    const std::vector<std::string> question = question_about(programs, folder);
    const std::vector<std::string> installation = installation_of(programs, folder);
    for (const std::string& host : hosts) text += "\n" + command_line({}, on_host(ssh(), host, question));
    text += fmt::format("\n# where one lacks them, all have them in {}, by a tar file of them and their libraries:",
                        folder.string());
    for (const std::string& host : hosts) text += "\n" + command_line({}, on_host(ssh(), host, installation));
    return text;
  }

  const Options engine_;
};

}  // namespace

Availability available() {
  const std::string reason = missing_program(kMpirunPrograms, kMpirunPackage);
  return {reason.empty(), reason};
}

Options read_options(const Json& engine) {
  OptionReader reader("executor 'mpirun'", engine);
  Options options;
  options.hosts = reader.text("hosts", "");
  options.ranks_per_host = reader.integer("ranks_per_host", 0, spec::kRanksPerHost);
  options.ssh_config = reader.text("ssh_config", "");
  options.scratch = reader.text("scratch", "");
  options.image = reader.text("image", "");
  reader.integer("requeue", 0, kRequeues);  // the supervisor acts on it
  reader.finish();
  return options;
}

std::unique_ptr<Executor> make(const Json& engine) { return std::make_unique<MpirunExecutor>(engine); }

}  // namespace mlbench::exec::mpirun
