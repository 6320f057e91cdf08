#include "mlbench/exec/local/local.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "mlbench/exec/local/mpirun.h"

namespace mlbench::exec::local {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How often ranks are asked where the kernel cannot say when one ends (before Linux 5.3).
constexpr milliseconds kExitPoll{20};

std::map<std::string, std::string> environment_of(const LaunchRequest& request, int rank) {
  std::map<std::string, std::string> environment = request.environment;
  environment["RANK"] = environment["LOCAL_RANK"] = std::to_string(rank);
  environment["WORLD_SIZE"] = environment["LOCAL_WORLD_SIZE"] = std::to_string(request.workers);
  return environment;
}

std::vector<std::string> command_of(const LaunchRequest& request, int rank) {
  std::vector<std::string> command = request.command;
  if (request.rank_words) fill_in(command, "{rank}", std::to_string(rank));
  return command;
}

class LocalGroup final : public RankGroup {
 public:
  // Not in the constructor: when a rank cannot be started, the destructor is to end the ones before it.
  void start(const LaunchRequest& request) {
    for (int rank = 0; rank < request.workers; ++rank) {
      ProcessOptions options;
      options.arguments = command_of(request, rank);
      options.environment = environment_of(request, rank);
      options.working_directory = request.working_directory;
      options.output = rank_log_path(request.log_dir, request.segment, rank);
      options.inherited = request.inherited;
      ChildProcess process = ChildProcess::start(options);
      FileDescriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, process.pid(), 0)));
      ranks_.push_back({std::move(process), std::move(pidfd), true});
    }
  }

  ~LocalGroup() override {
    for (Rank& rank : ranks_) {
      if (rank.running) rank.process.signal(SIGKILL);
    }
    for (Rank& rank : ranks_) {
      while (rank.running && !rank.process.wait(std::chrono::seconds(1))) {
      }
    }
  }

  std::vector<RankExit> poll(milliseconds timeout) override {
    const auto deadline = steady_clock::now() + timeout;
    for (reap(); exits_.empty() && running() && steady_clock::now() < deadline; reap()) wait_for_an_end(deadline);
    return std::exchange(exits_, {});
  }

  bool running() const override {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.running; });
  }

  std::vector<std::optional<pid_t>> pids() const override {
    std::vector<std::optional<pid_t>> pids;
    for (const Rank& rank : ranks_) pids.push_back(rank.running ? std::optional(rank.process.pid()) : std::nullopt);
    return pids;
  }

  void signal_all(int signal_number) override {
    for (const Rank& rank : ranks_) {
      if (rank.running) rank.process.signal(signal_number);
    }
  }

  void stop(milliseconds patience) override {
    // A stopped process acts on SIGTERM only once it runs again; SIGTERM first, so that it does nothing else then.
    signal_all(SIGTERM);
    signal_all(SIGCONT);
    const auto deadline = steady_clock::now() + patience;
    for (reap(); running() && steady_clock::now() < deadline; reap()) wait_for_an_end(deadline);
    signal_all(SIGKILL);
    for (reap(); running(); reap()) wait_for_an_end(steady_clock::now() + std::chrono::seconds(1));
  }

 private:
  struct Rank {
    ChildProcess process;
    FileDescriptor pidfd;  // readable when it has ended
    bool running;
  };

  // Sleeps until a rank ends or the deadline: ranks that work are not disturbed by a supervisor that polls.
  void wait_for_an_end(steady_clock::time_point deadline) const {
    auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    std::vector<pollfd> ends;
    for (const Rank& rank : ranks_) {
      if (!rank.running) continue;
      if (!rank.pidfd) left = std::min(left, kExitPoll);
      ends.push_back({rank.pidfd.get(), POLLIN, 0});
    }
    ::poll(ends.data(), ends.size(), static_cast<int>(std::max<int64_t>(0, left.count())));
  }

  void reap() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!ranks_[rank].running) continue;
      if (const auto end = ranks_[rank].process.wait(milliseconds(0))) {
        ranks_[rank].running = false;
        exits_.push_back({static_cast<int>(rank), *end});
      }
    }
  }

  std::vector<Rank> ranks_;
  std::vector<RankExit> exits_;  // seen, not yet given to the caller
};

bool under_mpirun(const LaunchRequest& request) { return request.backend == "mpi"; }

class LocalExecutor final : public Executor {
 public:
  std::string name() const override { return "local"; }

  std::unique_ptr<RankGroup> start(const LaunchRequest& request) override {
    if (under_mpirun(request)) return start_under_mpirun(request);
    auto group = std::make_unique<LocalGroup>();
    group->start(request);
    return group;
  }

  std::vector<std::string> describe(const LaunchRequest& request) const override {
    if (under_mpirun(request)) return {command_line(mpirun_environment(request), mpirun_command(request))};
    std::vector<std::string> lines;
    for (int rank = 0; rank < request.workers; ++rank) {
      lines.push_back(command_line(environment_of(request, rank), command_of(request, rank)));
    }
    return lines;
  }
};

}  // namespace

std::unique_ptr<Executor> make() { return std::make_unique<LocalExecutor>(); }

}  // namespace mlbench::exec::local
