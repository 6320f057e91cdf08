#include "mlbench/base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "mlbench/base/clock.h"
#include "mlbench/base/descriptors.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/program_start.h"
#include "mlbench/base/system_error.h"
#include "mlbench/base/text.h"

namespace mlbench {

namespace {

using SteadyClock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// Where poll() cannot wait for a process, it is asked this often.
constexpr Milliseconds kPollInterval{10};
// SIGKILL ends everything but a process that hangs in the kernel.
constexpr Milliseconds kKillPatience{60000};

FileDescriptor require(int fd, const std::string& action) {
  if (fd < 0) throw_system_error("cannot " + action, errno);
  return FileDescriptor(fd);
}

// A copy that dup2 to 0, 1 and 2 cannot overwrite.
FileDescriptor copy_above_standard_streams(int fd, const std::string& what) {
  return require(fcntl(fd, F_DUPFD_CLOEXEC, 3), "use descriptor " + std::to_string(fd) + " as " + what);
}

struct Pipe {
  FileDescriptor read_end, write_end;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw_system_error("cannot create a pipe", errno);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const std::string path = environment_variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (size_t first = 0; first <= path.size();) {
    const size_t last = std::min(path.find(':', first), path.size());
    const std::filesystem::path candidate = std::filesystem::path(path.substr(first, last - first)) / name;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(candidate, ignored) && access(candidate.c_str(), X_OK) == 0) {
      return std::filesystem::absolute(candidate);
    }
    first = last + 1;
  }
  throw IoError("cannot start '" + name + "': no such program in PATH (" + path + ")");
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& additions) {
  std::vector<std::string> merged;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (!additions.contains(name) && !is_kept_from_children(name)) merged.push_back(text);
  }
  for (const auto& [name, value] : additions) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// What the child needs between fork and exec, where it must not allocate nor lock.
struct ChildPlan {
  const char* program;
  const char* directory;  // null: the parent's
  char* const* arguments;
  char* const* environment;
  int streams[3];  // all above 2
  const int* inherited;
  size_t inherited_count;
  const int* kept;  // sorted: inherited and the error pipe
  size_t kept_count;
  int error_pipe;
  pid_t parent;
  std::optional<mode_t> mask;
  bool new_group, new_session, die_with_parent;
};

enum class ChildStep : int { kParent, kGroup, kStreams, kInherited, kDirectory, kExec };
struct ChildError {
  ChildStep step;
  int error_number;
};

[[noreturn]] void give_up(const ChildPlan& plan, ChildStep step, int error_number) {
  const ChildError error{step, error_number};
  [[maybe_unused]] const ssize_t written = write(plan.error_pipe, &error, sizeof error);
  _exit(127);
}

void close_range_or_each(unsigned first, unsigned last) {
  if (first > last || syscall(SYS_close_range, first, last, 0) == 0) return;
  struct rlimit limit {};
  const unsigned end = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<unsigned>(limit.rlim_cur) : 65536U;
  for (unsigned fd = first; fd <= last && fd < end; ++fd) close(static_cast<int>(fd));
}

// This function makes async-signal-safe calls only.
[[noreturn]] void run_child(const ChildPlan& plan) {
  if (plan.die_with_parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up(plan, ChildStep::kParent, errno);
    if (getppid() != plan.parent) _exit(127);  // the parent died before prctl
  }
  if (plan.new_session) {
    if (setsid() < 0) give_up(plan, ChildStep::kGroup, errno);
  } else if (plan.new_group) {
    if (setpgid(0, 0) != 0) give_up(plan, ChildStep::kGroup, errno);
  }
  for (int stream = 0; stream < 3; ++stream) {
    if (dup2(plan.streams[stream], stream) < 0) give_up(plan, ChildStep::kStreams, errno);
  }
  for (size_t i = 0; i < plan.inherited_count; ++i) {
    if (fcntl(plan.inherited[i], F_SETFD, 0) != 0) give_up(plan, ChildStep::kInherited, errno);
  }
  if (plan.directory != nullptr && chdir(plan.directory) != 0) give_up(plan, ChildStep::kDirectory, errno);
  unsigned next = 3;
  for (size_t i = 0; i < plan.kept_count; ++i) {
    const auto kept = static_cast<unsigned>(plan.kept[i]);
    if (kept < next) continue;
    if (kept > next) close_range_or_each(next, kept - 1);
    next = kept + 1;
  }
  close_range_or_each(next, ~0U);
  restore_descriptor_limit();

  if (plan.mask) umask(*plan.mask);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &standard, nullptr);  // exec keeps ignored ones
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(plan.program, plan.arguments, plan.environment);
  give_up(plan, ChildStep::kExec, errno);
}

// While an object lives, no signal handler of the parent runs in this thread, nor in a child that it forks.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// How the child ended; empty while it runs. The child is left unreaped, so that nobody else gets its pid and group.
std::optional<ProcessEnd> peek(pid_t pid) {
  siginfo_t info{};
  int result = 0;
  do {
    result = waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
  } while (result != 0 && errno == EINTR);
  MLBENCH_CHECK(result == 0, fmt::format("process {} was reaped by somebody else: {}", pid, errno_text(errno)));
  if (info.si_pid == 0) return std::nullopt;
  if (info.si_code == CLD_EXITED) return ProcessEnd{info.si_status, std::nullopt};
  return ProcessEnd{128 + info.si_status, info.si_status};
}

void reap(pid_t pid) {
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

FileDescriptor open_pidfd(pid_t pid) { return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

// Calls poll() until the deadline; where the process has no descriptor, for at most kPollInterval.
void poll_until(std::span<pollfd> descriptors, SteadyClock::time_point deadline, bool have_pidfd) {
  auto left = std::chrono::ceil<Milliseconds>(deadline - SteadyClock::now());
  left = std::clamp(left, Milliseconds(0), have_pidfd ? Milliseconds(3600000) : kPollInterval);
  if (poll(descriptors.data(), descriptors.size(), static_cast<int>(left.count())) < 0 && errno != EINTR) {
    throw_system_error("cannot wait for a process", errno);
  }
}

// Reads what is there. Closes the descriptor at the end of the stream.
void drain(FileDescriptor& fd, std::string& into) {
  char buffer[65536];
  while (fd) {
    const ssize_t count = read(fd.get(), buffer, sizeof buffer);
    if (count > 0) {
      into.append(buffer, static_cast<size_t>(count));
    } else if (count == 0) {
      fd.reset();
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      throw_system_error("cannot read the output of a process", errno);
    }
  }
}

}  // namespace

ChildProcess ChildProcess::start(const ProcessOptions& options) {
  MLBENCH_CHECK(!options.arguments.empty(), "a process needs a program");
  const std::string program = find_program(options.arguments[0]);
  const std::vector<std::string> environment = merged_environment(options.environment);
  const std::vector<char*> argument_pointers = pointers_to(options.arguments);
  // Some programs and libraries end, or find nothing, without a working folder.
  const std::filesystem::path directory =
      options.working_directory.empty() && working_folder_is_gone() ? "/" : options.working_directory;
  const std::vector<char*> environment_pointers = pointers_to(environment);

  const FileDescriptor input =
      options.standard_input >= 0
          ? copy_above_standard_streams(options.standard_input, "standard input")
          : copy_above_standard_streams(require(open("/dev/null", O_RDWR | O_CLOEXEC), "open /dev/null").get(),
                                        "standard input");
  FileDescriptor file;
  if (options.output) {
    file = require(open(options.output->c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644),
                   "open " + options.output->string());
  }
  const auto output_stream = [&](int given, int standard, const char* what) {
    if (given >= 0) return copy_above_standard_streams(given, what);
    if (file) return copy_above_standard_streams(file.get(), what);
    // A parent without the stream (a daemon) has none to hand down.
    const int inherited = fcntl(standard, F_DUPFD_CLOEXEC, 3);
    return inherited >= 0 ? FileDescriptor(inherited) : copy_above_standard_streams(input.get(), what);
  };
  const FileDescriptor output = output_stream(options.standard_output, STDOUT_FILENO, "standard output");
  const FileDescriptor error_output = output_stream(options.standard_error, STDERR_FILENO, "standard error");

  Pipe error_pipe = make_pipe();
  error_pipe.write_end = copy_above_standard_streams(error_pipe.write_end.get(), "error pipe");
  std::vector<int> kept = options.inherited;
  kept.push_back(error_pipe.write_end.get());
  std::sort(kept.begin(), kept.end());

  const ChildPlan plan{.program = program.c_str(),
                       .directory = directory.empty() ? nullptr : directory.c_str(),
                       .arguments = argument_pointers.data(),
                       .environment = environment_pointers.data(),
                       .streams = {input.get(), output.get(), error_output.get()},
                       .inherited = options.inherited.data(),
                       .inherited_count = options.inherited.size(),
                       .kept = kept.data(),
                       .kept_count = kept.size(),
                       .error_pipe = error_pipe.write_end.get(),
                       .parent = getpid(),
                       .mask = umask_of_the_user(),
                       .new_group = options.new_group,
                       .new_session = options.new_session,
                       .die_with_parent = options.die_with_parent};
  pid_t pid = -1;
  int fork_error = 0;
  {
    const SignalsBlocked blocked;
    pid = fork();
    if (pid == 0) run_child(plan);
    fork_error = errno;
  }
  if (pid < 0) throw_system_error("cannot start " + program + ": fork", fork_error);

  error_pipe.write_end.reset();
  ChildError error{};
  ssize_t count = 0;
  do {
    count = read(error_pipe.read_end.get(), &error, sizeof error);  // ends when exec closes the other end
  } while (count < 0 && errno == EINTR);
  if (count == static_cast<ssize_t>(sizeof error)) {
    reap(pid);
    static constexpr const char* kSteps[] = {": PR_SET_PDEATHSIG",      ": new group or session",  ": standard streams",
                                             ": inherited descriptors", ": its working directory", ""};
    throw_system_error("cannot start " + program + kSteps[static_cast<int>(error.step)], error.error_number);
  }
  return ChildProcess(pid, options.new_group || options.new_session);
}

std::optional<ProcessEnd> ChildProcess::wait(std::chrono::milliseconds timeout) {
  if (end_) return end_;
  const auto deadline = deadline_after(timeout);
  FileDescriptor pidfd;
  for (;;) {
    if (const auto end = peek(pid_)) {
      if (group_) kill(-pid_, SIGKILL);
      reap(pid_);
      return end_ = end;
    }
    if (SteadyClock::now() >= deadline) return std::nullopt;
    if (!pidfd) pidfd = open_pidfd(pid_);
    pollfd waited{pidfd.get(), POLLIN, 0};
    poll_until({&waited, 1}, deadline, static_cast<bool>(pidfd));
  }
}

void ChildProcess::signal(int signal_number) const {
  if (end_) return;  // the number may belong to another process by now
  if (kill(group_ ? -pid_ : pid_, signal_number) != 0 && errno != ESRCH) {
    throw_system_error(fmt::format("cannot send signal {} to process {}", signal_number, pid_), errno);
  }
}

ProcessEnd ChildProcess::stop(std::chrono::milliseconds patience) {
  signal(SIGTERM);
  signal(SIGCONT);
  if (const auto end = wait(patience)) return *end;
  signal(SIGKILL);
  if (const auto end = wait(kKillPatience)) return *end;
  throw IoError(fmt::format("process {} is still there {} s after SIGKILL", pid_,
                            std::chrono::duration_cast<std::chrono::seconds>(kKillPatience).count()));
}

bool program_exists(const std::string& name) {
  try {
    find_program(name);
    return true;
  } catch (const IoError&) {
    return false;
  }
}

ProcessOutput run_process(const ProcessOptions& options, std::chrono::milliseconds timeout) {
  MLBENCH_CHECK(!options.output && options.standard_output < 0 && options.standard_error < 0,
                "run_process collects both streams itself");
  const auto deadline = deadline_after(timeout);
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  ProcessOptions with_pipes = options;
  with_pipes.standard_output = output.write_end.get();
  with_pipes.standard_error = errors.write_end.get();
  ChildProcess child = ChildProcess::start(with_pipes);
  output.write_end.reset();
  errors.write_end.reset();
  for (const int fd : {output.read_end.get(), errors.read_end.get()}) fcntl(fd, F_SETFL, O_NONBLOCK);

  const FileDescriptor pidfd = open_pidfd(child.pid());
  ProcessOutput result;
  for (;;) {
    // The end first: what the process wrote before it is then in the pipes, whoever else still holds them.
    const auto end = child.wait(Milliseconds(0));
    drain(output.read_end, result.standard_output);
    drain(errors.read_end, result.standard_error);
    if (end) {
      result.end = *end;
      return result;
    }
    if (SteadyClock::now() >= deadline) {
      child.signal(SIGKILL);
      child.wait(kKillPatience);
      drain(errors.read_end, result.standard_error);
      const std::string line = last_line(result.standard_error);
      throw CommTimeout(fmt::format("'{}' did not end within {:g} s{}", fmt::join(options.arguments, " "),
                                    std::chrono::duration<double>(timeout).count(),
                                    line.empty() ? "" : "; its last error line: " + line));
    }
    pollfd waited[] = {
        {pidfd.get(), POLLIN, 0}, {output.read_end.get(), POLLIN, 0}, {errors.read_end.get(), POLLIN, 0}};
    poll_until(waited, deadline, static_cast<bool>(pidfd));
  }
}

}  // namespace mlbench
