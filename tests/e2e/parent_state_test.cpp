// What a parent may leave behind, for each program and each kind of run: it runs as from a terminal, or is refused
// before there is a run.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/words.h"
#include "tests/support/processes.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;
using test::eventually;
using testing::AnyOf;
using testing::HasSubstr;
using Words = std::vector<std::string>;

void close_streams(std::initializer_list<int> streams) {
  for (const int stream : streams) close(stream);
}

void put_in_place(int stream, const char* path) {
  const int fd = open(path, O_WRONLY);
  dup2(fd, stream);
  close(fd);
}

void set_limit(__rlimit_resource resource, rlim_t soft, std::optional<rlim_t> hard = std::nullopt) {
  rlimit limit{};
  getrlimit(resource, &limit);
  limit.rlim_cur = soft;
  if (hard) limit.rlim_max = *hard;
  setrlimit(resource, &limit);
}

void be_a_task_of_other_launchers() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK=3",
                               "OMPI_COMM_WORLD_SIZE=4",
                               "OMPI_COMM_WORLD_LOCAL_RANK=3",
                               "OMPI_MCA_ess=^singleton",
                               "OMPI_MCA_ess_base_jobid=1029177345",
                               "OMPI_MCA_ess_base_vpid=3",
                               "OMPI_MCA_orte_ess_num_procs=4",
                               "OMPI_MCA_orte_hnp_uri=1029177344.0;tcp://127.0.0.1:9",
                               "OMPI_MCA_orte_launch=1",
                               "OMPI_MCA_btl=none",
                               "PMIX_RANK=3",
                               "PMIX_NAMESPACE=1029177345",
                               "PMIX_SERVER_URI2=1029177344.0;tcp4://127.0.0.1:9",
                               "PMIX_SERVER_URI3=1029177344.0;tcp4://127.0.0.1:9",
                               "PMIX_GDS_MODULE=ds21,ds12,hash",
                               "PMI_RANK=3",
                               "PMI_SIZE=4",
                               "PMI_FD=9",
                               "SLURM_JOB_ID=7",
                               "SLURM_PROCID=3",
                               "SLURM_NTASKS=4",
                               "SLURM_LOCALID=3",
                               "SLURM_JOB_NODELIST=n[1-2]",
                               "RANK=3",
                               "WORLD_SIZE=4",
                               "LOCAL_RANK=3",
                               "MASTER_ADDR=192.0.2.1",
                               "MASTER_PORT=9",
                               "TORCHELASTIC_RUN_ID=x",
                               "HOROVOD_RANK=3",
                               "HOROVOD_SIZE=4",
                               "HOROVOD_GLOO_IFACE=none0",
                               "JOB_COMPLETION_INDEX=3",
                               "MLBENCH_RUN_ID=9",
                               "MLBENCH_OVERSUBSCRIBED=1",
                               "MLBENCH_CORES=[999]"}) {
    putenv(const_cast<char*>(variable));
  }
}

struct State {
  const char* name;
  std::function<void()> leave;  // in the child, before exec
  bool answers = true;          // standard output reaches somebody
  bool folder = true;           // there is a working folder
  std::string refused = {};     // what every program says of it instead of running
  bool about_ranks = false;     // it says who the process is: a rank's own matter
};

void PrintTo(const State& state, std::ostream* out) { *out << state.name; }

const std::vector<State>& states() {
  static const std::vector<State> all = {
      {"Nothing", [] {}},
      {"InputClosed", [] { close_streams({0}); }},
      {"OutputClosed", [] { close_streams({1}); }, false},
      {"ErrorsClosed", [] { close_streams({2}); }},
      {"AllClosed",
       [] {
         close_streams({0, 1, 2});
       },
       false},
      {"ErrorsFull", [] { put_in_place(2, "/dev/full"); }},
      {"SignalsIgnored",
       [] {
         for (int number = 1; number < NSIG; ++number) signal(number, SIG_IGN);
       }},
      {"SignalsBlocked",
       [] {
         sigset_t all;
         sigfillset(&all);
         sigprocmask(SIG_SETMASK, &all, nullptr);
       }},
      {"FolderGone",
       [] {
         char name[] = "/tmp/mlbench-gone-XXXXXX";
         if (mkdtemp(name) == nullptr || chdir(name) != 0 || rmdir(name) != 0) _exit(99);
       },
       true, false},
      {"OddUmask", [] { umask(0777); }},
      {"LowLimits",
       [] {
         set_limit(RLIMIT_NOFILE, 16);
         set_limit(RLIMIT_STACK, 65536);
         set_limit(RLIMIT_FSIZE, 1000);
       }},
      {"TooFewFiles", [] { set_limit(RLIMIT_NOFILE, 30, 30); }, true, true, "open files (ulimit -n) is 30, and 64 are"},
      {"TooSmallFiles", [] { set_limit(RLIMIT_FSIZE, 1000, 1000); }, true, true, "file sizes in bytes (ulimit -f"},
      {"OtherLaunchers", be_a_task_of_other_launchers, true, true, "", true},
      {"NoEnvironment",
       [] {
         const std::string home = getenv("MLBENCH_HOME"), lock = getenv("MLBENCH_CORE_LOCK");
         std::map<std::string, std::string> kept;
         for (const char* name : {"MLBENCH_TEST_MARK", "MLBENCH_GUARD"}) {
           if (const char* value = getenv(name)) kept[name] = value;
         }
         clearenv();
         setenv("MLBENCH_HOME", home.c_str(), 1);
         setenv("MLBENCH_CORE_LOCK", lock.c_str(), 1);
         for (const auto& [name, value] : kept) setenv(name.c_str(), value.c_str(), 1);
         for (const char* name : {"RANK", "LOCAL_RANK"}) setenv(name, "0", 1);  // of a guard's launcher
         for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) setenv(name, "1", 1);
       }},
  };
  return all;
}

class ParentState : public testing::TestWithParam<State> {
 protected:
  static void SetUpTestSuite() {
    home_ = std::make_unique<TemporaryFolder>();
    lock_ = std::make_unique<test::Variable>("MLBENCH_CORE_LOCK", (*home_ / "cores.lock").string());
    variable_ = std::make_unique<test::Variable>("MLBENCH_HOME", home_->path().string());
    // Data are prepared once; and there is a specification of either kind to start supervisors and workers with.
    ProcessOptions options;
    for (const Words& words : {task_run("task", "gloo", "1"), Words{"run", "command", "1", "--local", "--", "true"}}) {
      options.arguments = words;
      options.arguments.insert(options.arguments.begin(), program("mlbench"));
      const ProcessOutput output = run_process(options, 2 * test::kPatience);
      ASSERT_EQ(output.end.code, 0) << output.standard_error;
    }
  }
  static void TearDownTestSuite() {
    variable_.reset();
    lock_.reset();
    home_.reset();
  }
  ~ParentState() override { mark_.kill_all(); }

  static std::string program(const std::string& name) {
    return fs::path(environment_variable("MLBENCH_TEST_MLBENCH").value()).parent_path() / name;
  }

  static Words task_run(const std::string& name, const std::string& backend, const std::string& workers = "2") {
    return {"run",         name,          workers,       "--task", "fashion-mnist",        "--data",
            "made-images", "--synthetic", "--max-steps", "2",      "--threads-per-worker", "1",
            "--local",     "--backend",   backend};
  }

  struct Ended {
    int code = -1;
    std::string out, err;
    std::string said() const { return "exit code " + std::to_string(code) + "\n" + out + err; }
  };

  // In the state that the parent leaves behind.
  pid_t start(const Words& words) {
    for (const char* name : {"out", "err"}) fs::remove(*home_ / name);
    const pid_t child = fork();
    if (child != 0) return child;
    setsid();
    for (const int stream : {0, 1, 2}) {
      const fs::path path = stream == 0 ? "/dev/null" : (*home_ / (stream == 1 ? "out" : "err"));
      const int fd = open(path.c_str(), stream == 0 ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(fd, stream);
      close(fd);
    }
    GetParam().leave();
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    execv(pointers[0], pointers.data());
    _exit(98);
  }

  Ended end_of(pid_t child) {
    Ended ended;
    int status = 0;
    if (!eventually([&] { return waitpid(child, &status, WNOHANG) == child; })) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    }
    ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (fs::exists(*home_ / "out")) ended.out = read_file(*home_ / "out");
    if (fs::exists(*home_ / "err")) ended.err = read_file(*home_ / "err");
    return ended;
  }

  Ended run(const Words& words) { return end_of(start(words)); }

  static fs::path run_dir(const std::string& name) { return home_->path() / "runs" / name; }
  static Json record(const std::string& name) { return read_json_file(run_dir(name) / "run.json"); }
  static std::string test_name(const std::string& kind) { return std::string(GetParam().name) + "-" + kind; }

  // A command that ends with a run of that name.
  void expect_run(const Words& words, const std::string& run_name) {
    SCOPED_TRACE(run_name);
    Words command = words;
    command.insert(command.begin(), program("mlbench"));
    const Ended ended = run(command);
    if (!GetParam().refused.empty()) return expect_refusal(ended, run_name);
    EXPECT_EQ(ended.code, GetParam().answers ? 0 : 4) << ended.said();
    ASSERT_TRUE(fs::exists(run_dir(run_name) / "run.json")) << ended.said();
    EXPECT_EQ(record(run_name)["state"], "finished") << record(run_name)["failure"];
  }

  void expect_refusal(const Ended& ended, const std::string& run_name = "") {
    EXPECT_EQ(ended.code, 2) << ended.said();
    EXPECT_THAT(ended.err, HasSubstr(GetParam().refused));
    EXPECT_TRUE(run_name.empty() || !fs::exists(run_dir(run_name))) << "refused, and there is a run";
  }

  // A run that nobody has started yet, from the specification of another one.
  static fs::path new_run(const std::string& like, const std::string& name) {
    Json spec = read_json_file(run_dir(like) / "spec.json");
    spec["name"] = name;
    spec["run_dir"] = run_dir(name).string();
    fs::create_directories(run_dir(name));
    write_json_file(run_dir(name) / "spec.json", spec);
    return run_dir(name);
  }

  static std::unique_ptr<TemporaryFolder> home_;
  static std::unique_ptr<test::Variable> lock_, variable_;
  test::ProcessMark mark_{home_->path().string()};
};

std::unique_ptr<TemporaryFolder> ParentState::home_;
std::unique_ptr<test::Variable> ParentState::lock_, ParentState::variable_;

TEST_P(ParentState, RunsOfATask) {
  for (const char* backend : {"gloo", "mpi", "shm"}) {
    if (backend == std::string("mpi") && !program_exists("mpirun")) continue;
    const std::string name = test_name(backend);
    expect_run(task_run(name, backend), name + "-2");
  }
}

TEST_P(ParentState, RunsOfACommand) {
  // It sees nothing of what is odd.
  const std::string script =
      "test \"$RANK of $WORLD_SIZE\" = '0 of 1' -a -z \"$SLURM_JOB_ID$PMIX_NAMESPACE$OMPI_MCA_btl\" || exit 10; "
      "test \"$(umask | cut -c 2)\" = 0 || exit 11; pwd >/dev/null || exit 12; "
      "trap 'exit 0' TERM; (sleep 0.1; kill $$) & while :; do sleep 0.05; done";
  const std::string name = test_name("command");
  const Words words = {"run", name, "1", "--local", "--work-dir", "/tmp", "--", "/bin/sh", "-c", script};
  expect_run(words, name + "-1");
  if (GetParam().folder) return;
  // Its folder would be the one where the command was started.
  const std::string lost = test_name("lost");
  const Ended ended = run({program("mlbench"), "run", lost, "1", "--local", "--", "true"});
  EXPECT_THAT(ended.code, AnyOf(2, 4));
  EXPECT_THAT(ended.err, HasSubstr("folder in which this command was started is gone"));
  EXPECT_FALSE(fs::exists(run_dir(lost + "-1")));
}

TEST_P(ParentState, ARunThatIsToldToStop) {
  if (!GetParam().refused.empty()) GTEST_SKIP() << "missing capability: limits that let it run";
  const std::string name = test_name("stopped");
  const pid_t child =
      start({program("mlbench"), "run", name, "1", "--local", "--work-dir", "/tmp", "--", "sleep", "600"});
  EXPECT_TRUE(eventually([&] {
    return fs::exists(run_dir(name + "-1") / "run.json") && record(name + "-1").value("state", "") == "running";
  }));
  kill(child, SIGTERM);
  const Ended ended = end_of(child);
  EXPECT_THAT(ended.code, AnyOf(130, GetParam().answers ? 130 : 4)) << ended.said();
  EXPECT_EQ(record(name + "-1")["state"], "stopped");
}

TEST_P(ParentState, Serve) {
  const pid_t master = start({program("mlbench"), "serve", "--listen", "127.0.0.1:0"});
  if (!GetParam().refused.empty()) return expect_refusal(end_of(master));
  if (!GetParam().answers) {  // nobody would learn its address
    EXPECT_EQ(end_of(master).code, 4);
    return;
  }
  ASSERT_TRUE(eventually([&] {
    return fs::exists(*home_ / "out") && read_file(*home_ / "out").find("token in") != std::string::npos;
  })) << read_file(*home_ / "err");
  ProcessOptions submit;
  const std::string name = test_name("served");
  submit.arguments = {program("mlbench"), "run", name, "1", "--work-dir", "/tmp", "--", "true"};
  const ProcessOutput output = run_process(submit, test::kPatience);
  EXPECT_EQ(output.end.code, 0) << output.standard_error;
  EXPECT_THAT(output.standard_error, HasSubstr("belongs to the master"));
  // The command reads the supervisor's progress, which is written a moment before the record.
  EXPECT_TRUE(eventually([&] { return record(name + "-1")["state"] == "finished"; })) << record(name + "-1");
  kill(master, SIGTERM);
  EXPECT_EQ(end_of(master).code, 0);
}

TEST_P(ParentState, Supervise) {
  const std::string name = test_name("supervised");
  const fs::path folder = new_run("command-1", name);
  const Ended ended = run({program("mlbench"), "supervise", "--run-dir", folder, "--worker", program("mlbench-worker"),
                           "--core-lock", *home_ / "cores.lock", "--detached"});
  if (!GetParam().refused.empty()) return expect_refusal(ended);
  EXPECT_EQ(ended.code, 0) << ended.said();
  ASSERT_TRUE(fs::exists(folder / "run.json")) << ended.said();
  EXPECT_EQ(record(name)["state"], "finished") << record(name)["failure"];
}

TEST_P(ParentState, Guard) {
  guard::Listener listener;
  const test::Variable address(variables::kGuard, listener.address());
  const std::vector<std::pair<const char*, const char*>> rank = {
      {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}};
  for (const auto& [name, value] : rank) setenv(name, value, 1);
  const pid_t child =
      start({program("mlbench-guard"), "direct", "/bin/sh", "-c", "test \"$(umask | cut -c 2)\" = 0 && pwd && exit 7"});
  for (const auto& [name, value] : rank) unsetenv(name);
  if (!GetParam().refused.empty()) return expect_refusal(end_of(child));
  std::unique_ptr<guard::Channel> guard;
  std::string said;
  const fs::path log = *home_ / test_name("guard.out"), errors = *home_ / test_name("guard.err");
  EXPECT_TRUE(eventually([&] {
    if (!guard) guard = listener.accept();
    guard::Message message;
    if (!guard || guard->receive(message) != guard::Channel::Status::kMessage) return false;
    said += message.word + " ";
    if (message.word == "rank") guard->send("start", guard::StartWord{log, errors}.text());
    if (message.word == "end") said += message.text;
    return message.word == "end";
  })) << read_file(*home_ / "err");
  EXPECT_EQ(said, "rank pid end 7 0");
  guard.reset();
  EXPECT_EQ(end_of(child).code, 7);
}

TEST_P(ParentState, Worker) {
  Ended ended = run({program("mlbench-worker"), "--catalog"});
  if (!GetParam().refused.empty()) return expect_refusal(ended);
  EXPECT_EQ(ended.code, 0) << ended.said();
  EXPECT_THAT(ended.out, HasSubstr(GetParam().answers ? "\"backends\"" : ""));
  const fs::path folder = new_run("task-1", test_name("by-hand"));
  ended = run({program("mlbench-worker"), "--run-dir", folder});
  if (GetParam().about_ranks) {
    EXPECT_EQ(ended.code, 2) << ended.said();
    EXPECT_THAT(ended.err, HasSubstr("the run has 1 workers, but the environment"));
    return;
  }
  EXPECT_EQ(ended.code, 0) << ended.said();
  EXPECT_EQ(record(test_name("by-hand"))["state"], "finished");
}

INSTANTIATE_TEST_SUITE_P(All, ParentState, testing::ValuesIn(states()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mlbench
