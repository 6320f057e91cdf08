#include "mlbench/base/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"

namespace mlbench {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr auto kPatience = 60s;  // for what happens soon on a machine with nothing else to do

ProcessOptions shell(const std::string& script) {
  ProcessOptions options;
  options.arguments = {"/bin/sh", "-c", script};
  options.die_with_parent = true;
  return options;
}

ProcessOutput run_shell(const std::string& script) { return run_process(shell(script), kPatience); }

// Gone, or a zombie that nobody reaps (in a container whose first process does not).
bool gone(pid_t pid) {
  if (kill(pid, 0) != 0) return true;
  try {
    const std::string status = read_file("/proc/" + std::to_string(pid) + "/stat");
    return status.substr(status.rfind(')') + 2, 1) == "Z";
  } catch (const IoError&) {
    return true;
  }
}

bool soon_gone(pid_t pid) {
  for (const auto deadline = std::chrono::steady_clock::now() + kPatience;
       std::chrono::steady_clock::now() < deadline;) {
    if (gone(pid)) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

struct Pipe {
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    read_end = FileDescriptor(ends[0]);
    write_end = FileDescriptor(ends[1]);
  }
  // Starts a process that writes here, and waits until it has written.
  ChildProcess start(ProcessOptions options) {
    options.standard_output = write_end.get();
    ChildProcess child = ChildProcess::start(options);
    write_end.reset();
    char buffer[32] = {};
    EXPECT_GT(read(read_end.get(), buffer, sizeof buffer - 1), 0);
    said = buffer;
    return child;
  }

  FileDescriptor read_end, write_end;
  std::string said;
};

class Process : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

// ---- how it starts -------------------------------------------------------------------------------------------------

TEST_F(Process, ArgumentsArriveAsTheyAre) {
  ProcessOptions options;
  options.arguments = {"/usr/bin/printf", "%s|", "a b", "", "$HOME", "'\"", "*"};
  EXPECT_EQ(run_process(options, kPatience).standard_output, "a b||$HOME|'\"|*|");
}

TEST_F(Process, ProgramsAreFoundInPath) {
  ProcessOptions options;
  options.arguments = {"true"};
  EXPECT_EQ(run_process(options, kPatience).end.code, 0);
  options.arguments = {"mlbench-no-such-program"};
  EXPECT_THAT([&] { ChildProcess::start(options); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("'mlbench-no-such-program'"), HasSubstr("PATH"))));
}

TEST_F(Process, WhatExecSaysComesBack) {
  ProcessOptions options;
  options.arguments = {(folder_ / "absent").string()};
  EXPECT_THAT([&] { ChildProcess::start(options); },
              ThrowsMessage<IoError>(AllOf(HasSubstr(options.arguments[0]), HasSubstr("No such file or directory"))));
  write_file_atomically(folder_ / "plain", "text");  // not executable, for root neither
  options.arguments = {(folder_ / "plain").string()};
  EXPECT_THAT([&] { ChildProcess::start(options); }, ThrowsMessage<IoError>(HasSubstr("Permission denied")));
  chmod((folder_ / "plain").c_str(), 0755);
  EXPECT_THAT([&] { ChildProcess::start(options); }, ThrowsMessage<IoError>(HasSubstr("Exec format error")));
}

TEST_F(Process, EnvironmentIsAddedToAndReplaced) {
  setenv("MLBENCH_TEST_KEPT", "kept", 1);
  setenv("MLBENCH_TEST_REPLACED", "old", 1);
  ProcessOptions options = shell("echo $MLBENCH_TEST_KEPT $MLBENCH_TEST_REPLACED $MLBENCH_TEST_ADDED");
  options.environment = {{"MLBENCH_TEST_REPLACED", "new"}, {"MLBENCH_TEST_ADDED", "a=b"}};
  EXPECT_EQ(run_process(options, kPatience).standard_output, "kept new a=b\n");
  unsetenv("MLBENCH_TEST_KEPT");
  unsetenv("MLBENCH_TEST_REPLACED");
}

TEST_F(Process, OutputIsAppendedToTheFile) {
  write_file_atomically(folder_ / "log", "before\n");
  ProcessOptions options = shell("echo out; echo err >&2");
  options.output = folder_ / "log";
  ChildProcess child = ChildProcess::start(options);
  EXPECT_EQ(child.wait(kPatience), (ProcessEnd{0, std::nullopt}));
  EXPECT_EQ(read_file(folder_ / "log"), "before\nout\nerr\n");
  options.output = folder_ / "no/log";
  EXPECT_THAT([&] { ChildProcess::start(options); }, ThrowsMessage<IoError>(HasSubstr((folder_ / "no/log").string())));
}

TEST_F(Process, StandardInputIsEmptyOrGiven) {
  ProcessOptions options;
  options.arguments = {"cat"};
  EXPECT_EQ(run_process(options, kPatience).standard_output, "");
  Pipe pipe;
  write_all(pipe.write_end.get(), "hello", "pipe");
  pipe.write_end.reset();
  options.standard_input = pipe.read_end.get();
  EXPECT_EQ(run_process(options, kPatience).standard_output, "hello");
}

TEST_F(Process, OnlyNamedDescriptorsStayOpen) {
  // `low` and `high` lack O_CLOEXEC, and there are gaps between the numbers.
  const FileDescriptor low(fcntl(open("/dev/null", O_RDONLY | O_CLOEXEC), F_DUPFD, 20));
  const FileDescriptor kept(fcntl(low.get(), F_DUPFD_CLOEXEC, 40));
  const FileDescriptor high(fcntl(low.get(), F_DUPFD, 60));
  ProcessOptions options = shell("for fd in $(seq 0 200); do [ -e /proc/$$/fd/$fd ] && echo $fd; done; true");
  options.inherited = {kept.get()};
  EXPECT_EQ(run_process(options, kPatience).standard_output, "0\n1\n2\n" + std::to_string(kept.get()) + "\n");
  const int closed = high.get() + 100;
  options.inherited = {closed};
  EXPECT_THAT([&] { run_process(options, kPatience); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("inherited descriptors"), HasSubstr("Bad file descriptor"))));
}

TEST_F(Process, SignalHandlingIsTheDefault) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto pipe_before = std::signal(SIGPIPE, SIG_IGN);
  ProcessOptions options;
  options.arguments = {"grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"};
  const ProcessOutput result = run_process(options, kPatience);
  std::signal(SIGPIPE, pipe_before);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(result.standard_output, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_F(Process, TheParentsSignalMaskIsKept) {
  sigset_t before, after;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  run_shell("true");
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (int number = 1; number < NSIG; ++number) EXPECT_EQ(sigismember(&before, number), sigismember(&after, number));
}

TEST_F(Process, GroupsAndSessions) {
  // Fields 5 and 6 of stat: process group and session.
  const std::string script = "set -- $(cat /proc/$$/stat); echo $1 $5 $6";
  const auto ids = [&](bool new_group, bool new_session) {
    ProcessOptions options = shell(script);
    options.new_group = new_group;
    options.new_session = new_session;
    std::istringstream in(run_process(options, kPatience).standard_output);
    std::array<pid_t, 3> numbers{};
    for (pid_t& number : numbers) in >> number;
    return numbers;
  };
  const auto [pid, group, session] = ids(true, false);
  EXPECT_EQ(group, pid);
  EXPECT_EQ(session, getsid(0));
  const auto [own_pid, same_group, same_session] = ids(false, false);
  EXPECT_NE(own_pid, same_group);
  EXPECT_EQ(same_group, getpgrp());
  const auto [leader, leaders_group, new_session] = ids(true, true);
  EXPECT_EQ(leaders_group, leader);
  EXPECT_EQ(new_session, leader);
}

TEST_F(Process, ManyThreadsStartProcesses) {
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 8; ++i) {
        const int code = t * 10 + i;
        const ProcessOutput result = run_shell("echo " + std::to_string(code) + "; exit " + std::to_string(code));
        right += result.end.code == code && result.standard_output == std::to_string(code) + "\n";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 32);
}

// ---- how it ends ---------------------------------------------------------------------------------------------------

TEST_F(Process, ExitCodesAndSignals) {
  EXPECT_EQ(run_shell("exit 0").end, (ProcessEnd{0, std::nullopt}));
  EXPECT_EQ(run_shell("exit 7").end, (ProcessEnd{7, std::nullopt}));
  EXPECT_EQ(run_shell("exit 255").end, (ProcessEnd{255, std::nullopt}));
  EXPECT_EQ(run_shell("kill -KILL $$").end, (ProcessEnd{137, SIGKILL}));
  EXPECT_EQ(run_shell("kill -SEGV $$").end, (ProcessEnd{139, SIGSEGV}));
}

TEST_F(Process, WaitGivesUpAfterTheTimeoutAndRemembersTheEnd) {
  ChildProcess child = ChildProcess::start(shell("exec sleep 60"));
  const auto before = std::chrono::steady_clock::now();
  EXPECT_FALSE(child.wait(0ms));
  EXPECT_FALSE(child.wait(50ms));
  EXPECT_GE(std::chrono::steady_clock::now() - before, 50ms);
  child.signal(SIGINT);
  EXPECT_EQ(child.wait(std::chrono::milliseconds::max()), (ProcessEnd{130, SIGINT}));
  EXPECT_EQ(child.wait(0ms), (ProcessEnd{130, SIGINT}));
  EXPECT_NO_THROW(child.signal(SIGKILL));  // reaches nobody
  EXPECT_EQ(child.stop(0ms), (ProcessEnd{130, SIGINT}));
}

TEST_F(Process, StopAsksFirst) {
  // It is ready when the trap is set.
  ChildProcess child = Pipe().start(shell("trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done"));
  EXPECT_EQ(child.stop(kPatience), (ProcessEnd{9, std::nullopt}));
}

TEST_F(Process, StopKillsWhatDoesNotListenOrStandsStill) {
  ChildProcess deaf = Pipe().start(shell("trap '' TERM; echo ready; while :; do sleep 0.01; done"));
  EXPECT_EQ(deaf.stop(20ms), (ProcessEnd{137, SIGKILL}));

  ChildProcess stopped = ChildProcess::start(shell("exec sleep 60"));
  stopped.signal(SIGSTOP);
  EXPECT_EQ(stopped.stop(kPatience), (ProcessEnd{143, SIGTERM}));
}

TEST_F(Process, SignalsReachTheWholeGroup) {
  Pipe pipe;
  ChildProcess child = pipe.start(shell("sleep 60 & echo $!; wait"));
  const pid_t grandchild = std::stoi(pipe.said);
  ASSERT_FALSE(gone(grandchild));
  child.stop(kPatience);
  EXPECT_TRUE(soon_gone(grandchild));
}

TEST_F(Process, WhatItLeavesBehindInItsGroupIsKilled) {
  // The background process keeps the pipes open: it must not keep us waiting either.
  const ProcessOutput result = run_shell("sleep 600 & echo $!");
  EXPECT_EQ(result.end.code, 0);
  EXPECT_TRUE(soon_gone(std::stoi(result.standard_output)));
}

TEST_F(Process, DiesWithItsParent) {
  ProcessOptions options;
  options.arguments = {program_path(), "--parent-of-sleep"};
  Pipe pipe;
  ChildProcess parent = pipe.start(options);
  const pid_t grandchild = std::stoi(pipe.said);  // in a group of its own
  ASSERT_FALSE(gone(grandchild));
  kill(parent.pid(), SIGKILL);
  EXPECT_TRUE(soon_gone(grandchild));
  EXPECT_EQ(parent.wait(kPatience), (ProcessEnd{137, SIGKILL}));
}

// ---- run_process ---------------------------------------------------------------------------------------------------

TEST_F(Process, BothStreamsAreCollectedWhole) {
  // Each more than a pipe holds, alternating: a reader of one stream at a time would hang.
  const ProcessOutput result = run_shell(
      "i=0; while [ $i -lt 40 ]; do head -c 10000 /dev/zero | tr '\\0' o; head -c 10000 /dev/zero | tr '\\0' e >&2; "
      "i=$((i+1)); done");
  EXPECT_EQ(result.end.code, 0);
  EXPECT_TRUE(result.standard_output == std::string(400000, 'o')) << result.standard_output.size();
  EXPECT_TRUE(result.standard_error == std::string(400000, 'e')) << result.standard_error.size();
}

TEST_F(Process, ATimeoutNamesCommandTimeAndLastWords) {
  try {
    run_process(shell("echo first >&2; sleep 600 & echo $! >&2; wait"), 2s);
    FAIL() << "it ended";
  } catch (const CommTimeout& error) {
    const std::string text = error.what();
    EXPECT_THAT(text, AllOf(HasSubstr("/bin/sh -c"), HasSubstr("within 2 s"), HasSubstr("its last error line: ")));
    EXPECT_TRUE(soon_gone(std::stoi(text.substr(text.rfind(' ')))));
  }
}

TEST_F(Process, LooksForAProgramInThePath) {
  EXPECT_TRUE(program_exists("sh"));
  EXPECT_FALSE(program_exists("no-such-program-of-mlbench"));
}

}  // namespace
}  // namespace mlbench

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--parent-of-sleep") {
    mlbench::ProcessOptions options;
    options.arguments = {"sleep", "600"};
    options.die_with_parent = true;
    options.standard_output = STDERR_FILENO;  // our own output ends with us
    const auto child = mlbench::ChildProcess::start(options);
    mlbench::write_all(STDOUT_FILENO, std::to_string(child.pid()) + "\n", "pipe");
    pause();
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
