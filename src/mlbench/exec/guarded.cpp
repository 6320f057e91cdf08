#include "mlbench/exec/guarded.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/base/process_status.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/system_error.h"
#include "mlbench/exec/group_start.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/descendants.h"
#include "mlbench/guard/shared_memory.h"
#include "mlbench/guard/usage.h"
#include "mlbench/guard/words.h"

namespace mlbench::exec {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// How long launchers may take to end. A guard ends once its rank has and the channel is closed, mpirun once its
// children have.
constexpr seconds kLauncherPatience{12};
// How long a guard may take to answer. One that does not is stopped itself.
constexpr seconds kGuardPatience{3};
constexpr milliseconds kLaunchPoll{100};

class GuardedGroup final : public RankGroup {
 public:
  GuardedGroup(LaunchRequest request, std::vector<Placement> placement, Surroundings around)
      : request_(std::move(request)), placement_(std::move(placement)), around_(std::move(around)) {
    ranks_.resize(static_cast<size_t>(request_.workers));
  }

  // Starts the launchers. The constructor does not: where this fails, the destructor is to end what has been started.
  void launch(std::vector<ProcessOptions> launchers) {
    guard::become_subreaper();
    if (request_.by_mpirun) above_guards_ = launchers.front();
    in_containers_ = request_.in_image;
    listener_.emplace();
    for (ProcessOptions& options : launchers) {
      options.environment[variables::kGuard] = listener_->address();
      launchers_.push_back(ChildProcess::start(options));
    }
    launched_ = std::move(launchers);
  }

  // Whether all ranks run; waits up to `timeout` for that. Throws IoError when they will not.
  bool all_run(milliseconds timeout) {
    const auto begin = steady_clock::now();
    const seconds patience = start_patience(request_);
    if (!start_deadline_) start_deadline_ = begin + patience;
    while (!look_for_starts()) {
      for (size_t i = 0; i < launchers_.size(); ++i) {
        const auto end = launchers_[i].wait(milliseconds(0));
        if (!end || look_for_starts()) continue;  // what a launcher said before its end comes first
        throw IoError(fmt::format("{} ended with code {} before the ranks ran: {}", name_of(launched_[i]), end->code,
                                  last_words_in(*launched_[i].output)));
      }
      const auto now = steady_clock::now();
      if (now >= *start_deadline_) {
        throw IoError(fmt::format("{} has not started {} within {} s: {}", name_of(launched_.front()), missing(),
                                  patience.count(), last_words_in(*launched_.front().output)));
      }
      if (now - begin >= timeout) return false;
      wait_for_input(std::min(kLaunchPoll, std::chrono::ceil<milliseconds>(timeout - (now - begin))), listener_->fd());
    }
    listener_.reset();
    return true;
  }

  ~GuardedGroup() override {
    signal_all(SIGKILL);
    force();
    std::vector<guard::MemoryOfRank> left;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      wake_guard(ranks_[rank]);
      left.push_back({static_cast<int>(rank), ranks_[rank].pid, memory_before_});
    }
    // Closes the channels, also of guards that nobody accepted. The guards then end what is left, and exit.
    ranks_.clear();
    arrivals_.clear();
    listener_.reset();
    const auto deadline = steady_clock::now() + kLauncherPatience;
    for (ChildProcess& launcher : launchers_) {
      const auto time = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
      if (!launcher.wait(std::max(time, milliseconds(0)))) launcher.stop(seconds(1));
    }
    guard::end_descendants({}, kGuardPatience);
    // Removes what guards did not: those that were killed, or had no time for it because mpirun was.
    for (const guard::MemoryOfRank& memory : left) guard::remove_left(memory, milliseconds(0));
    if (around_.clear_up) around_.clear_up();
  }

  std::vector<Observation> poll(milliseconds timeout) override {
    const auto deadline = steady_clock::now() + timeout;
    for (collect(); seen_.empty() && running() && steady_clock::now() < deadline; collect()) {
      wait_for_input(std::chrono::ceil<milliseconds>(deadline - steady_clock::now()));
    }
    look_at_launcher();
    return std::exchange(seen_, {});
  }

  bool running() const override {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.running; });
  }

  std::vector<std::optional<pid_t>> pids() const override {
    std::vector<std::optional<pid_t>> pids;
    for (const Rank& rank : ranks_) pids.push_back(rank.running ? std::optional(rank.pid) : std::nullopt);
    return pids;
  }

  std::vector<Placement> placement() const override { return placement_; }
  Json allocation() const override { return around_.allocation; }

  GroupUsage usage() const override {
    GroupUsage usage{{}, available_cores()};
    for (const Rank& rank : ranks_) {
      const auto guard = rank.running ? rank.guard->peer() : std::nullopt;
      const auto seen = guard ? guard::usage_below(*guard) : std::nullopt;
      usage.ranks.push_back(seen ? std::optional(RankUsage{to_seconds(seen->processor), seen->memory_bytes})
                                 : std::nullopt);
    }
    return usage;
  }

  void signal_all(int signal_number) override {
    for (const Rank& rank : ranks_) {
      if (!rank.running) continue;
      try {
        guard::say(*rank.guard, guard::SignalWord{signal_number});
      } catch (const IoError&) {
        // The rank's guard is gone, and the rank with it: collect() will see that.
      }
      wake_guard(rank);
    }
  }

  void stop(milliseconds patience) override {
    // A stopped process acts on SIGTERM only once it runs again. SIGTERM comes before SIGCONT, so that the process does
    // nothing else then.
    signal_all(SIGTERM);
    signal_all(SIGCONT);
    const auto deadline = steady_clock::now() + patience;
    for (collect(); running() && steady_clock::now() < deadline; collect()) wait_for_input(kLaunchPoll);
    signal_all(SIGKILL);
    force();
  }

 private:
  struct Rank {
    std::unique_ptr<guard::Channel> guard;
    pid_t pid = 0;
    bool running = false;
  };

  static std::string name_of(const ProcessOptions& launcher) {
    return std::filesystem::path(launcher.arguments.front()).filename();
  }

  // Lets a guard go on that somebody stopped: a stopped guard passes on no signal, and reports no end.
  static void wake_guard(const Rank& rank) {
    const auto guard = rank.guard ? rank.guard->peer() : std::nullopt;
    const auto status = guard ? process_status(*guard) : std::nullopt;
    if (status && status->state == 'T') kill(*guard, SIGCONT);
  }

  static bool has_ended(const Rank& rank) {
    const auto status = process_status(rank.pid);
    return !status || status->ended();
  }

  // The ranks that do not run yet: "rank 1", "ranks 0, 2".
  std::string missing() const {
    std::vector<size_t> numbers;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].pid == 0) numbers.push_back(rank);
    }
    return fmt::format("{} {}", numbers.size() == 1 ? "rank" : "ranks", fmt::join(numbers, ", "));
  }

  // Called after SIGKILL was sent. Kills guards that have not ended their ranks within a moment, as somebody stopped
  // them: a rank ends with its guard.
  void force() {
    const auto deadline = steady_clock::now() + kGuardPatience;
    for (collect(); running() && steady_clock::now() < deadline; collect()) wait_for_input(kLaunchPoll);
    for (const Rank& rank : ranks_) {
      const auto guard = rank.running ? rank.guard->peer() : std::nullopt;
      if (guard) kill(*guard, SIGKILL);
    }
    for (collect(); running(); collect()) wait_for_input(kLaunchPoll);
  }

  void wait_for_input(milliseconds timeout, int listener = -1) const {
    std::vector<pollfd> inputs = {{listener, POLLIN, 0}};
    for (const auto& guard : arrivals_) inputs.push_back({guard->fd(), POLLIN, 0});
    for (const Rank& rank : ranks_) {
      if (rank.guard && (rank.running || rank.pid == 0)) inputs.push_back({rank.guard->fd(), POLLIN, 0});
    }
    ::poll(inputs.data(), inputs.size(), static_cast<int>(std::max<int64_t>(0, timeout.count())));
  }

  // Whether all ranks have started.
  bool look_for_starts() {
    while (auto guard = listener_ ? listener_->accept() : nullptr) arrivals_.push_back(std::move(guard));
    greet();
    for (Rank& rank : ranks_) read_start(rank);
    return std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.pid == 0; });
  }

  // The word of a message; empty where the message is not of that word.
  template <typename Word>
  static std::optional<Word> said_in(guard::Channel::Status status, const guard::Message& message) {
    if (status != guard::Channel::Status::kMessage || !guard::is<Word>(message)) return std::nullopt;
    try {
      return Word::parse(message.text);
    } catch (const PeerFault&) {
      return std::nullopt;
    }
  }

  // Tells each guard that said its rank what the rank needs.
  void greet() {
    for (auto guard = arrivals_.begin(); guard != arrivals_.end();) {
      guard::Message message;
      const auto status = (*guard)->receive(message);
      if (status == guard::Channel::Status::kNothing) {
        ++guard;
        continue;
      }
      const auto said = said_in<guard::RankWord>(status, message);
      if (said && said->rank < request_.workers && !ranks_[static_cast<size_t>(said->rank)].guard) {
        const auto log = [&](LogStream stream) {
          return rank_log_path(request_.log_dir, request_.segment, said->rank, stream).string();
        };
        guard::say(**guard, guard::StartWord{log(LogStream::kStdout), log(LogStream::kStderr)}, request_.inherited);
        ranks_[static_cast<size_t>(said->rank)].guard = std::move(*guard);
      }
      guard = arrivals_.erase(guard);
    }
  }

  // The rank's process as this host numbers it: `within` is as its guard, in a container, numbers it.
  static pid_t pid_here(const Rank& rank, pid_t within) {
    const auto guard = rank.guard->peer();
    if (!guard) return within;
    std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", *guard));
    pid_t first = 0;
    return children >> first ? first : *guard;
  }

  void read_start(Rank& rank) const {
    guard::Message message;
    if (!rank.guard || rank.pid != 0) return;
    const auto status = rank.guard->receive(message);
    if (const auto error = said_in<guard::ErrorWord>(status, message)) throw IoError(error->why);
    if (const auto started = said_in<guard::PidWord>(status, message)) rank.pid = started->pid;
    rank.running = rank.pid > 0;
    if (rank.running && in_containers_) rank.pid = pid_here(rank, rank.pid);
  }

  // Reports where somebody's signal killed mpirun. What happens to ranks and guards makes mpirun exit with a code
  // instead.
  void look_at_launcher() {
    const auto end = above_guards_ ? launchers_.front().wait(milliseconds(0)) : std::nullopt;
    if (!end) return;
    if (end->signal) {
      seen_.emplace_back(
          EngineWord{EngineFact::kLauncherKilled,
                     fmt::format("{} was killed by signal {} (SIG{}): {}", name_of(*above_guards_), *end->signal,
                                 sigabbrev_np(*end->signal), last_words_in(*above_guards_->output))});
    }
    above_guards_.reset();
  }

  void collect() {
    bool guard_lost = false;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!ranks_[rank].running) continue;
      guard::Message message;
      const auto status = ranks_[rank].guard->receive(message);
      if (status == guard::Channel::Status::kNothing) {
        if (has_ended(ranks_[rank])) wake_guard(ranks_[rank]);
        continue;
      }
      ranks_[rank].running = false;
      const auto said = said_in<guard::EndWord>(status, message);
      // A guard that ended without a word was killed, and its rank with it.
      const ProcessEnd end = said ? said->end : ProcessEnd{128 + SIGKILL, SIGKILL};
      guard_lost = guard_lost || !said;
      // The channel of a guard closes a moment before what was below the guard becomes a child of this process.
      if (const auto guard = said ? std::nullopt : ranks_[rank].guard->peer())
        guard::wait_for_end(*guard, kGuardPatience);
      const char* why = said && said->out_of_memory ? kOutOfMemory : "";
      seen_.emplace_back(RankExit{static_cast<int>(rank), end, false, why});
    }
    // What was in a container ends with its guard; below this process are also the containers of other ranks.
    if (!guard_lost || in_containers_) return;
    std::vector<pid_t> kept;
    for (const ChildProcess& launcher : launchers_) kept.push_back(launcher.pid());
    guard::end_descendants(kept, kGuardPatience);
  }

  const LaunchRequest request_;
  const std::vector<Placement> placement_;
  const Surroundings around_;
  std::optional<ProcessOptions> above_guards_;  // mpirun, a launcher that is no guard, until its end is told
  bool in_containers_ = false;                  // whether each guard is the first process of a container
  std::vector<ProcessOptions> launched_;        // with what launchers_ were started
  std::vector<ChildProcess> launchers_;
  std::optional<guard::Listener> listener_;                 // until all ranks run
  std::optional<steady_clock::time_point> start_deadline_;  // from the first look
  std::vector<std::unique_ptr<guard::Channel>> arrivals_;   // guards that have not said their rank yet
  std::vector<Rank> ranks_;
  std::vector<Observation> seen_;  // not yet given to the caller
  const std::set<ino_t> memory_before_ = guard::files_of_memory();
};

}  // namespace

std::chrono::seconds start_patience(const LaunchRequest& request) {
  return std::chrono::seconds(request.in_image ? 600 : 60);
}

std::unique_ptr<Start> start_guarded(const LaunchRequest& request, std::vector<Placement> placement,
                                     std::vector<ProcessOptions> launchers, Surroundings around) {
  auto group = std::make_unique<GuardedGroup>(request, std::move(placement), std::move(around));
  group->launch(std::move(launchers));
  return std::make_unique<GroupStart<GuardedGroup>>(std::move(group));
}

}  // namespace mlbench::exec
