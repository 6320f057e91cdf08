#include "mlbench/guard/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

#include "mlbench/base/atomic_file.h"
#include "mlbench/base/build_info.h"
#include "mlbench/base/cgroups.h"
#include "mlbench/base/choices.h"
#include "mlbench/base/energy_meter.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/files.h"
#include "mlbench/base/gpus.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/process.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/system_error.h"
#include "mlbench/base/text.h"
#include "mlbench/base/to_number.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/descendants.h"
#include "mlbench/guard/launcher_words.h"
#include "mlbench/guard/openmpi.h"
#include "mlbench/guard/shared_memory.h"
#include "mlbench/guard/usage.h"
#include "mlbench/guard/words.h"
#include "mlbench/net/launch.h"
#include "mlbench/net/sockets.h"

namespace mlbench::guard {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How long a rank whose supervisor is gone has to end by itself, and then to act on SIGTERM: all is over within 5 s.
constexpr milliseconds kEndPatience{1500};
constexpr milliseconds kStopPatience{1500};
// The limit for the end of what a rank left behind. What stays then hangs in the kernel.
constexpr milliseconds kSweepPatience{10000};

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;  // null: to be counted from other variables
  const char* host;        // the host's name, as the launcher has it; null: none
  bool shields = false;    // whether the command's words are shielded from the launcher (launcher_words.h)
};

constexpr Launcher kLaunchers[] = {
    {"direct", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr, true},
    {"slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, "SLURMD_NODENAME", true},
    // A pod is a host of its own: the executor sets the last three variables so, and to the name of the pod's node.
    {"kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", variables::kNodeName},
};

std::string required_variable(const char* name) {
  const auto value = environment_variable(name);
  if (!value) throw UserError(std::string(name) + " is not set: the supervisor of a run and its launcher set it");
  return *value;
}

int number_in(const char* name) {
  const std::string text = required_variable(name);
  const auto value = to_number<int>(text);
  if (!value) throw UserError(std::string(name) + "=" + text + ": expected a whole number");
  return *value;
}

// The number of ranks on this host. Slurm gives the numbers of tasks by node: net/launch.h reads them.
std::string local_size_of(const Launcher& launcher) {
  if (launcher.local_size != nullptr) return required_variable(launcher.local_size);
  const net::LaunchInfo info = net::detect_launch([](const char* name) -> std::optional<std::string> {
    const std::string_view text = name;
    const bool wanted = text.starts_with("SLURM_") && !text.ends_with("NODELIST");
    return wanted ? environment_variable(name) : std::nullopt;
  });
  return std::to_string(info.local_size);
}

// Takes a variable out of the environment: it is not meant for the rank.
std::string taken_variable(const char* name) {
  std::string value = required_variable(name);
  unsetenv(name);
  return value;
}

// Whether nobody but this user and root can replace what lies in `folder`. Where it is to be `ours`, root may not own
// it either, and a sticky bit is not enough.
bool is_safe(const std::filesystem::path& folder, bool ours) {
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return false;
  if (info.st_uid != geteuid() && (ours || info.st_uid != 0)) return false;
  return (info.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (!ours && (info.st_mode & S_ISVTX) != 0);
}

// Makes the run's folder on this host, where it may lie below /tmp, in which everybody makes folders. What is made here
// is this user's alone. Throws IoError for a folder that others own or can write to.
void make_own_folder(const std::filesystem::path& folder) {
  const std::filesystem::path parent = folder.parent_path();
  std::filesystem::create_directories(parent.parent_path());
  for (const std::filesystem::path& each : {parent, folder}) {
    if (mkdir(each.c_str(), 0700) != 0 && errno != EEXIST) throw_system_error("cannot create " + each.string(), errno);
    if (!is_safe(each, each == folder)) {
      throw IoError(each.string() +
                    " is another user's, or others can write there: remove it, or give another folder "
                    "(--scratch)");
    }
  }
  create_run_folders(folder);
}

// Names, on standard error, the folders of other runs of the same name beside this one's, NAME-IDENTITY: nothing of
// them is read. It is not known here whether such a run lives on this host, so its folder is named and not removed.
void name_folders_of_other_runs(const std::filesystem::path& folder) {
  const std::string own = folder.filename(), name = own.substr(0, own.rfind('-') + 1);
  if (name.empty()) return;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder.parent_path(), ignored)) {
    const std::string other = entry.path().filename();
    if (other == own || !other.starts_with(name) || other.find('-', name.size()) != std::string::npos) continue;
    std::fprintf(stderr,
                 "mlbench-guard: %s is of another run of this name, and is not read: remove it once that ended\n",
                 printable(entry.path().string()).c_str());
  }
}

// An identity of `folder`: the same for all guards that share the folder, by whatever path.
std::string identity_of(const std::filesystem::path& folder) {
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) throw_system_error("cannot look at " + folder.string(), errno);
  return boot_id() + ":" + std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
}

// What a rank writes is appended to its logs.
struct RankLogs {
  FileDescriptor output, errors;
};

FileDescriptor open_log(const std::filesystem::path& path) {
  FileDescriptor log(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log) throw_system_error("cannot open " + path.string(), errno);
  return log;
}

int milliseconds_until(steady_clock::time_point time) {
  const auto left = std::chrono::ceil<milliseconds>(time - steady_clock::now());
  return static_cast<int>(std::max(left, milliseconds(0)).count());
}

// A free port of this host, and the address at which the other ranks find it, if they do: the one towards the
// supervisor. Empty where there is none.
net::Endpoint free_endpoint_towards(std::string_view supervisor) {
  const auto endpoint = net::parse_endpoint(std::string(supervisor));
  if (!endpoint) return {};
  try {
    return net::own_endpoint(net::listen_on(net::address_towards(endpoint->host), 0).get());
  } catch (const std::exception&) {
    return {};  // this program cannot look up the supervisor's name or address
  }
}

class Guard {
 public:
  // `folder` is the run's folder on this host, where that is not the supervisor's; else empty. `place` is what the
  // guard says of this host. `own_gpu` says whether the guard gives the rank a GPU.
  Guard(std::unique_ptr<Channel> supervisor, std::filesystem::path folder, HostWord place, bool own_gpu)
      : supervisor_(std::move(supervisor)), folder_(std::move(folder)), place_(std::move(place)), own_gpu_(own_gpu) {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&signals, number);
    signals_ = FileDescriptor(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) throw_system_error("cannot create a signal descriptor", errno);
  }

  int run(ProcessOptions options) {
    tell(RankWord{std::stoi(options.environment["RANK"])});
    if (own_gpu_) or_say_why([&] { give_gpu(options); });
    if (supervisor_->elsewhere()) {
      place_.host = capture_host(0);
      place_.environment = capture_environment();
      place_.cores = allowed_cores();
      tell(place_);
    }
    Message start;
    while (!is<StartWord>(start)) {
      if (take_message(start)) {
        if (is<PutWord>(start)) or_say_why([&] { put(PutWord::parse(start.text)); });
        if (is<PeersWord>(start)) or_say_why([&] { take_peers(PeersWord::parse(start.text), options); });
        if (is<LaunchWord>(start)) or_say_why([&] { launch(LaunchWord::parse(start.text)); });
        continue;
      }
      if (closed_) throw IoError("the supervisor of this run is gone");
      wait();
      if (asked_) return 128 + *asked_;
    }
    supervisor_->offer_folders();
    const RankLogs logs = or_say_why([&] { return open_logs(StartWord::parse(start.text)); });
    options.standard_output = logs.output.get();
    options.standard_error = logs.errors.get();
    if (openmpi_) {
      for (const auto& [name, value] : openmpi_->variables()) options.environment[name] = value;
    }
    for (const FileDescriptor& descriptor : start.descriptors) options.inherited.push_back(descriptor.get());
    const auto kills = cgroup_out_of_memory_kills();
    MemoryOfRank memory{std::stoi(options.environment["RANK"]), 0, files_of_memory()};
    ChildProcess rank = begin(options);
    memory.pid = rank.pid();
    const ProcessEnd end = wait_for_end(rank);
    tell_energy();
    const bool alone = closed_;
    tell(EndWord{end, end.code != 0 && kills && cgroup_out_of_memory_kills() > kills});
    if (!end_descendants(launched(), kSweepPatience)) {
      std::fputs("mlbench-guard: a process that the rank left behind cannot be ended\n", stderr);
    }
    start.descriptors.clear();  // the core lock is free from now on
    if (!closed_ && supervisor_->elsewhere()) supervisor_->send_behind_files(std::string(DrainedWord::kWord));
    stay_until_closed();
    // The other ranks of this host have ended with the run; or their guards, without a supervisor too, end them now.
    remove_left(memory, alone ? kEndPatience + kStopPatience : milliseconds(0));
    return end.code;
  }

 private:
  template <typename Begin>
  std::invoke_result_t<Begin> or_say_why(Begin begin) {
    try {
      return begin();
    } catch (const std::runtime_error& error) {
      tell(ErrorWord{error.what()});
      if (supervisor_->elsewhere()) stay_until_closed();
      throw;
    }
  }

  ChildProcess begin(const ProcessOptions& options) {
    return or_say_why([&] {
      ChildProcess rank = ChildProcess::start(options);
      tell(PidWord{rank.pid()});
      return rank;
    });
  }

  RankLogs open_logs(const StartWord& start) const {
    const auto place = [&](const std::string& log) {
      return folder_.empty() ? std::filesystem::path(log) : folder_ / checked(peer_words::kFile, log);
    };
    return {open_log(place(start.output)), open_log(place(start.errors))};
  }

  // Gives the rank the GPU of its number on this host. Only here is it known which GPUs ranks on this host may use.
  void give_gpu(ProcessOptions& options) {
    const std::string gpu = gpu_of_rank(visible_gpus(), std::stoi(options.environment["LOCAL_RANK"]));
    place_.gpu = gpu_number(gpu);
    options.environment[kVisibleGpus] = gpu;
  }

  void launch(const LaunchWord& program) {
    if (!openmpi_) openmpi_.emplace(logs_dir(folder_) / "openmpi.log");
    openmpi_->start(program);
  }

  std::vector<pid_t> launched() const { return openmpi_ ? openmpi_->pids() : std::vector<pid_t>(); }

  // Waits until the supervisor has closed the channel. A launcher acts on the end of its child, which it is to hear of
  // once the supervisor has judged the end. On another host, what was said or written is on its way until then.
  void stay_until_closed() {
    for (asked_.reset(); !closed_ && (!asked_ || supervisor_->elsewhere()); wait()) {
      Message ignored;
      take_message(ignored);
    }
  }

  ProcessEnd wait_for_end(ChildProcess& rank) {
    // The supervisor looks itself at what a rank of its own host uses.
    if (supervisor_->elsewhere()) {
      next_usage_ = steady_clock::now() + kUsageInterval;
      if (place_.local_rank == 0) energy_.emplace();
      tell_energy();
    }
    for (;;) {
      if (const auto end = rank.wait(milliseconds(0))) {
        next_usage_.reset();
        return *end;
      }
      reap_orphans(rank.pid(), launched());
      if (closed_) {
        if (const auto end = rank.wait(kEndPatience)) return *end;
        return rank.stop(kStopPatience);
      }
      Message message;
      while (take_message(message)) {
        if (is<SignalWord>(message)) rank.signal(SignalWord::parse(message.text).number);
      }
      tell_usage_if_due();
      if (closed_) continue;
      wait();
      if (asked_) rank.signal(*asked_);
      asked_.reset();
    }
  }

  static void take_peers(const PeersWord& peers, ProcessOptions& options) {
    fill_in(options.arguments, "{hosts}", peers.hosts);
    for (const auto& [name, value] : peers.variables) options.environment[name] = value;
  }

  // Writes the next piece of a file; the last piece puts the file in its place.
  void put(const PutWord& piece) {
    if (folder_.empty()) throw IoError("the supervisor of this run puts no file: " + piece.name);
    const std::filesystem::path path = folder_ / piece.name;
    if (piece.offset == 0) {
      std::filesystem::create_directories(path.parent_path());
      put_.emplace(path);
    }
    put_.value().write(piece.bytes);
    if (piece.offset + std::ssize(piece.bytes) < piece.size) return;
    put_->commit();
    put_.reset();
  }

  // Reaps daemons of the rank's that have ended. The rank itself, and what was launched, are waited for elsewhere.
  static void reap_orphans(pid_t rank, const std::vector<pid_t>& launched) {
    for (siginfo_t info{}; waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0; info = {}) {
      if (info.si_pid == 0 || info.si_pid == rank) return;
      if (std::find(launched.begin(), launched.end(), info.si_pid) != launched.end()) return;
      waitpid(info.si_pid, nullptr, 0);
    }
  }

  void tell_usage_if_due() {
    if (!next_usage_ || steady_clock::now() < *next_usage_) return;
    next_usage_ = steady_clock::now() + kUsageInterval;
    tell_energy();
    auto usage = usage_below(getpid(), launched());
    if (!usage) return;
    usage->network = network_here();
    tell(*usage);
  }

  void tell_energy() {
    if (!energy_) return;
    const std::string boot = boot_id();
    tell(EnergyWord{boot.substr(0, boot.find(':')), energy_->name(), std::llround(energy_->joules() * 1e6)});
  }

  // Waits for a message of the supervisor, a signal, the end of a child or, while the rank runs, the next look at what
  // the rank uses.
  void wait() {
    if (closed_) return;
    std::vector<pollfd> inputs{{supervisor_->fd(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    if (openmpi_) {
      for (const int fd : openmpi_->fds()) inputs.push_back({fd, POLLIN, 0});
    }
    poll(inputs.data(), inputs.size(), next_usage_ ? milliseconds_until(*next_usage_) : -1);
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGCHLD) asked_ = static_cast<int>(info.ssi_signo);
    }
    if (!openmpi_) return;
    for (const OpenMpi::News& news : openmpi_->news()) std::visit([this](const auto& word) { tell(word); }, news);
  }

  bool take_message(Message& message) {
    const Channel::Status status = supervisor_->receive(message);
    closed_ = closed_ || status == Channel::Status::kClosed;
    return status == Channel::Status::kMessage;
  }

  template <typename Word>
  void tell(const Word& word) {
    try {
      say(*supervisor_, word);
    } catch (const IoError&) {
      closed_ = true;
    }
  }

  const std::unique_ptr<Channel> supervisor_;
  const std::filesystem::path folder_;
  HostWord place_;
  const bool own_gpu_;
  FileDescriptor signals_;
  bool closed_ = false;
  std::optional<int> asked_;  // the signal that asked the guard to end; it is passed on to the rank
  std::optional<steady_clock::time_point> next_usage_;  // while the rank runs on another host than the supervisor
  std::optional<EnergyMeter> energy_;                   // of the first rank of another host than the supervisor's
  std::optional<OpenMpi> openmpi_;
  std::optional<AtomicFile> put_;  // the file whose pieces are coming
};

}  // namespace

int guard_rank(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) {
    throw UserError("a launcher and a command are expected: LAUNCHER COMMAND... (the supervisor of a run gives them)");
  }
  const Launcher& launcher = row_named(kLaunchers, "launcher", arguments[0]);
  ProcessOptions options;
  options.arguments = {arguments.begin() + 1, arguments.end()};
  if (launcher.shields) options.arguments = unshielded(std::move(options.arguments));
  options.environment = {{"RANK", std::to_string(number_in(launcher.rank))},
                         {"WORLD_SIZE", std::to_string(number_in(launcher.size))},
                         {"LOCAL_RANK", std::to_string(number_in(launcher.local_rank))},
                         {"LOCAL_WORLD_SIZE", local_size_of(launcher)}};
  if (environment_variable(variables::kGuardRankWords)) {
    fill_in(options.arguments, "{rank}", options.environment["RANK"]);
    unsetenv(variables::kGuardRankWords);
  }
  const bool own_gpu = environment_variable(variables::kGuardOwnGpu).has_value();
  unsetenv(variables::kGuardOwnGpu);
  options.new_session = true;  // nothing that the rank does to its group reaches the guard
  options.die_with_parent = true;
  const std::string address = taken_variable(variables::kGuard);
  RankOfRun rank{number_in(launcher.rank), number_in(launcher.size), {}, {}, {}};
  HostWord place;
  place.local_rank = number_in(launcher.local_rank);
  place.local_size = std::stoi(options.environment["LOCAL_WORLD_SIZE"]);
  if (address.starts_with(kLink)) {
    rank.run_id = required_variable(variables::kRunId);
    rank.secret = taken_variable(variables::kGuardSecret);
    rank.folder = taken_variable(variables::kGuardFolder);
    make_own_folder(rank.folder);
    if (options.environment["LOCAL_RANK"] == "0") name_folders_of_other_runs(rank.folder);
    const net::Endpoint own = free_endpoint_towards(std::string_view(address).substr(kLink.size()));
    place.address = own.host;
    place.port = own.port;
    place.folder = identity_of(rank.folder);
    place.build_id = elf_build_id(options.arguments.front()).value_or("");
  }
  become_subreaper();
  place.node = launcher.host != nullptr ? environment_variable(launcher.host).value_or("") : "";
  unshield_environment();  // what the launcher says was read before
  return Guard(connect_to(address, rank), rank.folder, std::move(place), own_gpu).run(std::move(options));
}

}  // namespace mlbench::guard
