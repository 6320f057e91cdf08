#include "mlbench/base/program_start.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/process.h"
#include "mlbench/base/signals.h"

namespace mlbench {
namespace {

constexpr std::chrono::seconds kChildPatience{60};

// In a process of its own: "" or what was wrong there, once `before` has left behind what a parent may.
std::string in_program(const std::function<void()>& before, const std::function<std::string()>& after,
                       bool launched = false) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "no pipe";
  FileDescriptor answer(ends[0]), tell(fcntl(ends[1], F_DUPFD_CLOEXEC, 10));
  close(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    std::string said;
    try {
      before();
      begin_program({.held = end_signals(), .launched = launched});
      said = after();
    } catch (const std::exception& error) {
      said = error.what();
    }
    write_all(tell.get(), said, "pipe");
    _exit(0);
  }
  tell.reset();
  std::string said;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(answer.get(), buffer, sizeof buffer)) > 0;) {
    said.append(buffer, static_cast<size_t>(count));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? said : "it was ended by signal " + std::to_string(WTERMSIG(status));
}

std::string says(const std::string& script) {
  ProcessOptions options;
  options.arguments = {"/bin/sh", "-c", script};
  return run_process(options, kChildPatience).standard_output;
}

TEST(ProgramStart, ClosedStandardDescriptorsAreNobodys) {
  const auto close_all = [] {
    for (const int stream : {0, 1, 2}) close(stream);
  };
  EXPECT_EQ(in_program(close_all,
                       []() -> std::string {
                         char byte = 0;
                         if (read(0, &byte, 1) != 0) return "input has more than an end";
                         if (write(1, "x", 1) != -1 || errno != EBADF) return "output goes somewhere";
                         if (write(2, "x", 1) != 1) return "errors end something";
                         return open("/dev/null", O_RDONLY | O_CLOEXEC) > 2 ? "" : "a file is a standard descriptor";
                       }),
            "");
}

TEST(ProgramStart, StandardDescriptorsBlock) {
  const auto no_waiting = [] {
    int ends[2];
    if (pipe2(ends, O_NONBLOCK) == 0) dup2(ends[1], 1);
  };
  EXPECT_EQ(in_program(no_waiting, [] { return std::string((fcntl(1, F_GETFL) & O_NONBLOCK) != 0 ? "no" : ""); }), "");
}

TEST(ProgramStart, SignalsAreNeitherBlockedNorIgnored) {
  const auto leave = [] {
    for (int number = 1; number < NSIG; ++number) signal(number, SIG_IGN);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
  };
  EXPECT_EQ(in_program(leave,
                       []() -> std::string {
                         sigset_t blocked;
                         sigprocmask(SIG_SETMASK, nullptr, &blocked);
                         for (int number = 1; number <= SIGRTMAX; ++number) {
                           const std::string name = std::to_string(number);
                           const bool held = number == SIGINT || number == SIGTERM;
                           if ((sigismember(&blocked, number) == 1) != held) return "blocked: " + name;
                           struct sigaction now {};
                           if (sigaction(number, nullptr, &now) != 0) continue;
                           // nohup, and errors of writing
                           const bool ignored = number == SIGHUP || number == SIGPIPE || number == SIGXFSZ;
                           const bool fixed = number == SIGKILL || number == SIGSTOP;
                           if (!fixed && (now.sa_handler == SIG_IGN) != ignored) return "ignored: " + name;
                         }
                         return says("exit 3").empty() ? "" : "a child's end is not seen";
                       }),
            "");
  EXPECT_EQ(in_program([] {}, [] { return std::string(signal(SIGHUP, SIG_DFL) == SIG_IGN ? "SIGHUP" : ""); }), "");
}

TEST(ProgramStart, TheUmaskTakesNothingFromTheOwner) {
  const TemporaryFolder folder;
  const auto body = [&] {
    write_file_atomically(folder / "ours", "x");
    struct stat info {};
    stat((folder / "ours").c_str(), &info);
    return std::to_string(info.st_mode & 0777) + " " + says("umask");
  };
  EXPECT_EQ(in_program([] { umask(0777); }, body), "384 0077\n");
  EXPECT_EQ(in_program([] { umask(0); }, body), "384 0000\n");
}

TEST(ProgramStart, LimitsAreRaised) {
  const auto low = [] {
    for (const auto resource : {RLIMIT_NOFILE, RLIMIT_STACK, RLIMIT_FSIZE}) {
      rlimit limit{};
      getrlimit(resource, &limit);
      limit.rlim_cur = resource == RLIMIT_NOFILE ? 20 : 65536;
      setrlimit(resource, &limit);
    }
  };
  EXPECT_EQ(in_program(low,
                       [] {
                         pthread_t thread;
                         const auto deep = [](void*) -> void* {
                           volatile char room[1 << 20];
                           memset(const_cast<char*>(room), 1, sizeof room);
                           return nullptr;
                         };
                         if (pthread_create(&thread, nullptr, deep, nullptr) != 0) return std::string("no thread");
                         pthread_join(thread, nullptr);
                         rlimit files{}, stack{}, size{};
                         getrlimit(RLIMIT_NOFILE, &files);
                         getrlimit(RLIMIT_STACK, &stack);
                         getrlimit(RLIMIT_FSIZE, &size);
                         return std::to_string(files.rlim_cur) + " " + std::to_string(stack.rlim_cur >> 20) + " " +
                                (size.rlim_cur == size.rlim_max ? "all " : "less ") + says("ulimit -n");
                       }),
            "1024 8 all 1024\n");
}

// `ulimit -S -t 3600` in a shell's start-up file, say, would end a long run.
TEST(ProgramStart, LimitsOfTimeAndMemoryAreRaisedToTheHardOnes) {
  static constexpr std::array kResources = {RLIMIT_CPU, RLIMIT_AS, RLIMIT_DATA, RLIMIT_NPROC};
  const auto low = [] {
    for (const auto resource : kResources) {
      rlimit limit{};
      getrlimit(resource, &limit);
      limit.rlim_cur =
          std::min(resource == RLIMIT_CPU || resource == RLIMIT_NPROC ? 3600 : rlim_t{1} << 60, limit.rlim_max);
      setrlimit(resource, &limit);
    }
  };
  const auto still_low = [] {
    std::string numbers;
    for (const auto resource : kResources) {
      rlimit limit{};
      getrlimit(resource, &limit);
      if (limit.rlim_cur != limit.rlim_max) numbers += std::to_string(resource) + " ";
    }
    return numbers;
  };
  EXPECT_EQ(in_program(low, still_low), "");
}

TEST(ProgramStart, ALimitThatCannotBeRaisedIsRefused) {
  const auto too_low = [] {
    const rlimit limit{20, 20};
    setrlimit(RLIMIT_NOFILE, &limit);
  };
  EXPECT_EQ(in_program(too_low, [] { return std::string(); }),
            "the limit of open files (ulimit -n) is 20, and 64 are needed: raise it");
}

TEST(ProgramStart, VariablesOfAnotherLauncherStayHere) {
  const auto leave = [] {
    setenv("OMPI_MCA_ess_base_jobid", "7", 1);
    setenv("PMIX_RANK", "3", 1);
    setenv("SLURM_JOB_ID", "12", 1);
    setenv("SLURM_CONF", "/etc/x", 1);
    setenv("SLURM_PROCID", "3", 1);
  };
  const std::string see = "env | grep -E '^(OMPI|PMIX|SLURM)' | sort | tr '\\n' ' '";
  const auto children = [&] {
    ProcessOptions named;
    named.arguments = {"/bin/sh", "-c", see};
    named.environment = {{"SLURM_JOB_ID", getenv("SLURM_JOB_ID")}};
    return says(see) + "| " + run_process(named, kChildPatience).standard_output;
  };
  EXPECT_EQ(in_program(leave, children), "SLURM_CONF=/etc/x | SLURM_CONF=/etc/x SLURM_JOB_ID=12 ");
  EXPECT_THAT(in_program(leave, children, true), testing::HasSubstr("PMIX_RANK=3")) << "a rank's are its own";
  // What a user sets for all of his runs is no launcher's.
  EXPECT_EQ(in_program([] { setenv("OMPI_MCA_btl", "self", 1); }, [&] { return says(see); }), "OMPI_MCA_btl=self ");
}

TEST(ProgramStart, ChildrenAreSomewhere) {
  const TemporaryFolder folder;
  const auto leave = [&] {
    std::filesystem::create_directory(folder / "gone");
    std::filesystem::current_path(folder / "gone");
    std::filesystem::remove(folder / "gone");
  };
  EXPECT_EQ(in_program(leave, [] { return (working_folder_is_gone() ? "" : "it is there ") + says("pwd"); }), "/\n");
  EXPECT_FALSE(working_folder_is_gone());
}

}  // namespace
}  // namespace mlbench
