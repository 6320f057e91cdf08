#include "mlbench/exec/linked.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/base/printable.h"
#include "mlbench/exec/group_start.h"
#include "mlbench/exec/linked_hosts.h"
#include "mlbench/exec/linked_launch.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/usage.h"
#include "mlbench/guard/words.h"
#include "mlbench/net/link/link.h"

namespace mlbench::exec {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kLinkPoll{50};
// How long ranks may take to end after SIGKILL. A guard that then only says that it is alive has a rank that hangs in
// the kernel.
constexpr seconds kLastPatience{20};

class LinkedGroup final : public RankGroup {
 public:
  LinkedGroup(LaunchRequest request, std::vector<Placement> placement, std::vector<std::string> files,
              std::vector<std::string> mpirun, std::vector<std::string> peers)
      : request_(std::move(request)),
        hosts_(request_, std::move(placement)),
        files_(request_, std::move(files)),
        launch_(request_, hosts_, files_, std::move(mpirun), std::move(peers)),
        ranks_(static_cast<size_t>(request_.workers)) {}

  // Whether all ranks run; waits up to `timeout` for that. Throws IoError when one could not start.
  bool all_run(milliseconds timeout) {
    const auto deadline = steady_clock::now() + timeout;
    for (;;) {
      for (const auto& [rank, why] : hosts_.greet()) fail_to_start(rank, why);
      collect();
      if (start_error_.empty()) launch_.begin();
      if (!start_error_.empty()) throw IoError(start_error_);
      if (all_started()) return true;
      if (steady_clock::now() >= deadline) return false;
      wait_for_words(deadline);
    }
  }

  bool gives_files() const {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const bool waits = hosts_[rank].guard && !ranks_[rank].started;
      if (waits && request_.links.server->has_unheard(static_cast<int>(rank))) return true;
    }
    return false;
  }

  int failed_rank() const { return failed_rank_; }

  std::optional<MissingRank> missing() const {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const LinkedHost& host = hosts_[rank];
      const char* what = !host.guard ? "has not come" : !host.placed ? "has not said where it is" : nullptr;
      if (what == nullptr && launch_.has_begun() && !ranks_[rank].started) what = "has not said that its rank runs";
      if (what != nullptr) {
        return MissingRank{static_cast<int>(rank), fmt::format("the guard of {} {}", hosts_.name_of(rank), what)};
      }
    }
    return std::nullopt;
  }

  std::vector<Observation> poll(milliseconds timeout) override {
    const auto deadline = steady_clock::now() + timeout;
    for (look(); seen_.empty() && running() && steady_clock::now() < deadline; look()) wait_for_words(deadline);
    return std::exchange(seen_, {});
  }

  bool running() const override { return std::ranges::any_of(ranks_, &Rank::running); }

  std::vector<std::optional<pid_t>> pids() const override {
    return std::vector<std::optional<pid_t>>(ranks_.size(), std::nullopt);
  }

  std::vector<Placement> placement() const override { return hosts_.placement(); }

  GroupUsage usage() const override {
    GroupUsage usage{{}, hosts_.cores(), energy()};
    const auto now = steady_clock::now();
    std::set<std::string> networks;  // named by what hosts call themselves: each pod is a host
    for (const Rank& rank : ranks_) {
      const bool first = networks.insert(request_.links.server->host(static_cast<int>(usage.ranks.size()))).second;
      auto& one = usage.ranks.emplace_back();
      if (!rank.running || rank.ended || !rank.usage) continue;
      one = RankUsage{to_seconds(rank.usage->processor), rank.usage->memory_bytes, now - rank.usage_came};
      if (first) one->network = rank.usage->network;
    }
    return usage;
  }
  std::vector<HostCapture> captures() const override { return hosts_.captures(); }

  void signal_all(int signal_number) override {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].running && !ranks_[rank].ended)
        guard::say(*hosts_[rank].guard, guard::SignalWord{signal_number});
    }
  }

  void stop(milliseconds patience) override {
    signal_all(SIGTERM);
    signal_all(SIGCONT);
    wait_for_ends(patience);
    signal_all(SIGKILL);
    wait_for_ends(kLastPatience);
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].running) give_up(rank);
    }
  }

 private:
  struct Rank {
    std::optional<guard::Usage> usage;
    steady_clock::time_point usage_came;
    std::optional<guard::EnergyWord> energy;  // of the rank's host
    bool started = false;
    bool running = false;  // the rank runs, or what it wrote is still on its way
    bool ended = false;
    bool silent = false;  // nothing is heard of the rank's host
  };

  // A host that has several names, or several pods of which each has a meter, is the host that its kernel booted.
  std::vector<HostEnergy> energy() const {
    std::vector<HostEnergy> energy;
    std::set<std::string> boots, hosts;
    for (const Placement& place : hosts_.placement()) {
      const auto& said = ranks_[static_cast<size_t>(place.rank)].energy;
      if (!said) continue;
      hosts.insert(place.host);
      if (!boots.insert(said->boot).second) continue;
      const auto joules =
          said->meter.empty() ? std::nullopt : std::optional(static_cast<double>(said->microjoules) / 1e6);
      energy.push_back({place.host, said->meter, joules});
    }
    for (const Placement& place : hosts_.placement()) {
      if (hosts.insert(place.host).second) energy.push_back({place.host, "", std::nullopt});
    }
    return energy;
  }

  bool all_started() const { return std::ranges::all_of(ranks_, &Rank::started); }

  void look() {
    collect();
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      Rank& one = ranks_[rank];
      const bool silent = one.running && !one.ended && !request_.links.server->within_reach(static_cast<int>(rank));
      if (silent != one.silent && !one.ended) seen_.emplace_back(RankSilence{static_cast<int>(rank), !silent});
      one.silent = silent;
    }
  }

  void collect() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const Rank& one = ranks_[rank];
      guard::Channel* guard = hosts_[rank].guard.get();
      guard::Message message;
      for (int heard = 0; heard < peer_words::kWordsAtOnce && guard && (one.running || !one.started); ++heard) {
        const auto status = guard->receive(message);
        if (status == guard::Channel::Status::kNothing) break;
        if (status == guard::Channel::Status::kClosed) {
          if (!one.started) fail_to_start(rank, hosts_.why_lost(rank));
          give_up(rank, request_.links.server->fault(static_cast<int>(rank)));
          break;
        }
        try {
          take(rank, message);
        } catch (const PeerFault& fault) {
          blame(rank, fault.what());
        }
      }
    }
  }

  // Gives up a rank whose guard said what is wrong: nothing more is taken from that guard.
  void blame(size_t rank, const std::string& fault) {
    spdlog::error("{}: {}", hosts_.name_of(rank), printable(fault));
    if (!ranks_[rank].started) fail_to_start(rank, "its guard breaks the protocol: " + fault);
    give_up(rank, fault);
    request_.links.server->close(static_cast<int>(rank));
  }

  void take(size_t rank, const guard::Message& message) {
    Rank& one = ranks_[rank];
    if (guard::is<guard::HostWord>(message)) {
      const std::string problem = hosts_.place(rank, guard::HostWord::parse(message.text));
      if (!problem.empty()) fail_to_start(rank, problem);
      files_.give(rank, hosts_[rank]);
    } else if (guard::is<guard::Usage>(message)) {
      take_usage(one, message.text);
    } else if (guard::is<guard::EnergyWord>(message)) {
      take_energy(one, guard::EnergyWord::parse(message.text));
    } else if (guard::is<guard::PidWord>(message)) {
      guard::PidWord::parse(message.text);
      launch_.note_start(rank);
      one.started = one.running = true;
    } else if (guard::is<guard::ErrorWord>(message)) {
      fail_to_start(rank, guard::ErrorWord::parse(message.text).why);
      one.started = true;
    } else if (launch_.runs_mpirun() && guard::is<guard::AgentWord>(message) && rank == 0 && !one.started) {
      if (launch_.launch_daemon(guard::AgentWord::parse(message.text))) return;
      fail_to_start(0, "mpirun wants a daemon on a host that is none of this run's");
    } else if (launch_.runs_mpirun() && guard::is<guard::AskedWord>(message)) {
      launch_.start(rank);
    } else if (launch_.runs_mpirun() && guard::is<guard::LaunchedEndWord>(message)) {
      take_launched_end(rank, guard::LaunchedEndWord::parse(message.text));
    } else if (guard::is<guard::EndWord>(message)) {
      take_end(rank, guard::EndWord::parse(message.text));
    } else if (guard::is<guard::DrainedWord>(message)) {
      if (!one.ended) throw PeerFault("it says that nothing is left of its rank, and not how that ended");
      one.running = false;
    }
  }

  void take_launched_end(size_t rank, const guard::LaunchedEndWord& end) {
    if (!all_started()) return fail_to_start(rank, end.how);
    seen_.emplace_back(EngineWord{end.signal != 0 ? EngineFact::kBesideKilled : EngineFact::kBesideEnded,
                                  fmt::format("beside {}: {}", hosts_.name_of(rank), end.how)});
  }

  void take_end(size_t rank, const guard::EndWord& word) {
    Rank& one = ranks_[rank];
    if (!one.running || one.ended) throw PeerFault("it says how its rank ended, which does not run");
    seen_.emplace_back(RankExit{static_cast<int>(rank), word.end, false, word.out_of_memory ? kOutOfMemory : ""});
    one.ended = true;
  }

  // Notes what a rank uses. A report with less processor time than before is left out: time that was used stays used.
  static void take_usage(Rank& rank, const std::string& text) {
    const auto usage = guard::Usage::parse(text);
    if (!usage || (rank.usage && usage->processor < rank.usage->processor)) return;
    rank.usage = usage;
    rank.usage_came = steady_clock::now();
  }

  // Notes what a rank's host used. A report of another meter, or of less energy than before, is left out. The energy is
  // not known where the record has no room for the meter's name.
  void take_energy(Rank& rank, guard::EnergyWord said) {
    const auto& before = rank.energy;
    if (!before && !hosts_.has_room_for(said.meter)) said.meter.clear();
    const bool goes_on = !before || (said.boot == before->boot && said.meter == before->meter &&
                                     said.microjoules >= before->microjoules);
    if (goes_on) rank.energy = std::move(said);
  }

  // Notes that a rank could not start. Only the first is reported.
  void fail_to_start(size_t rank, const std::string& why) {
    if (!start_error_.empty()) return;
    failed_rank_ = static_cast<int>(rank);
    start_error_ = fmt::format("{}: {}", hosts_.name_of(rank), why);
  }

  // Takes a rank for ended whose guard is lost. `fault` is what its guard said against the protocol, where that is why.
  void give_up(size_t rank, const std::string& fault = "") {
    Rank& one = ranks_[rank];
    if (one.started && !one.ended) seen_.emplace_back(RankExit{static_cast<int>(rank), {}, true, fault});
    one.started = one.ended = true;
    one.running = false;
  }

  void wait_for_ends(milliseconds patience) {
    const auto deadline = steady_clock::now() + patience;
    for (collect(); running() && steady_clock::now() < deadline; collect()) wait_for_words(deadline);
  }

  void wait_for_words(steady_clock::time_point deadline) const {
    std::vector<pollfd> inputs;
    for (const auto& guard : hosts_.strangers()) inputs.push_back({guard->fd(), POLLIN, 0});
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto& guard = hosts_[rank].guard;
      if (guard && (ranks_[rank].running || !ranks_[rank].started)) inputs.push_back({guard->fd(), POLLIN, 0});
    }
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    const auto wait = std::clamp(left, milliseconds(0), kLinkPoll);  // guards that come wake no descriptor in `inputs`
    ::poll(inputs.data(), inputs.size(), static_cast<int>(wait.count()));
  }

  const LaunchRequest request_;
  LinkedHosts hosts_;
  LinkedFiles files_;
  LinkedLaunch launch_;
  std::vector<Rank> ranks_;
  std::vector<Observation> seen_;  // not yet given to the caller
  std::string start_error_;
  int failed_rank_ = -1;
};

}  // namespace

std::unique_ptr<Start> start_linked(const LaunchRequest& request, std::vector<Placement> placement,
                                    std::vector<std::string> files, std::vector<std::string> mpirun,
                                    std::vector<std::string> peers) {
  MLBENCH_CHECK(request.links.server != nullptr, "ranks of other hosts need links");
  MLBENCH_CHECK(placement.empty() || placement.size() == static_cast<size_t>(request.workers), "each rank has a place");
  MLBENCH_CHECK(peers.empty() || peers.size() == static_cast<size_t>(request.workers), "each rank has a host");
  return std::make_unique<GroupStart<LinkedGroup>>(std::make_unique<LinkedGroup>(
      request, std::move(placement), std::move(files), std::move(mpirun), std::move(peers)));
}

}  // namespace mlbench::exec
