#include "mlbench/exec/local/mpirun.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/exec/guard.h"

namespace mlbench::exec::local {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kStartPatience{60};
// mpirun ends by itself once its children have.
constexpr seconds kMpirunPatience{3};
constexpr milliseconds kLaunchPoll{100};

std::filesystem::path mpirun_log_path(const LaunchRequest& request) {
  return request.log_dir / fmt::format("mpirun.seg-{}.log", request.segment);
}

std::string last_lines(const std::filesystem::path& path) {
  constexpr size_t kMostBytes = 2000;
  std::string text = std::filesystem::exists(path) ? read_file(path) : "";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.size() > kMostBytes) text.erase(0, text.size() - kMostBytes);
  return text;
}

class MpirunGroup final : public RankGroup {
 public:
  // Not in the constructor: when it fails, the destructor is to end what has been started.
  void start(const LaunchRequest& request) {
    ranks_.resize(static_cast<size_t>(request.workers));
    GuardListener listener;
    ProcessOptions options;
    options.arguments = mpirun_command(request);
    options.environment = mpirun_environment(request);
    options.environment[kGuardVariable] = listener.name();
    options.working_directory = request.working_directory;  // mpirun gives ranks its own
    options.output = log_ = mpirun_log_path(request);
    try {
      mpirun_.emplace(ChildProcess::start(options));
    } catch (const IoError& error) {
      throw IoError(std::string(error.what()) + " (back end mpi, Debian: openmpi-bin)");
    }
    const auto deadline = steady_clock::now() + kStartPatience;
    while (std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.pid == 0; })) {
      wait_for_input(kLaunchPoll, listener.fd());
      while (auto guard = listener.accept()) arrivals_.push_back(std::move(*guard));
      greet(request);
      for (Rank& rank : ranks_) read_start(rank);
      if (const auto end = mpirun_->wait(milliseconds(0))) {
        throw IoError(fmt::format("mpirun ended with code {} before the ranks ran: {}", end->code,
                                  last_lines(mpirun_log_path(request))));
      }
      if (steady_clock::now() >= deadline) {
        throw IoError(fmt::format("mpirun has not started the ranks within {} s: {}", kStartPatience.count(),
                                  last_lines(mpirun_log_path(request))));
      }
    }
  }

  ~MpirunGroup() override {
    signal_all(SIGKILL);
    const auto deadline = steady_clock::now() + kMpirunPatience;
    for (collect(); running() && steady_clock::now() < deadline; collect()) wait_for_input(kLaunchPoll);
    ranks_.clear();  // closes the connections: the guards exit
    arrivals_.clear();
    if (mpirun_ && !mpirun_->wait(kMpirunPatience)) mpirun_->stop(kMpirunPatience);
  }

  std::vector<RankExit> poll(milliseconds timeout) override {
    const auto deadline = steady_clock::now() + timeout;
    for (collect(); exits_.empty() && running() && steady_clock::now() < deadline; collect()) {
      wait_for_input(std::chrono::ceil<milliseconds>(deadline - steady_clock::now()));
    }
    return std::exchange(exits_, {});
  }

  bool running() const override {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.running; });
  }

  // A signal of somebody else's: what happens to ranks and guards makes mpirun exit, with a code.
  std::optional<std::string> launcher_death() override {
    const auto end = mpirun_->wait(milliseconds(0));
    if (!end || !end->signal) return std::nullopt;
    return fmt::format("mpirun was killed by signal {} (SIG{}): {}", *end->signal, sigabbrev_np(*end->signal),
                       last_lines(log_));
  }

  std::vector<std::optional<pid_t>> pids() const override {
    std::vector<std::optional<pid_t>> pids;
    for (const Rank& rank : ranks_) pids.push_back(rank.running ? std::optional(rank.pid) : std::nullopt);
    return pids;
  }

  void signal_all(int signal_number) override {
    for (const Rank& rank : ranks_) {
      // A group whose last process ended a moment ago is no error.
      if (rank.running && kill(-rank.pid, signal_number) != 0 && errno != ESRCH) {
        throw IoError(
            fmt::format("cannot send signal {} to process {}: {}", signal_number, rank.pid, errno_text(errno)));
      }
    }
  }

  void stop(milliseconds patience) override {
    // A stopped process acts on SIGTERM only once it runs again; SIGTERM first, so that it does nothing else then.
    signal_all(SIGTERM);
    signal_all(SIGCONT);
    const auto deadline = steady_clock::now() + patience;
    for (collect(); running() && steady_clock::now() < deadline; collect()) wait_for_input(kLaunchPoll);
    signal_all(SIGKILL);
    for (collect(); running(); collect()) wait_for_input(kLaunchPoll);
  }

 private:
  struct Rank {
    std::optional<GuardSocket> guard;
    pid_t pid = 0;
    bool running = false;
  };

  void wait_for_input(milliseconds timeout, int listener = -1) const {
    std::vector<pollfd> inputs = {{listener, POLLIN, 0}};
    for (const GuardSocket& guard : arrivals_) inputs.push_back({guard.fd(), POLLIN, 0});
    for (const Rank& rank : ranks_) {
      if (rank.guard && (rank.running || rank.pid == 0)) inputs.push_back({rank.guard->fd(), POLLIN, 0});
    }
    ::poll(inputs.data(), inputs.size(), static_cast<int>(std::max<int64_t>(0, timeout.count())));
  }

  // A guard that said its rank hears what the rank needs.
  void greet(const LaunchRequest& request) {
    for (auto guard = arrivals_.begin(); guard != arrivals_.end();) {
      GuardSocket::Message message;
      const auto status = guard->receive(message);
      if (status == GuardSocket::Status::kNothing) {
        ++guard;
        continue;
      }
      const int rank = status == GuardSocket::Status::kMessage ? message.content.value("rank", -1) : -1;
      if (rank >= 0 && rank < request.workers && !ranks_[static_cast<size_t>(rank)].guard) {
        guard->send({{"output", rank_log_path(request.log_dir, request.segment, rank).string()}}, request.inherited);
        ranks_[static_cast<size_t>(rank)].guard.emplace(std::move(*guard));
      }
      guard = arrivals_.erase(guard);
    }
  }

  void read_start(Rank& rank) {
    GuardSocket::Message message;
    if (!rank.guard || rank.pid != 0 || rank.guard->receive(message) != GuardSocket::Status::kMessage) return;
    if (message.content.contains("error")) throw IoError(message.content["error"].get<std::string>());
    rank.pid = message.content.value("pid", 0);
    rank.running = rank.pid > 0;
  }

  void collect() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!ranks_[rank].running) continue;
      GuardSocket::Message message;
      const auto status = ranks_[rank].guard->receive(message);
      if (status == GuardSocket::Status::kNothing) continue;
      ranks_[rank].running = false;
      ProcessEnd end{128 + SIGKILL, SIGKILL};  // without a word: the guard was killed, and its rank with it
      if (status == GuardSocket::Status::kMessage && message.content.contains("code")) {
        end.code = message.content["code"].get<int>();
        const Json& number = message.content["signal"];
        end.signal = number.is_null() ? std::nullopt : std::optional(number.get<int>());
      }
      exits_.push_back({static_cast<int>(rank), end});
    }
  }

  std::filesystem::path log_;  // of mpirun itself
  std::optional<ChildProcess> mpirun_;
  std::vector<GuardSocket> arrivals_;  // guards that have not said their rank yet
  std::vector<Rank> ranks_;
  std::vector<RankExit> exits_;  // seen, not yet given to the caller
};

}  // namespace

std::vector<std::string> mpirun_command(const LaunchRequest& request) {
  MLBENCH_CHECK(!request.guard.empty(), "mpirun needs the program that guards its ranks");
  std::vector<std::string> command = {"mpirun", "-n", std::to_string(request.workers)};
  const auto parameter = [&](const char* name, const char* value) {
    command.insert(command.end(), {"--mca", name, value});
  };
  // This host alone, with a slot per rank, whatever batch system this command itself runs under.
  command.insert(command.end(), {"--host", fmt::format("localhost:{}", request.workers), "--bind-to", "none"});
  if (request.workers > available_cores()) command.emplace_back("--oversubscribe");
  parameter("ras", "^slurm,gridengine,tm,lsf,alps");
  parameter("plm", "isolated");
  parameter("oob_tcp_if_include", "lo");
  // Shared memory, without a look for networks.
  parameter("pml", "ob1");
  parameter("btl", "self,vader");
  command.insert(command.end(), request.guard.begin(), request.guard.end());
  command.insert(command.end(), request.command.begin(), request.command.end());
  return command;
}

std::map<std::string, std::string> mpirun_environment(const LaunchRequest& request) {
  std::map<std::string, std::string> environment = request.environment;
  environment["OMPI_ALLOW_RUN_AS_ROOT"] = environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  return environment;
}

std::unique_ptr<RankGroup> start_under_mpirun(const LaunchRequest& request) {
  auto group = std::make_unique<MpirunGroup>();
  group->start(request);
  return group;
}

}  // namespace mlbench::exec::local
