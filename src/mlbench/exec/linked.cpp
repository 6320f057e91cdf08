#include "mlbench/exec/linked.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "mlbench/base/build_info.h"
#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/exec/group_start.h"
#include "mlbench/exec/horovod.h"
#include "mlbench/exec/openmpi.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/usage.h"
#include "mlbench/guard/words.h"
#include "mlbench/net/link/link.h"
#include "mlbench/spec/communication.h"

namespace mlbench::exec {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kLinkPoll{50};
// SIGKILL was sent: a guard that says no more than that it is alive has a rank that hangs in its kernel.
constexpr seconds kLastPatience{20};

class LinkedGroup final : public RankGroup {
 public:
  LinkedGroup(LaunchRequest request, std::vector<Placement> placement, std::vector<std::string> files,
              std::vector<std::string> mpirun, std::vector<std::string> peers)
      : request_(std::move(request)),
        placement_(std::move(placement)),
        files_(std::move(files)),
        mpirun_(std::move(mpirun)),
        peers_(std::move(peers)),
        arrivals_(*request_.links.server, request_.workers, request_.links.rendezvous),
        ranks_(static_cast<size_t>(request_.workers)) {
    if (!request_.in_image) {
      guard_build_ = elf_build_id(request_.guard);
      if (!request_.rank_words) worker_build_ = elf_build_id(request_.command.front());
    }
    if (!placement_.empty()) return;
    guards_place_ = true;
    for (int rank = 0; rank < request_.workers; ++rank) placement_.push_back({.rank = rank});
  }

  // Whether all ranks run; waits up to `timeout` for it. IoError when one could not start.
  bool all_run(milliseconds timeout) {
    const auto deadline = steady_clock::now() + timeout;
    for (;;) {
      while (auto guard = arrivals_.accept()) strangers_.push_back(std::move(guard));
      greet();
      collect();
      begin();
      if (!start_error_.empty()) throw IoError(start_error_);
      if (all_started()) return true;
      if (steady_clock::now() >= deadline) return false;
      wait_for_words(deadline);
    }
  }

  bool gives_files() const {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const bool waits = ranks_[rank].guard && !ranks_[rank].started;
      if (waits && request_.links.server->has_unheard(static_cast<int>(rank))) return true;
    }
    return false;
  }

  int failed_rank() const { return failed_rank_; }

  std::optional<MissingRank> missing() const {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const Rank& one = ranks_[rank];
      const char* what = !one.guard ? "has not come" : !one.placed ? "has not said where it is" : nullptr;
      if (what == nullptr && begun_ && !one.started) what = "has not said that its rank runs";
      if (what != nullptr) {
        return MissingRank{static_cast<int>(rank), fmt::format("the guard of rank {}{} {}", rank, on_host(rank), what)};
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

  std::vector<Placement> placement() const override { return placement_; }

  GroupUsage usage() const override {
    GroupUsage usage{{}, cores()};
    const auto now = steady_clock::now();
    std::set<std::string> networks;  // by hosts as they call themselves: a pod is one of its own
    for (const Rank& rank : ranks_) {
      const bool first = networks.insert(request_.links.server->host(static_cast<int>(usage.ranks.size()))).second;
      auto& one = usage.ranks.emplace_back();
      if (!rank.running || rank.ended || !rank.usage) continue;
      one = RankUsage{to_seconds(rank.usage->processor), rank.usage->memory_bytes, now - rank.usage_came};
      if (first) one->network = rank.usage->network;
    }
    return usage;
  }
  std::vector<HostCapture> captures() const override { return captures_; }

  void signal_all(int signal_number) override {
    for (const Rank& rank : ranks_) {
      if (rank.running && !rank.ended) guard::say(*rank.guard, guard::SignalWord{signal_number});
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
    std::unique_ptr<guard::Channel> guard;
    bool placed = false;  // said where it is
    std::string address;  // as it said; "": it did not
    int port = 0;         // likewise, free there
    LocalPlace local;
    std::string folder;       // of the run there, as its guards tell it from others
    std::set<size_t> behind;  // ranks whose guards write what it is to find
    bool due = false;         // to be started
    CoreShare cores;
    std::optional<guard::Usage> usage;
    steady_clock::time_point usage_came;
    bool started = false;
    bool running = false;  // or what it wrote is still on its way
    bool ended = false;
    bool silent = false;  // nothing is heard of its host
  };

  std::string log_name(int rank) const {
    return rank_log_path(request_.log_dir, request_.segment, rank).lexically_relative(request_.links.folder);
  }

  // Guards say their ranks: each that of its link.
  void greet() {
    std::erase_if(strangers_, [&](std::unique_ptr<guard::Channel>& guard) {
      const auto rank = static_cast<size_t>(guard->rank());
      guard::Message message;
      const auto status = guard->receive(message);
      if (status == guard::Channel::Status::kNothing) return false;
      if (status == guard::Channel::Status::kClosed) {
        fail_to_start(rank, why_lost(rank));
      } else if (!guard::is<guard::RankWord>(message) || message.text != guard::RankWord{guard->rank()}.text()) {
        fail_to_start(rank, fmt::format("its guard does not say that it is of rank {}", rank));
      } else {
        ranks_[rank].guard = std::move(guard);
      }
      return true;
    });
  }

  // Once all guards came, so that ranks can be told of each other.
  void begin() {
    if (begun_ || !start_error_.empty() || !std::ranges::all_of(ranks_, &Rank::placed)) return;
    begun_ = true;
    if (request_.rank_words) tell_of_peers();
    if (!mpirun_.empty()) return launch(0, {"mpirun", mpirun_});
    for (size_t rank = 0; rank < ranks_.size(); ++rank) start(rank);
  }

  // What the rank is to find in its folder, once for all ranks that share it: the guard of the first writes it.
  void give(size_t rank) {
    std::vector<std::string> names = files_;
    if (request_.links.given) {
      for (std::string& name : request_.links.given(static_cast<int>(rank))) names.push_back(std::move(name));
    }
    for (const std::string& name : names) {
      const auto [writer, first] = writers_.try_emplace({ranks_[rank].folder, name}, rank);
      if (first) ranks_[rank].guard->put(name);
      if (writer->second != rank) ranks_[rank].behind.insert(writer->second);
    }
  }

  // A rank that runs has found all that its guard was to write: those that share it may follow.
  void start(size_t rank) {
    Rank& one = ranks_[rank];
    one.due = true;
    if (std::ranges::all_of(one.behind, [&](size_t writer) { return ranks_[writer].started; })) {
      guard::say(*one.guard, guard::StartWord{log_name(static_cast<int>(rank))});
    }
  }

  void start_those_behind(size_t writer) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].due && ranks_[rank].behind.contains(writer)) start(rank);
    }
  }

  void tell_of_peers() {
    std::vector<std::string> hosts = peers_;
    std::vector<LocalPlace> places;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      places.push_back(ranks_[rank].local);
      if (!peers_.empty()) continue;
      const bool by_address = guards_place_ && !ranks_[rank].address.empty();
      hosts.push_back(by_address ? ranks_[rank].address : host_of(rank));
    }
    LaunchRequest told = request_;
    told.environment["MASTER_ADDR"] = hosts.front();
    told.environment["MASTER_PORT"] = std::to_string(ranks_.front().port);
    add_horovod(told);
    const std::vector<HorovodPlace> horovod = horovod_places(places);
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      auto variables = told.environment;
      if (!spec::needs_mpirun(request_.backend)) add_horovod(variables, horovod[rank]);
      guard::PeersWord word{fmt::format("{}", fmt::join(hosts, ",")), {}};
      for (const auto& [name, value] : variables) {
        const auto known = request_.environment.find(name);
        if (known == request_.environment.end() || known->second != value) word.variables[name] = value;
      }
      guard::say(*ranks_[rank].guard, word);
    }
  }

  // Beside the rank.
  void launch(size_t rank, const guard::LaunchWord& program) { guard::say(*ranks_.at(rank).guard, program); }

  // A daemon of Open MPI's, which its mpirun beside rank 0 wants: a command for the shell of a rank's host.
  void launch_daemon(const guard::AgentWord& wanted) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (openmpi_host(static_cast<int>(rank)) != wanted.host) continue;
      return launch(rank, {"Open MPI's daemon", {"/bin/sh", "-c", wanted.command}});
    }
    fail_to_start(0, "mpirun wants a daemon on a host that is none of this run's");
  }

  void take_launched_end(size_t rank, const guard::LaunchedEndWord& end) {
    if (!all_started()) return fail_to_start(rank, end.how);
    seen_.emplace_back(EngineWord{end.signal != 0 ? EngineFact::kBesideKilled : EngineFact::kBesideEnded,
                                  fmt::format("beside rank {}{}: {}", rank, on_host(rank), end.how)});
  }

  bool all_started() const { return std::ranges::all_of(ranks_, &Rank::started); }
  bool mpirun_runs() const { return begun_ && !mpirun_.empty(); }

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
      Rank& one = ranks_[rank];
      guard::Message message;
      for (int heard = 0; heard < peer_words::kWordsAtOnce && one.guard && (one.running || !one.started); ++heard) {
        const auto status = one.guard->receive(message);
        if (status == guard::Channel::Status::kNothing) break;
        if (status == guard::Channel::Status::kClosed) {
          if (!one.started) fail_to_start(rank, why_lost(rank));
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

  // What its guard said, is wrong: nothing more is taken from it.
  void blame(size_t rank, const std::string& fault) {
    spdlog::error("rank {}{}: {}", rank, on_host(rank), printable(fault));
    if (!ranks_[rank].started) fail_to_start(rank, "its guard breaks the protocol: " + fault);
    give_up(rank, fault);
    request_.links.server->close(static_cast<int>(rank));
  }

  std::string why_lost(size_t rank) const {
    const std::string fault = request_.links.server->fault(static_cast<int>(rank));
    return fault.empty() ? "its guard is out of reach" : "its guard breaks the protocol: " + fault;
  }

  void take(size_t rank, const guard::Message& message) {
    Rank& one = ranks_[rank];
    if (guard::is<guard::HostWord>(message)) {
      capture(rank, message.text);
      give(rank);
    } else if (guard::is<guard::Usage>(message)) {
      take_usage(one, message.text);
    } else if (guard::is<guard::PidWord>(message)) {
      guard::PidWord::parse(message.text);
      if (!one.due || one.started) throw PeerFault("it says that its rank runs, which was not to start");
      one.started = one.running = true;
      start_those_behind(rank);
    } else if (guard::is<guard::ErrorWord>(message)) {
      fail_to_start(rank, guard::ErrorWord::parse(message.text).why);
      one.started = true;
    } else if (mpirun_runs() && guard::is<guard::AgentWord>(message) && rank == 0 && !one.started) {
      launch_daemon(guard::AgentWord::parse(message.text));
    } else if (mpirun_runs() && guard::is<guard::AskedWord>(message)) {
      start(rank);
    } else if (mpirun_runs() && guard::is<guard::LaunchedEndWord>(message)) {
      take_launched_end(rank, guard::LaunchedEndWord::parse(message.text));
    } else if (guard::is<guard::EndWord>(message)) {
      take_end(rank, guard::EndWord::parse(message.text));
    } else if (guard::is<guard::DrainedWord>(message)) {
      if (!one.ended) throw PeerFault("it says that nothing is left of its rank, and not how that ended");
      one.running = false;
    }
  }

  void take_end(size_t rank, const guard::EndWord& word) {
    Rank& one = ranks_[rank];
    if (!one.running || one.ended) throw PeerFault("it says how its rank ended, which does not run");
    seen_.emplace_back(RankExit{static_cast<int>(rank), word.end, false, word.out_of_memory ? kOutOfMemory : ""});
    one.ended = true;
  }

  // Time that was used stays used.
  static void take_usage(Rank& rank, const std::string& text) {
    const auto usage = guard::Usage::parse(text);
    if (!usage || (rank.usage && usage->processor < rank.usage->processor)) return;
    rank.usage = usage;
    rank.usage_came = steady_clock::now();
  }

  // Of hosts as they call themselves: a pod is one of its own.
  int cores() const {
    std::vector<CoreShare> shares;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      shares.push_back(ranks_[rank].cores);
      shares.back().host = request_.links.server->host(static_cast<int>(rank));
    }
    return static_cast<int>(std::min(cores_together(shares), peer_words::kCores.most));
  }

  void capture(size_t rank, const std::string& text) {
    Rank& one = ranks_[rank];
    if (one.placed) throw PeerFault("it says twice where it is");
    const auto said = guard::HostWord::parse(text);
    one.placed = true;
    one.address = said.address;
    one.port = said.port;
    one.folder = said.folder.empty() ? fmt::format("of rank {}", rank) : said.folder;
    one.local = {said.local_rank, said.local_size};
    one.cores = {.numbers = said.cores, .at_a_time = said.cores_at_a_time()};
    placement_[rank].gpu = said.gpu;
    if (guards_place_) place(rank, said);
    expect_build(rank, request_.guard, guard_build_, said.guard_build_id());
    expect_build(rank, request_.command.front(), worker_build_, said.build_id);
    const auto known = std::ranges::find(captures_, host_of(rank), &HostCapture::name);
    if (known != captures_.end()) return;
    captured_bytes_ += text.size();
    const bool fits = captured_bytes_ <= peer_words::kMostCaptures;
    captures_.push_back({host_of(rank), fits ? said.host : Json::object(), fits ? said.environment : Json::object()});
  }

  // `there`: the build of that program on its host. Of a program that is not there, its start says so.
  void expect_build(size_t rank, const std::filesystem::path& program, const std::optional<std::string>& here,
                    const std::string& there) {
    if (!here || there.empty() || there == *here) return;
    fail_to_start(rank, fmt::format("{} is another build there ({}) than here ({}): install the same one on all hosts, "
                                    "at this path",
                                    program.string(), there, *here));
  }

  void place(size_t rank, const guard::HostWord& said) {
    Placement& place = placement_[rank];
    place.host = said.node.empty() ? request_.links.server->host(static_cast<int>(rank)) : said.node;
    place.local_rank = said.local_rank;
    place.cores = said.cores;
  }

  // The first to fail is the one to be told of.
  void fail_to_start(size_t rank, const std::string& why) {
    if (!start_error_.empty()) return;
    failed_rank_ = static_cast<int>(rank);
    start_error_ = fmt::format("rank {}{}: {}", rank, on_host(rank), why);
  }

  std::string on_host(size_t rank) const { return host_of(rank).empty() ? "" : " on " + host_of(rank); }

  std::string host_of(size_t rank) const { return placement_.at(rank).host; }

  // `fault`: of what its guard said, where that is why.
  void give_up(size_t rank, const std::string& fault = "") {
    Rank& one = ranks_[rank];
    if (one.started && !one.ended) {
      seen_.emplace_back(RankExit{static_cast<int>(rank), {}, true, fault});
    }
    one.started = one.ended = true;
    one.running = false;
  }

  void wait_for_ends(milliseconds patience) {
    const auto deadline = steady_clock::now() + patience;
    for (collect(); running() && steady_clock::now() < deadline; collect()) wait_for_words(deadline);
  }

  void wait_for_words(steady_clock::time_point deadline) const {
    std::vector<pollfd> inputs;
    for (const auto& guard : strangers_) inputs.push_back({guard->fd(), POLLIN, 0});
    for (const Rank& rank : ranks_) {
      if (rank.guard && (rank.running || !rank.started)) inputs.push_back({rank.guard->fd(), POLLIN, 0});
    }
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    const auto wait = std::clamp(left, milliseconds(0), kLinkPoll);  // who comes rings no bell of ours
    ::poll(inputs.data(), inputs.size(), static_cast<int>(wait.count()));
  }

  const LaunchRequest request_;
  std::optional<std::string> guard_build_, worker_build_;  // here; of what is not compared: empty
  std::vector<Placement> placement_;
  bool guards_place_ = false;
  const std::vector<std::string> files_, mpirun_, peers_;
  bool begun_ = false;  // all guards came
  guard::LinkArrivals arrivals_;
  std::vector<std::unique_ptr<guard::Channel>> strangers_;  // that have not said their rank yet
  std::vector<Rank> ranks_;
  std::map<std::pair<std::string, std::string>, size_t> writers_;  // of a file in a folder: the rank whose guard it is
  std::vector<HostCapture> captures_;
  size_t captured_bytes_ = 0;
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
