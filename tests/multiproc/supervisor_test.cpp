// The supervisor with real processes: outcome, culprit and record of each way a run can end. Patience is generous:
// nothing here measures how fast it is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/sha256.h"
#include "mlbench/exec/local/local.h"
#include "mlbench/exec/test_executor.h"
#include "mlbench/exec/test_linked_executor.h"
#include "mlbench/net/test_relay.h"
#include "mlbench/record/usage_lines.h"
#include "mlbench/supervise/lease.h"
#include "mlbench/supervise/orderly_stop.h"
#include "mlbench/supervise/progress.h"
#include "mlbench/supervise/supervisor.h"
#include "tests/support/control_group.h"
#include "tests/support/processes.h"

namespace mlbench::supervise {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::kPatience;
using test::Variable;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

class SupervisorTest : public testing::Test {
 protected:
  ~SupervisorTest() override { mark_.kill_all(); }

  fs::path make_run(const std::string& name, int64_t workers, double comm_timeout_s = 60) {
    spec::RunSpec run;
    run.id = ++last_id_;
    run.name = name;
    run.created_at = "2026-01-31T12:00:00.000000Z";
    run.task = spec::find_task("fashion-mnist", "", "", {});
    run.division = "closed";
    run.workers = workers;
    run.comm_timeout_s = comm_timeout_s;
    run.data_name = "fashion-mnist";
    run.backend = backend_;
    const fs::path dir = folder_.path() / "runs" / name;
    run.run_dir = dir;
    run.cache_dir = folder_.path() / "cache";
    fs::create_directories(dir);
    write_json_file(dir / "spec.json", spec::to_json(run));
    return dir;
  }

  // A custom run of a script of the shell.
  fs::path make_command(const std::string& name, int64_t workers, const std::string& script,
                        std::vector<std::string> environment = {}) {
    const fs::path dir = make_run(name, workers);
    spec::RunSpec run = spec::run_spec_from_json(read_json_file(dir / "spec.json"));
    spec::set_command(run, {{"/bin/sh", "-c", script}, folder_.path(), std::move(environment)});
    write_json_file(dir / "spec.json", spec::to_json(run));
    return dir;
  }

  static void wait_for_logs(const fs::path& run_dir, int workers, const std::string& text) {
    EXPECT_TRUE(eventually([&] {
      for (int rank = 0; rank < workers; ++rank) {
        const fs::path log = rank_log_path(run_dir / "logs", 1, rank, LogStream::kStdout);
        if (!fs::exists(log) || read_file(log).find(text) == std::string::npos) return false;
      }
      return true;
    })) << "the ranks never said "
        << text;
  }

  SupervisorOptions options(const fs::path& run_dir) const {
    SupervisorOptions options;
    options.run_dir = run_dir;
    options.worker = FAKE_WORKER;
    options.core_lock = folder_.path() / "cores.lock";
    return options;
  }

  static SupervisorHandle start(const SupervisorOptions& options) {
    return SupervisorHandle::start(FAKE_SUPERVISOR, options);
  }

  static int wait(SupervisorHandle& handle) {
    const auto end = handle.wait(kPatience);
    EXPECT_TRUE(end) << "the supervisor never ended";
    return end ? end->code : -1;
  }

  static int stop(SupervisorHandle& handle) {
    handle.request_stop();
    return wait(handle);
  }

  int run(const SupervisorOptions& options) {
    SupervisorHandle handle = start(options);
    return wait(handle);
  }

  static Json record(const fs::path& run_dir) { return read_json_file(run_dir / "run.json"); }

  static std::string state(const fs::path& run_dir) {
    return fs::exists(run_dir / "run.json") ? record(run_dir).value("state", "") : "";
  }

  static size_t steps_recorded(const fs::path& run_dir, int64_t rank, int64_t segment = 1) {
    return record::read_spool(run_dir, segment, rank).steps.size();
  }

  // Waits until all ranks work (and heartbeats said so), and gives their pids.
  std::vector<pid_t> wait_for_work(const fs::path& run_dir, int workers) {
    EXPECT_TRUE(eventually([&] {
      for (int rank = 0; rank < workers; ++rank) {
        if (steps_recorded(run_dir, rank) < 50) return false;
      }
      const auto lease = read_lease(run_dir);
      return lease && lease->ranks.size() == static_cast<size_t>(workers);
    })) << "the ranks never worked";
    std::vector<pid_t> pids;
    if (const auto lease = read_lease(run_dir)) {
      for (const ProcessIdentity& rank : lease->ranks) pids.push_back(rank.pid);
    }
    pids.resize(static_cast<size_t>(workers));
    return pids;
  }

  SupervisorHandle start_to_work(const fs::path& run_dir, int workers) {
    SupervisorHandle handle = start(options(run_dir));
    wait_for_work(run_dir, workers);
    return handle;
  }

  void TearDown() override { expect_no_process_left(); }

  void expect_no_process_left() {
    EXPECT_TRUE(eventually([&] { return mark_.processes().empty(); }))
        << "orphans: " << testing::PrintToString(mark_.processes());
    EXPECT_TRUE(FileLock::acquire(folder_.path() / "cores.lock", 0ms)) << "the cores are not free";
  }

  std::string backend_ = "gloo";
  TemporaryFolder folder_;
  test::ProcessMark mark_{folder_.path()};
  int64_t last_id_ = 0;
};

// For what must hold however the ranks are started: with mpi, by mpirun.
class SupervisorOfEachTest : public SupervisorTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    backend_ = GetParam();
    if (backend_ == "mpi" && !program_exists("mpirun")) GTEST_SKIP() << "missing capability: mpirun";
  }
};

INSTANTIATE_TEST_SUITE_P(BackEnds, SupervisorOfEachTest, testing::Values("gloo", "mpi"),
                         [](const auto& info) { return std::string(info.param); });

// ---- success --------------------------------------------------------------------------------------------------------

TEST_P(SupervisorOfEachTest, RunFinishes) {
  const fs::path dir = make_run("ok-2", 2);
  EXPECT_EQ(run(options(dir)), 0);
  const Json json = record(dir);
  EXPECT_EQ(json["state"], "finished");
  EXPECT_EQ(json["exit_codes"], Json({0, 0}));
  EXPECT_TRUE(json["failure"].is_null());
  ASSERT_EQ(json["segments"].size(), 1u);
  EXPECT_EQ(json["segments"][0]["index"], 1);
  ASSERT_EQ(json["hosts"].size(), 1u);
  EXPECT_EQ(json["hosts"][0]["name"], host_name());
  EXPECT_FALSE(json["hosts"][0].contains("environment")) << "the record's own";
  ASSERT_EQ(json["placement"].size(), 2u);
  EXPECT_EQ(json["placement"][1]["host"], host_name());
  EXPECT_EQ(json["placement"][1]["local_rank"], 1);
  EXPECT_EQ(json["clocks"]["queue_s"], 0.0);
  EXPECT_EQ(json["environment"]["libraries"]["fake_library"], "1.2") << "the worker's own versions";
  EXPECT_TRUE(json["environment"].contains("git_describe"));
  EXPECT_GT(json["clocks"]["wall_s"].get<double>(), 0.2) << "20 steps of 10 ms";
  EXPECT_LT(parse_utc(json["started_at"].get<std::string>()), parse_utc(json["finished_at"].get<std::string>()));
  EXPECT_FALSE(json["oversubscribed"].get<bool>());
  EXPECT_EQ(steps_recorded(dir, 0), 20u);
  EXPECT_EQ(steps_recorded(dir, 1), 20u);
  EXPECT_FALSE(lease_held(dir));
  EXPECT_FALSE(settle_if_lost(dir)) << "nothing to settle";
}

TEST_F(SupervisorTest, RecordIsThereWhileItRuns) {
  const Variable steps("FAKE_STEPS", "100000");
  const fs::path dir = make_run("live-1", 1);
  SupervisorHandle handle = start_to_work(dir, 1);
  EXPECT_EQ(state(dir), "running");
  EXPECT_TRUE(lease_held(dir));
  EXPECT_FALSE(settle_if_lost(dir)) << "it is alive";
  const auto wall = [&] { return record(dir)["clocks"]["wall_s"].get<double>(); };
  const double before = wall();
  EXPECT_TRUE(eventually([&] { return wall() > before; })) << "the record is not refreshed";
  EXPECT_EQ(stop(handle), static_cast<int>(ExitCode::kStopped));
}

TEST_P(SupervisorOfEachTest, SecretIsNotInTheArgumentsNorOnDisk) {
  const Variable steps("FAKE_STEPS", "100000");
  const fs::path dir = make_run("secret-1", 1);
  SupervisorHandle handle = start(options(dir));
  const pid_t rank = wait_for_work(dir, 1)[0];
  const std::string environment = read_file("/proc/" + std::to_string(rank) + "/environ");
  const size_t at = environment.find("MLBENCH_SECRET=");
  ASSERT_NE(at, std::string::npos);
  const std::string secret = environment.substr(at + 15, 32);
  EXPECT_EQ(secret.find_first_not_of("0123456789abcdef"), std::string::npos) << secret;
  for (const pid_t pid : mark_.processes()) {
    EXPECT_EQ(read_file("/proc/" + std::to_string(pid) + "/cmdline").find(secret), std::string::npos);
  }
  handle.request_stop();
  wait(handle);
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    if (entry.is_regular_file()) {
      EXPECT_EQ(read_file(entry.path()).find(secret), std::string::npos) << entry.path();
    }
  }
}

// ---- a rank breaks --------------------------------------------------------------------------------------------------

TEST_P(SupervisorOfEachTest, KilledRankIsNamed) {
  const Variable steps("FAKE_STEPS", "100000");
  const fs::path dir = make_run("killed-3", 3);
  SupervisorHandle handle = start(options(dir));
  const auto ranks = wait_for_work(dir, 3);
  kill(ranks[1], SIGKILL);
  EXPECT_EQ(wait(handle), static_cast<int>(ExitCode::kRunFailed));
  const Json json = record(dir);
  EXPECT_EQ(json["state"], "failed");
  const Json& failure = json["failure"];
  EXPECT_EQ(failure["kind"], "rank_died");
  EXPECT_EQ(failure["rank"], 1);
  EXPECT_EQ(failure["host"], host_name());
  EXPECT_EQ(failure["operation"], "all_reduce");
  EXPECT_GE(failure["sequence"].get<int64_t>(), 0);
  EXPECT_THAT(failure["message"].get<std::string>(),
              HasSubstr("rank 1 on " + host_name() + " was killed by signal 9 (SIGKILL)"));
  EXPECT_THAT(failure["log_tail"].get<std::vector<std::string>>(), Contains("fake worker, rank 1 of 3"));
  EXPECT_EQ(json["exit_codes"][1], 137);
  EXPECT_NE(json["exit_codes"][0], 0);
  EXPECT_NE(json["exit_codes"][2], 0);
  EXPECT_GE(steps_recorded(dir, 0), 50u) << "what was measured stays";
}

TEST_P(SupervisorOfEachTest, StoppedRankIsNamed) {
  const Variable steps("FAKE_STEPS", "100000");
  const fs::path dir = make_run("frozen-2", 2, 2);
  SupervisorHandle handle = start(options(dir));
  const auto ranks = wait_for_work(dir, 2);
  kill(ranks[0], SIGSTOP);
  EXPECT_EQ(wait(handle), static_cast<int>(ExitCode::kRunFailed));
  const Json json = record(dir);
  EXPECT_EQ(json["failure"]["kind"], "comm_timeout");
  EXPECT_EQ(json["failure"]["rank"], 0);
  EXPECT_EQ(json["failure"]["operation"], "all_reduce");
  EXPECT_THAT(json["failure"]["message"].get<std::string>(), HasSubstr("rank 0 on " + host_name() + " is stopped"));
  EXPECT_THAT(json["failure"]["message"].get<std::string>(), HasSubstr("rank 1 reported: all_reduce"));
}

TEST_F(SupervisorTest, StoppedOnlyRankIsNoticedByTheSupervisor) {
  const Variable steps("FAKE_STEPS", "100000");
  const fs::path dir = make_run("frozen-1", 1, 2);
  SupervisorHandle handle = start(options(dir));
  kill(wait_for_work(dir, 1)[0], SIGSTOP);
  EXPECT_EQ(wait(handle), static_cast<int>(ExitCode::kRunFailed));
  EXPECT_EQ(record(dir)["failure"]["kind"], "comm_timeout");
  EXPECT_THAT(record(dir)["failure"]["message"].get<std::string>(), HasSubstr("is stopped"));
}

// All steps are done; only who would tell so is stopped.
TEST_P(SupervisorOfEachTest, AStoppedGuardIsNoFailureOfItsRank) {
  const Variable steps("FAKE_STEPS", "200");
  const fs::path dir = make_run("guarded-2", 2, 3);
  SupervisorHandle handle = start(options(dir));
  const auto ranks = wait_for_work(dir, 2);
  const auto rank = process_status(ranks[1]);
  ASSERT_TRUE(rank);
  kill(rank->parent, SIGSTOP);
  EXPECT_EQ(wait(handle), 0);
  EXPECT_EQ(record(dir)["state"], "finished");
  EXPECT_EQ(record(dir)["exit_codes"], Json({0, 0}));
}

TEST_P(SupervisorOfEachTest, ALimitedControlGroupIsTheMachine) {
  constexpr int64_t kMemory = int64_t{640} << 20;  // supervisor and guards fit in also with a sanitizer
  const auto group = test::ControlGroup::make(1.5, kMemory);
  if (!group) GTEST_SKIP() << "missing capability: control groups with limits";
  const fs::path dir = make_command(
      "small-2", 2, "[ $RANK = 0 ] && exec sleep 300; sleep 1; exec dd if=/dev/zero of=/dev/null bs=1600M count=1");
  SupervisorHandle handle = group->with([&] { return start(options(dir)); });
  EXPECT_EQ(wait(handle), static_cast<int>(ExitCode::kRunFailed));
  const Json json = record(dir);
  EXPECT_EQ(json["hosts"][0]["cores"], 1);
  EXPECT_EQ(json["hosts"][0]["ram_bytes"], kMemory);
  EXPECT_EQ(json["failure"]["kind"], "rank_died");
  EXPECT_EQ(json["failure"]["rank"], 1);
  EXPECT_THAT(json["failure"]["message"].get<std::string>(), AllOf(HasSubstr("SIGKILL"), HasSubstr("out of memory")));
}

TEST_P(SupervisorOfEachTest, HangingRankIsNamedByItsSequence) {
  const Variable fault("FAKE_FAULT", "1:5:hang");
  const fs::path dir = make_run("hang-3", 3, 2);
  EXPECT_EQ(run(options(dir)), static_cast<int>(ExitCode::kRunFailed));
  const Json failure = record(dir)["failure"];
  EXPECT_EQ(failure["kind"], "comm_timeout");
  EXPECT_EQ(failure["rank"], 1);
  EXPECT_EQ(failure["sequence"], 5);
  EXPECT_THAT(failure["message"].get<std::string>(), HasSubstr("is behind its peers after all_reduce #5"));
  EXPECT_THAT(failure["message"].get<std::string>(), HasSubstr("took longer than 2"));
}

TEST_F(SupervisorTest, ExitCodeOfARankIsItsOwnError) {
  const Variable fault("FAKE_FAULT", "0:5:exit:7");
  const fs::path dir = make_run("code-2", 2);
  EXPECT_EQ(run(options(dir)), static_cast<int>(ExitCode::kRunFailed));
  const Json json = record(dir);
  EXPECT_EQ(json["failure"]["kind"], "rank_error");
  EXPECT_EQ(json["failure"]["rank"], 0);
  EXPECT_THAT(json["failure"]["message"].get<std::string>(), HasSubstr("exited with code 7"));
  EXPECT_EQ(json["exit_codes"][0], 7);
}

TEST_F(SupervisorTest, RanksOwnWordsAreInTheRecord) {
  const Variable fault("FAKE_FAULT", "1:5:error");
  const fs::path dir = make_run("error-2", 2, 5);
  EXPECT_EQ(run(options(dir)), static_cast<int>(ExitCode::kRunFailed));
  const Json json = record(dir);
  EXPECT_EQ(json["failure"]["kind"], "rank_error");
  EXPECT_EQ(json["failure"]["rank"], 1);
  EXPECT_THAT(json["failure"]["message"].get<std::string>(), HasSubstr("No space left on device"));
  EXPECT_EQ(json["exit_codes"][1], 4);
}

TEST_F(SupervisorTest, RankThatLeavesEarlyWithCodeZeroIsNamed) {
  const Variable fault("FAKE_FAULT", "1:5:exit:0");
  const fs::path dir = make_run("early-2", 2, 3);
  EXPECT_EQ(run(options(dir)), static_cast<int>(ExitCode::kRunFailed));
  // The other rank times out at about the same time as the supervisor loses patience: the kind may be either.
  const Json json = record(dir);
  EXPECT_EQ(json["state"], "failed");
  EXPECT_EQ(json["failure"]["rank"], 1);
  EXPECT_EQ(json["exit_codes"][1], 0);

  const Variable alone("FAKE_FAULT", "0:5:exit:0");
  const fs::path single = make_run("early-1", 1, 3);
  EXPECT_EQ(run(options(single)), static_cast<int>(ExitCode::kRunFailed));
  EXPECT_EQ(record(single)["failure"]["kind"], "rank_error");
  EXPECT_THAT(record(single)["failure"]["message"].get<std::string>(), HasSubstr("before its work was done"));
}

TEST_F(SupervisorTest, RankThatNeverJoinsIsNamed) {
  const Variable fault("FAKE_FAULT", "2:0:no_join");
  const fs::path dir = make_run("missing-3", 3);
  SupervisorOptions with_timeout = options(dir);
  with_timeout.start_timeout = 3s;
  EXPECT_EQ(run(with_timeout), static_cast<int>(ExitCode::kRunFailed));
  const Json failure = record(dir)["failure"];
  EXPECT_EQ(failure["kind"], "start_failed");
  EXPECT_EQ(failure["rank"], 2);
  EXPECT_EQ(failure["message"], "rank 2 on " + host_name() + " did not join the rendezvous within 3 s");
  EXPECT_THAT(failure["log_tail"].get<std::vector<std::string>>(), Contains("fake worker, rank 2 of 3"));
}

TEST_F(SupervisorTest, MissingWorkerIsNamed) {
  const fs::path dir = make_run("noworker-2", 2);
  SupervisorOptions wrong = options(dir);
  wrong.worker = folder_.path() / "no-such-worker";
  EXPECT_EQ(run(wrong), static_cast<int>(ExitCode::kRunFailed));
  const Json json = record(dir);
  EXPECT_EQ(json["failure"]["kind"], "start_failed");
  EXPECT_THAT(json["failure"]["message"].get<std::string>(), HasSubstr("no-such-worker"));
  EXPECT_EQ(json["exit_codes"], Json({nullptr, nullptr}));

  write_file_atomically(folder_.path() / "no-program", "text");
  const fs::path second = make_run("noprogram-1", 1);
  wrong = options(second);
  wrong.worker = folder_.path() / "no-program";
  EXPECT_EQ(run(wrong), static_cast<int>(ExitCode::kRunFailed));
  EXPECT_EQ(record(second)["failure"]["kind"], "start_failed");
}

TEST_P(SupervisorOfEachTest, DeafRankIsKilledInTheEnd) {
  const Variable steps("FAKE_STEPS", "100000");
  const Variable fault("FAKE_FAULT", "0:0:ignore_term");
  const fs::path dir = make_run("deaf-2", 2);
  SupervisorHandle handle = start_to_work(dir, 2);
  EXPECT_EQ(stop(handle), static_cast<int>(ExitCode::kStopped));
  EXPECT_EQ(record(dir)["exit_codes"], Json({137, 143}));
}

// ---- the supervisor or the command breaks ---------------------------------------------------------------------------

TEST_P(SupervisorOfEachTest, KilledSupervisorLosesNoMeasurement) {
  const Variable steps("FAKE_STEPS", "100000");
  const fs::path dir = make_run("lost-2", 2);
  SupervisorHandle handle = start_to_work(dir, 2);
  kill(handle.pid(), SIGKILL);
  EXPECT_EQ(wait(handle), 137);
  const Json json = record(dir);
  EXPECT_EQ(json["state"], "failed");
  EXPECT_EQ(json["failure"]["kind"], "supervisor_lost");
  EXPECT_EQ(json["exit_codes"], Json({nullptr, nullptr}));
  EXPECT_THAT(json["failure"]["message"].get<std::string>(), HasSubstr("process " + std::to_string(handle.pid())));
  EXPECT_GT(json["clocks"]["train_s"].get<double>(), 0);
  EXPECT_FALSE(json["finished_at"].get<std::string>().empty());
  EXPECT_GE(steps_recorded(dir, 0), 50u);
}

TEST_P(SupervisorOfEachTest, StoppedRankOfAKilledSupervisorDoesNotKeepTheCores) {
  const Variable steps("FAKE_STEPS", "100000");
  const fs::path dir = make_run("lost-2", 2);
  SupervisorHandle handle = start(options(dir));
  const auto ranks = wait_for_work(dir, 2);
  kill(ranks[1], SIGSTOP);
  kill(handle.pid(), SIGKILL);
  EXPECT_EQ(wait(handle), 137);
  EXPECT_EQ(record(dir)["failure"]["kind"], "supervisor_lost");
}

// What nobody looks after ends by itself: the guards of the ranks see to it.
TEST_P(SupervisorOfEachTest, OrphansOfAKilledSupervisorEnd) {
  const fs::path dir = make_command(
      "orphans-2", 2,
      "trap '' TERM; sleep 300 & setsid sh -c 'trap \"\" TERM HUP; sleep 300 & wait' & setsid sh -c 'kill -STOP $$' & "
      "echo ready; wait; sleep 300");
  SupervisorHandle handle = start(options(dir));
  wait_for_logs(dir, 2, "ready");
  kill(handle.pid(), SIGKILL);
  waitpid(handle.pid(), nullptr, 0);
  const auto killed = std::chrono::steady_clock::now();
  expect_no_process_left();
  EXPECT_LT(std::chrono::steady_clock::now() - killed, 30s) << "5 s on a machine with nothing else to do";
  EXPECT_NE(state(dir), "failed") << "nobody asked";
}

TEST_P(SupervisorOfEachTest, ADaemonOfARankEndsWithTheRun) {
  const fs::path dir = make_command("daemon-1", 1, "setsid sh -c 'setsid sleep 300 &'; echo ready; sleep 0.3");
  EXPECT_EQ(run(options(dir)), 0);
}

// A rank was killed while it wrote a checkpoint: nobody will write the next one.
TEST_F(SupervisorTest, AnUnfinishedCheckpointIsRemovedWithTheRun) {
  const std::string left = "checkpoints/.tmp-step-000000004-1";
  const std::string write = "mkdir -p $MLBENCH_RUN_DIR/" + left + "; echo half > $MLBENCH_RUN_DIR/" + left + "/model; ";
  const fs::path dir = make_command("half-1", 1, write + "kill -9 $$");
  EXPECT_EQ(run(options(dir)), static_cast<int>(ExitCode::kRunFailed));
  EXPECT_FALSE(fs::exists(dir / left));

  const fs::path lost = make_command("lost-1", 1, write + "echo written; sleep 300");
  {
    SupervisorHandle handle = start(options(lost));
    wait_for_logs(lost, 1, "written");
    ASSERT_TRUE(eventually([&] { return state(lost) == "running"; }));
    kill(handle.pid(), SIGKILL);
    waitpid(handle.pid(), nullptr, 0);
  }
  EXPECT_TRUE(settle_if_lost(lost));
  EXPECT_FALSE(fs::exists(lost / left));
}

TEST_P(SupervisorOfEachTest, AKilledGuardIsNoWayOut) {
  const std::string left = "-of-" + std::to_string(getpid());
  const std::string folder = fs::temp_directory_path() / ("mlbench-" + std::to_string(own_pid_namespace()) + ".$$-");
  const fs::path dir =
      make_command("guard-1", 1, "mkdir " + folder + left + "; setsid sleep 300 & echo $PPID; sleep 300");
  SupervisorHandle handle = start(options(dir));
  wait_for_logs(dir, 1, "\n");
  kill(std::stoi(read_file(rank_log_path(dir / "logs", 1, 0, LogStream::kStdout))), SIGKILL);
  EXPECT_EQ(wait(handle), static_cast<int>(ExitCode::kRunFailed));
  EXPECT_EQ(record(dir)["failure"]["kind"], "rank_died");
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path())) {
    EXPECT_FALSE(entry.path().filename().string().ends_with(left)) << "a temporary folder of the rank is left";
  }
}

TEST_F(SupervisorTest, LostRunIsSettledByExactlyOneOfMany) {
  const Variable steps("FAKE_STEPS", "100000");
  const fs::path dir = make_run("race-1", 1);
  {
    SupervisorHandle handle = start_to_work(dir, 1);
    kill(handle.pid(), SIGKILL);
    waitpid(handle.pid(), nullptr, 0);
  }
  std::vector<pid_t> settlers;
  for (int i = 0; i < 8; ++i) {
    const pid_t pid = fork();
    if (pid == 0) _exit(settle_if_lost(dir) ? 1 : 0);
    settlers.push_back(pid);
  }
  int settled = 0;
  for (const pid_t pid : settlers) {
    int status = 0;
    waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    settled += WEXITSTATUS(status);
  }
  EXPECT_EQ(settled, 1);
  EXPECT_EQ(record(dir)["failure"]["kind"], "supervisor_lost");
}

TEST_P(SupervisorOfEachTest, AttachedRunEndsWithItsCommand) {
  const Variable steps("FAKE_STEPS", "100000");
  const fs::path dir = make_run("launcher-2", 2);
  { SupervisorHandle handle = start_to_work(dir, 2); }  // closes the pipe, as the death of the command does
  EXPECT_TRUE(eventually([&] { return state(dir) == "failed"; }));
  EXPECT_EQ(record(dir)["failure"]["kind"], "launcher_lost");
  EXPECT_EQ(record(dir)["exit_codes"], Json({143, 143}));
}

TEST_F(SupervisorTest, DetachedRunOutlivesItsCommandAndObeysAStop) {
  const Variable steps("FAKE_STEPS", "100000");
  const fs::path dir = make_run("detached-2", 2);
  SupervisorOptions detached = options(dir);
  detached.attached = false;
  { SupervisorHandle handle = start(detached); }
  wait_for_work(dir, 2);
  EXPECT_EQ(state(dir), "running");
  request_stop(dir);
  EXPECT_TRUE(eventually([&] { return state(dir) == "stopped"; }));
  EXPECT_TRUE(eventually([&] { return !lease_held(dir); }));
  EXPECT_THROW(request_stop(dir), UserError) << "it is over";
  EXPECT_TRUE(fs::exists(dir / "logs" / "supervisor.log"));
}

TEST_P(SupervisorOfEachTest, StopKeepsEverythingSoFar) {
  const Variable steps("FAKE_STEPS", "100000");
  const fs::path dir = make_run("stop-2", 2);
  SupervisorHandle handle = start_to_work(dir, 2);
  EXPECT_EQ(stop(handle), static_cast<int>(ExitCode::kStopped));
  const Json json = record(dir);
  EXPECT_EQ(json["state"], "stopped");
  EXPECT_TRUE(json["failure"].is_null());
  EXPECT_EQ(json["exit_codes"], Json({143, 143}));
  EXPECT_GT(json["clocks"]["train_s"].get<double>(), 0);
}

// Ranks that train stop after one and the same step, where rank 0 writes a checkpoint; a resumed run goes on there.
TEST_P(SupervisorOfEachTest, RanksThatTrainStopInOrder) {
  const Variable trains("FAKE_TRAINS", "1"), checkpoint("FAKE_CHECKPOINT", "100000");
  for (const int64_t workers : {1, 2, 3}) {
    auto steps = std::make_unique<Variable>("FAKE_STEPS", "100000");
    const fs::path dir = make_run("order-" + std::to_string(workers), workers);
    SupervisorHandle handle = start_to_work(dir, static_cast<int>(workers));
    std::this_thread::sleep_for(500ms);  // until all ranks have sent a heartbeat
    EXPECT_EQ(stop(handle), static_cast<int>(ExitCode::kStopped));
    const Json json = record(dir);
    EXPECT_EQ(json["state"], "stopped");
    EXPECT_EQ(json["exit_codes"], Json(std::vector<int>(static_cast<size_t>(workers), 0)));
    EXPECT_EQ(json["notes"].dump().find("without a checkpoint"), std::string::npos) << json["notes"];
    const std::vector<int64_t> stored = checkpoint_steps(dir);
    ASSERT_EQ(stored.size(), 1U);

    steps.reset();
    const Variable few("FAKE_STEPS", std::to_string(stored[0] + 3));
    SupervisorOptions resumed = options(dir);
    resumed.resume_step = stored[0];
    EXPECT_EQ(run(resumed), 0);
    EXPECT_EQ(state(dir), "finished");
  }
}

// A rank that does not answer, one that cannot write, and one that is stopped: the run ends all the same, and soon.
TEST_F(SupervisorTest, AStopWaitsForNobodyForLong) {
  const Variable steps("FAKE_STEPS", "100000"), trains("FAKE_TRAINS", "1");
  for (const std::string what : {"silent", "full", "stuck"}) {
    SCOPED_TRACE(what);
    const Variable fault("FAKE_FAULT", what == "full" ? "0:-2:full" : what == "silent" ? "1:-2:silent" : "-1:-1:none");
    const fs::path dir = make_run(what + "-2", 2);
    SupervisorHandle handle = start_to_work(dir, 2);
    std::this_thread::sleep_for(500ms);
    if (what == "stuck") {
      const auto lease = read_lease(dir);
      ASSERT_TRUE(lease && lease->ranks.size() == 2);
      kill(lease->ranks[1].pid, SIGSTOP);
    }
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(stop(handle), static_cast<int>(ExitCode::kStopped));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kOrderlyPatience + 20s);
    EXPECT_EQ(state(dir), "stopped");
    EXPECT_THAT(record(dir)["notes"].dump(),
                HasSubstr(what == "full" ? "stopped without a checkpoint of its last step: rank 0: cannot write the "
                                           "checkpoint: No space left on device"
                                         : "stopped without a checkpoint of its last step: not all ranks answered"));
    EXPECT_TRUE(checkpoint_steps(dir).empty());
  }
}

// The ranks would wait for each other for the whole patience.
TEST_F(SupervisorTest, ASecondSignalEndsAnOrderlyStopAtOnce) {
  const Variable steps("FAKE_STEPS", "100000"), trains("FAKE_TRAINS", "1"), fault("FAKE_FAULT", "1:-2:silent");
  const fs::path dir = make_run("twice-2", 2);
  SupervisorHandle handle = start_to_work(dir, 2);
  std::this_thread::sleep_for(500ms);
  const auto begin = std::chrono::steady_clock::now();
  kill(handle.pid(), SIGTERM);
  std::this_thread::sleep_for(200ms);
  kill(handle.pid(), SIGTERM);
  EXPECT_EQ(wait(handle), static_cast<int>(ExitCode::kStopped));
  EXPECT_EQ(record(dir)["notes"].dump().find("not all ranks answered"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
}

TEST_F(SupervisorTest, SignalsStopIt) {
  for (const int number : {SIGINT, SIGTERM}) {
    const Variable steps("FAKE_STEPS", "100000");
    const fs::path dir = make_run("signal-" + std::to_string(number), 1);
    SupervisorHandle handle = start_to_work(dir, 1);
    kill(handle.pid(), number);
    EXPECT_EQ(wait(handle), static_cast<int>(ExitCode::kStopped));
    EXPECT_EQ(state(dir), "stopped");
  }
}

TEST_F(SupervisorTest, ActiveRunIsNotStartedTwice) {
  const Variable steps("FAKE_STEPS", "100000");
  const fs::path dir = make_run("twice-1", 1);
  SupervisorHandle handle = start_to_work(dir, 1);
  EXPECT_EQ(run(options(dir)), static_cast<int>(ExitCode::kUserError));
  EXPECT_EQ(state(dir), "running") << "the first one is not disturbed";
  EXPECT_EQ(stop(handle), static_cast<int>(ExitCode::kStopped));
}

TEST_F(SupervisorTest, FullDiskUnderTheRecordDoesNotEndTheRun) {
  const Variable steps("FAKE_STEPS", "100000");
  const fs::path dir = make_run("full-1", 1);
  SupervisorHandle handle = start_to_work(dir, 1);
  // The supervisor alone can write no more than 64 bytes into a file.
  rlimit before{};
  const rlimit full{64, RLIM_INFINITY};
  ASSERT_EQ(prlimit(handle.pid(), RLIMIT_FSIZE, &full, &before), 0);
  std::this_thread::sleep_for(3s);
  EXPECT_FALSE(handle.wait(0ms)) << "it goes on";
  const double wall = record(dir)["clocks"]["wall_s"].get<double>();
  ASSERT_EQ(prlimit(handle.pid(), RLIMIT_FSIZE, &before, nullptr), 0);
  EXPECT_TRUE(eventually([&] { return record(dir)["clocks"]["wall_s"].get<double>() > wall; })) << "never tried again";
  EXPECT_EQ(stop(handle), static_cast<int>(ExitCode::kStopped));
  EXPECT_EQ(state(dir), "stopped");
  for (const auto& entry : fs::directory_iterator(dir)) {
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr(".tmp")));
  }
}

// A file system of its own, of `size` bytes, mounted while it lives. In the mount namespace of this test.
class SmallDisk {
 public:
  SmallDisk(const fs::path& path, const std::string& size) : path_(path) {
    fs::create_directories(path);
    mounted_ = unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               mount("none", path.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  void fill() const {
    std::ofstream file(path_ / "filler");
    const std::string block(4096, 'x');
    while (file.write(block.data(), 4096).flush()) {
    }
  }

 private:
  fs::path path_;
  bool mounted_;
};

TEST_F(SupervisorTest, AFullDiskIsInTheRecord) {
  const SmallDisk disk(folder_.path() / "runs", "4m");
  if (!disk.mounted()) GTEST_SKIP() << "missing capability: mounting a file system";
  const fs::path dir = make_command("full-1", 1, "echo ready; while [ ! -e go ]; do sleep 0.05; done; exit 1");
  SupervisorHandle handle = start(options(dir));
  wait_for_logs(dir, 1, "ready");
  disk.fill();
  write_file_atomically(folder_.path() / "go", "");
  EXPECT_EQ(wait(handle), static_cast<int>(ExitCode::kRunFailed)) << "there is room for the record";
  EXPECT_EQ(record(dir)["state"], "failed");
  EXPECT_THAT(record(dir)["notes"].dump(), HasSubstr("was full when the run ended: free space, then: mlbench resume"));
}

TEST_F(SupervisorTest, ARankOnAFullDiskIsNoErrorOfTheRank) {
  const Variable fault("FAKE_FAULT", "1:5:disk_full");
  const fs::path dir = make_run("full-2", 2, 5);
  EXPECT_EQ(run(options(dir)), static_cast<int>(ExitCode::kRunFailed));
  const Json failure = record(dir)["failure"];
  EXPECT_EQ(failure["kind"], "disk_full");
  EXPECT_EQ(failure["rank"], 1);
  EXPECT_THAT(failure["message"].get<std::string>(),
              AllOf(HasSubstr("No space left on device"), HasSubstr("free space there, then: mlbench resume full-2")));
}

TEST_F(SupervisorTest, ARunThatFindsNoRoomSaysSo) {
  const SmallDisk disk(folder_.path() / "runs", "512k");
  if (!disk.mounted()) GTEST_SKIP() << "missing capability: mounting a file system";
  const fs::path dir = make_command("full-3", 1, "true");
  EXPECT_EQ(run(options(dir)), static_cast<int>(ExitCode::kRunFailed));
  EXPECT_EQ(record(dir)["failure"]["kind"], "disk_full");
  EXPECT_THAT(record(dir)["failure"]["message"].get<std::string>(), HasSubstr("full-3/control/reserve"));
}

// ---- variables ------------------------------------------------------------------------------------------------------

TEST_F(SupervisorTest, SecretsReachTheRanksAndNoFile) {
  write_file_atomically(folder_.path() / "token", "from-a-file\n");
  const std::vector<std::string> environment = {"GIVEN_TOKEN", "FILE_TOKEN=@" + (folder_.path() / "token").string()};
  write_file_atomically(folder_.path() / "expected", "from-the-starter from-a-file");
  const std::string script = "[ \"$GIVEN_TOKEN $FILE_TOKEN\" = \"$(cat expected)\" ]";
  const fs::path dir = make_command("secret-1", 1, script, environment);
  {
    const Variable given("GIVEN_TOKEN", "from-the-starter");
    EXPECT_EQ(run(options(dir)), 0);
  }
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    const std::string text = read_file(entry.path());
    EXPECT_EQ(text.find("from-the-starter"), std::string::npos) << entry.path();
    EXPECT_EQ(text.find("from-a-file"), std::string::npos) << entry.path();
  }

  const fs::path without = make_command("secret-2", 1, script, environment);
  EXPECT_EQ(run(options(without)), static_cast<int>(ExitCode::kRunFailed));
  EXPECT_EQ(record(without)["failure"]["kind"], "start_failed");
  EXPECT_THAT(record(without)["failure"]["message"].get<std::string>(), HasSubstr("variable GIVEN_TOKEN"));
}

TEST_F(SupervisorTest, FilesAreTheUsersAlone) {
  const fs::path dir = make_command("umask-1", 1, "umask; touch $MLBENCH_RUN_DIR/of-the-rank");
  const mode_t mask = umask(022);
  EXPECT_EQ(run(options(dir)), 0);
  umask(mask);
  EXPECT_EQ(read_file(rank_log_path(dir / "logs", 1, 0, LogStream::kStdout)), "0022\n") << "a command has the user's";
  for (const char* name : {"run.json", "progress.json", "lease", "logs/rank-0.seg-1.out", "logs/rank-0.seg-1.err"}) {
    EXPECT_EQ(fs::status(dir / name).permissions() & fs::perms(077), fs::perms::none) << name;
  }
}

// ---- the cores ------------------------------------------------------------------------------------------------------

TEST_F(SupervisorTest, SecondRunWaitsForTheCores) {
  const fs::path first_dir = make_run("first-1", 1), second_dir = make_run("second-1", 1);
  std::optional<SupervisorHandle> first;
  {
    const Variable steps("FAKE_STEPS", "100000");
    first.emplace(start(options(first_dir)));
    wait_for_work(first_dir, 1);
  }
  SupervisorHandle second = start(options(second_dir));
  EXPECT_TRUE(eventually([&] { return state(second_dir) == "queued"; }));
  EXPECT_THAT(record(second_dir)["notes"].dump(), HasSubstr("waits for the cores: another run holds"));
  EXPECT_TRUE(lease_held(second_dir));
  EXPECT_FALSE(second.wait(500ms));
  EXPECT_FALSE(fs::exists(second_dir / "logs" / "rank-0.seg-1.err")) << "a rank started before the cores were free";

  first->request_stop();
  EXPECT_EQ(wait(*first), static_cast<int>(ExitCode::kStopped));
  EXPECT_EQ(wait(second), 0);
  const Json one = record(first_dir), two = record(second_dir);
  EXPECT_GE(two["started_at"].get<std::string>(), one["started_at"].get<std::string>());
  EXPECT_EQ(two["state"], "finished");
  EXPECT_THAT(two["notes"].dump(), HasSubstr("s for the cores"));
  EXPECT_GT(two["clocks"]["queue_s"].get<double>(), 0.4) << "it was seen to wait for 500 ms";
  EXPECT_FALSE(two["oversubscribed"].get<bool>());
}

TEST_F(SupervisorTest, QueuedRunCanBeStopped) {
  auto cores = FileLock::acquire(folder_.path() / "cores.lock", 0ms);
  const fs::path dir = make_run("queued-1", 1);
  SupervisorHandle handle = start(options(dir));
  EXPECT_TRUE(eventually([&] { return state(dir) == "queued"; }));
  EXPECT_EQ(stop(handle), static_cast<int>(ExitCode::kStopped));
  EXPECT_EQ(state(dir), "stopped");
  EXPECT_TRUE(record(dir)["segments"].empty());
  cores.reset();
}

TEST_F(SupervisorTest, NoWaitRunsAtOnceAndIsLabelled) {
  auto cores = FileLock::acquire(folder_.path() / "cores.lock", 0ms);
  const fs::path dir = make_run("nowait-1", 1);
  SupervisorOptions impatient = options(dir);
  impatient.no_wait = true;
  EXPECT_EQ(run(impatient), 0);
  EXPECT_TRUE(record(dir)["oversubscribed"].get<bool>());
  EXPECT_THAT(record(dir)["notes"].dump(), HasSubstr("--no-wait"));
  cores.reset();

  const fs::path free_dir = make_run("nowait-2", 1);
  impatient.run_dir = free_dir;
  EXPECT_EQ(run(impatient), 0);
  EXPECT_FALSE(record(free_dir)["oversubscribed"].get<bool>()) << "nobody else ran";
}

TEST_F(SupervisorTest, RunThatNoWaitDisturbsIsLabelledToo) {
  const fs::path held_dir = make_run("held-1", 1), beside_dir = make_run("beside-1", 1);
  const Variable steps("FAKE_STEPS", "100000");
  SupervisorHandle held = start_to_work(held_dir, 1);
  EXPECT_FALSE(record(held_dir)["oversubscribed"].get<bool>());
  SupervisorOptions impatient = options(beside_dir);
  impatient.no_wait = true;
  SupervisorHandle beside = start(impatient);
  EXPECT_TRUE(eventually([&] { return record(held_dir)["oversubscribed"].get<bool>(); }));
  EXPECT_THAT(record(held_dir)["notes"].dump(), HasSubstr("another run was started beside this one"));
  held.request_stop();
  beside.request_stop();
  EXPECT_EQ(wait(held), static_cast<int>(ExitCode::kStopped));
  EXPECT_EQ(wait(beside), static_cast<int>(ExitCode::kStopped));
  EXPECT_TRUE(record(beside_dir)["oversubscribed"].get<bool>());
}

TEST_F(SupervisorTest, RunsThatShareTheHostHaveCoresOfTheirOwn) {
  const std::vector<int> cores = allowed_cores();
  if (cores.size() < 2) GTEST_SKIP() << "missing capability: two cores";
  const Variable steps("FAKE_STEPS", "100000");
  const auto share = [&](const std::string& name) {
    const fs::path dir = make_run(name, 1);
    Json spec = read_json_file(dir / "spec.json");
    spec["share_host"] = true;
    write_json_file(dir / "spec.json", spec);
    return dir;
  };
  const fs::path one_dir = share("one-1"), two_dir = share("two-1"), alone_dir = make_run("alone-1", 1);
  SupervisorHandle one = start_to_work(one_dir, 1);
  SupervisorHandle two = start(options(two_dir));
  const pid_t rank = wait_for_work(two_dir, 1).front();
  const auto core_of = [](const fs::path& dir) { return record(dir)["placement"][0]["cores"].get<std::string>(); };
  EXPECT_EQ(core_of(one_dir), std::to_string(cores[0]));
  EXPECT_EQ(core_of(two_dir), std::to_string(cores[1]));
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(rank, sizeof mask, &mask), 0);
  EXPECT_EQ(CPU_COUNT(&mask), 1);
  EXPECT_TRUE(CPU_ISSET(cores[1], &mask)) << "and is kept to it";
  EXPECT_TRUE(record(one_dir)["shared_host"].get<bool>());
  EXPECT_FALSE(record(one_dir)["oversubscribed"].get<bool>());

  // A plain run waits for both, and is not overtaken.
  SupervisorHandle alone = start(options(alone_dir));
  EXPECT_TRUE(eventually([&] { return state(alone_dir) == "queued"; }));
  const fs::path late_dir = share("late-1");
  SupervisorHandle late = start(options(late_dir));
  EXPECT_TRUE(eventually([&] { return state(late_dir) == "queued"; }));
  one.request_stop();
  EXPECT_EQ(wait(one), static_cast<int>(ExitCode::kStopped));
  EXPECT_FALSE(late.wait(500ms));
  EXPECT_EQ(state(late_dir), "queued") << "there is a core for it, and a plain run waits";
  EXPECT_EQ(state(alone_dir), "queued");
  two.request_stop();
  EXPECT_EQ(wait(two), static_cast<int>(ExitCode::kStopped));
  wait_for_work(alone_dir, 1);
  EXPECT_EQ(state(late_dir), "queued");
  EXPECT_FALSE(record(alone_dir)["shared_host"].get<bool>());
  alone.request_stop();
  EXPECT_EQ(wait(alone), static_cast<int>(ExitCode::kStopped));
  wait_for_work(late_dir, 1);
  late.request_stop();
  EXPECT_EQ(wait(late), static_cast<int>(ExitCode::kStopped));
}

TEST_F(SupervisorTest, RanksOfAKilledSupervisorHoldTheCores) {
  const Variable steps("FAKE_STEPS", "100000");
  const Variable fault("FAKE_FAULT", "0:0:outlive");
  const fs::path dir = make_run("hold-1", 1);
  SupervisorHandle handle = start_to_work(dir, 1);
  kill(handle.pid(), SIGKILL);
  waitpid(handle.pid(), nullptr, 0);
  EXPECT_FALSE(FileLock::acquire(folder_.path() / "cores.lock", 500ms));
  EXPECT_TRUE(settle_if_lost(dir)) << "and ends the rank";
}

// ---- an engine that lets its ranks wait, on hosts of its own -------------------------------------------------------

class EngineRunTest : public SupervisorTest {
 protected:
  // A supervisor within this process, on a thread of its own.
  void begin(const fs::path& run_dir, exec::EngineScript script, std::chrono::seconds start_timeout = 60s) {
    options_ = options(run_dir);
    options_.guard = GUARD;
    options_.attached = false;
    options_.start_timeout = start_timeout;
    begin(std::make_unique<exec::ScriptedExecutor>(exec::local::make(), std::move(script), log_));
  }
  void begin(std::unique_ptr<exec::Executor> executor) {
    executor_ = std::move(executor);
    thread_ = std::thread([this] { code_ = supervise(options_, *executor_); });
  }
  int end() {
    thread_.join();
    return code_;
  }
  ~EngineRunTest() override {
    if (thread_.joinable()) thread_.join();
  }

  static bool notes_have(const fs::path& run_dir, const std::string& text) {
    return fs::exists(run_dir / "run.json") && record(run_dir)["notes"].dump().find(text) != std::string::npos;
  }

  std::shared_ptr<exec::EngineLog> log_ = std::make_shared<exec::EngineLog>();
  SupervisorOptions options_;
  std::unique_ptr<exec::Executor> executor_;
  std::thread thread_;
  int code_ = -1;
};

TEST_F(EngineRunTest, TheTimeInTheQueueIsNoneOfTheRuns) {
  // Who holds the cores of this host is none of this run's business.
  const auto cores = FileLock::acquire(folder_.path() / "cores.lock", 0ms);
  const fs::path dir = make_run("queued-2", 2);
  begin(dir,
        {.lines = {{exec::StartState::kQueued, "PENDING (Priority)", 120},
                   {exec::StartState::kStarting, "CONFIGURING", 1},
                   {exec::StartState::kQueued, "PENDING (Resources)", 120}}},
        4s);
  EXPECT_TRUE(eventually([&] { return notes_have(dir, "waits in the queue of scripted: PENDING (Priority)"); }));
  EXPECT_EQ(state(dir), "queued");
  EXPECT_TRUE(record(dir)["started_at"].is_null());
  EXPECT_TRUE(record(dir)["segments"][0]["started_at"].is_null());
  EXPECT_TRUE(record(dir)["placement"].is_null());
  EXPECT_TRUE(eventually([&] { return notes_have(dir, "waits in the queue of scripted: PENDING (Resources)"); }));
  EXPECT_EQ(end(), 0);
  const Json json = record(dir);
  EXPECT_EQ(json["state"], "finished");
  const auto queue_s = json["clocks"]["queue_s"].get<double>();
  EXPECT_GT(queue_s, 4.5) << "240 looks of 20 ms: more than the ranks get to join";
  EXPECT_GT(json["clocks"]["wall_s"].get<double>(), 0.2) << "20 steps of 10 ms";
  const double between =
      to_seconds(parse_utc(json["finished_at"].get<std::string>()) - parse_utc(json["started_at"].get<std::string>()));
  EXPECT_NEAR(json["clocks"]["wall_s"].get<double>(), between, 1) << "both begin behind the queue";
  EXPECT_EQ(json["segments"][0]["started_at"], json["started_at"]);
  EXPECT_FALSE(notes_have(dir, "waits in the queue"));
  EXPECT_TRUE(notes_have(dir, " s in the queue of scripted"));
  EXPECT_EQ(log_->launched, 1);
}

// An image that is pulled first is no queue of other runs.
TEST_F(EngineRunTest, RanksOfThisHostWaitForTheContainerEngine) {
  const fs::path dir = make_run("pulled-1", 1);
  begin(dir, {.lines = {{exec::StartState::kQueued, "podman pulls the image here", 1'000'000}}, .on_this_host = true});
  EXPECT_TRUE(
      eventually([&] { return notes_have(dir, "waits for the container engine: podman pulls the image here"); }));
  request_stop(dir);
  EXPECT_EQ(end(), static_cast<int>(ExitCode::kStopped));
}

TEST_F(EngineRunTest, AQueuedRunCanBeStopped) {
  const fs::path dir = make_run("queued-1", 1);
  begin(dir, {.lines = {{exec::StartState::kQueued, "PENDING (Priority)", 1'000'000}}});
  EXPECT_TRUE(eventually([&] { return notes_have(dir, "waits in the queue of scripted: PENDING (Priority)"); }));
  request_stop(dir);
  EXPECT_EQ(end(), static_cast<int>(ExitCode::kStopped));
  const Json json = record(dir);
  EXPECT_EQ(json["state"], "stopped");
  EXPECT_TRUE(json["started_at"].is_null());
  EXPECT_EQ(json["exit_codes"], Json::array({nullptr}));
  EXPECT_GT(json["clocks"]["queue_s"].get<double>(), 0);
  EXPECT_EQ(json["clocks"]["wall_s"], 0.0);
  EXPECT_EQ(log_->launched, 0);
  EXPECT_EQ(log_->withdrawn, 1);
}

TEST_F(EngineRunTest, WhatTheEngineRefusesFailsWithItsWords) {
  const fs::path dir = make_run("refused-1", 1);
  begin(dir, {.lines = {{exec::StartState::kQueued, "PENDING", 3},
                        {exec::StartState::kFailed, "job 17: PartitionTimeLimit", 1}}});
  EXPECT_EQ(end(), static_cast<int>(ExitCode::kRunFailed));
  const Json json = record(dir);
  EXPECT_EQ(json["failure"]["kind"], "start_failed");
  EXPECT_EQ(json["failure"]["message"], "job 17: PartitionTimeLimit");
  EXPECT_TRUE(json["started_at"].is_null());
  EXPECT_GT(json["clocks"]["queue_s"].get<double>(), 0);
}

TEST_F(EngineRunTest, TheRecordHasPlacesAndHosts) {
  const Variable fault("FAKE_FAULT", "1:10:exit:7");
  exec::EngineScript script;
  script.placement = {{.host = host_name(), .rank = 0, .cores = {0, 1}}, {.host = "n2", .rank = 1, .gpu = 3}};
  script.captures = {{"n2", {{"name", "n2"}, {"cores", 64}}, {{"kernel", "5.10"}}}};
  script.notes = {"Kubernetes warns of pod x: FailedMount"};
  const fs::path dir = make_run("places-2", 2);
  begin(dir, script);
  EXPECT_EQ(end(), static_cast<int>(ExitCode::kRunFailed));
  const Json json = record(dir);
  EXPECT_EQ(json["placement"], exec::to_json(script.placement));
  ASSERT_EQ(json["hosts"].size(), 2u);
  EXPECT_EQ(json["hosts"][0]["name"], host_name());
  EXPECT_EQ(json["hosts"][0]["environment"]["kernel"], json["environment"]["kernel"]);
  EXPECT_EQ(json["hosts"][1]["cores"], 64);
  EXPECT_EQ(json["hosts"][1]["environment"]["kernel"], "5.10");
  EXPECT_EQ(json["failure"]["rank"], 1);
  EXPECT_EQ(json["failure"]["host"], "n2");
  EXPECT_THAT(json["failure"]["message"].get<std::string>(), HasSubstr("rank 1 on n2 exited with code 7"));
  EXPECT_TRUE(notes_have(dir, "warns of pod x"));
}

// ---- another host, and the network between ------------------------------------------------------------------------

class OtherHostTest : public EngineRunTest {
 protected:
  void begin_there(const fs::path& run_dir, std::optional<int64_t> resume_step = std::nullopt) {
    options_ = options(run_dir);
    options_.resume_step = resume_step;
    options_.guard = GUARD;
    options_.attached = false;
    begin(std::make_unique<exec::LinkedExecutor>(exec::OtherHost{.way =
                                                                     [this](int port) {
                                                                       const std::lock_guard lock(network_mutex_);
                                                                       return network_.emplace(port).port();
                                                                     },
                                                                 .files = {"spec.json"}}));
  }

  static void requeue(const fs::path& run_dir, int64_t times) {
    Json spec = read_json_file(run_dir / "spec.json");
    spec["engine"]["requeue"] = times;
    write_json_file(run_dir / "spec.json", spec);
  }

  static std::set<std::string> names_in(const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
    return names;
  }

  static std::vector<record::UsageLine> usage_lines(const fs::path& run_dir) {
    std::vector<record::UsageLine> lines;
    std::ifstream in(usage_path(run_dir));
    for (std::string text; std::getline(in, text);) {
      if (auto line = record::parse_usage_line(text)) lines.push_back(std::move(*line));
    }
    return lines;
  }

  // Waits until each rank's first steps have arrived.
  static void wait_for_steps(const fs::path& run_dir, int workers, size_t steps) {
    EXPECT_TRUE(eventually([&] {
      for (int rank = 0; rank < workers; ++rank) {
        if (!fs::exists(steps_path(run_dir, 1, rank)) || steps_recorded(run_dir, rank) < steps) return false;
      }
      return true;
    })) << "the steps never came";
  }

  // What the ranks wrote there is here, byte by byte.
  static void expect_all_is_here(const fs::path& run_dir, int workers) {
    for (int rank = 0; rank < workers; ++rank) {
      for (const fs::path& path :
           {steps_path("", 1, rank), events_path("", 1, rank), rank_log_path("logs", 1, rank, LogStream::kStderr)}) {
        EXPECT_TRUE(read_file(run_dir / path) == read_file(exec::LinkedExecutor::there(run_dir) / path)) << path;
      }
    }
  }

  // The network towards the other host, which the supervisor's thread makes.
  test::Relay& network() {
    const std::lock_guard lock(network_mutex_);
    return network_.value();
  }

  std::mutex network_mutex_;
  std::optional<test::Relay> network_;
};

TEST_F(OtherHostTest, ARunIsAsWholeAsHere) {
  const fs::path dir = make_run("far-2", 2);
  begin_there(dir);
  EXPECT_EQ(end(), 0);
  const Json json = record(dir);
  EXPECT_EQ(json["state"], "finished");
  EXPECT_EQ(json["exit_codes"], Json({0, 0}));
  EXPECT_EQ(json["throughput"]["steps"], 20);
  EXPECT_EQ(json["placement"][1]["host"], "elsewhere");
  ASSERT_EQ(json["hosts"].size(), 1u);
  EXPECT_EQ(json["hosts"][0]["name"], "elsewhere");
  EXPECT_EQ(json["hosts"][0]["cores"], available_cores());
  EXPECT_EQ(json["hosts"][0]["environment"]["git_describe"], json["environment"]["git_describe"]);
  EXPECT_EQ(json["environment"]["libraries"]["fake_library"], "1.2");
  EXPECT_THAT(read_file(rank_log_path(dir / "logs", 1, 1, LogStream::kStderr)), HasSubstr("fake worker, rank 1 of 2"));
  expect_all_is_here(dir, 2);
}

TEST_F(OtherHostTest, WhatRanksUseThereIsKnownHere) {
  const fs::path dir = make_command("far-busy-2", 2, "sh -c 'while [ ! -e go ]; do :; done' & wait");
  begin_there(dir);
  EXPECT_TRUE(
      eventually([&] { return fs::exists(dir / "run.json") && record(dir)["utilisation"]["cpu"].is_number(); }));
  std::vector<record::UsageLine::Rank> ranks;
  EXPECT_TRUE(eventually([&] {
    const auto lines = usage_lines(dir);
    if (!lines.empty()) ranks = lines.back().ranks;
    return ranks.size() == 2 && ranks[0].cpu_cores && ranks[1].cpu_cores && ranks[0].network_in;
  }));
  EXPECT_TRUE(ranks.at(0).network_out);
  EXPECT_FALSE(ranks.at(1).network_in || ranks.at(1).network_out) << "the first of a host stands for its network";
  write_file_atomically(folder_.path() / "go", "");
  EXPECT_EQ(end(), 0);
  const Json utilisation = record(dir)["utilisation"];
  EXPECT_GT(utilisation["cpu"], 0.01);
  EXPECT_LT(utilisation["cpu"], 1.1);
  for (const record::UsageLine::Rank& rank : ranks) {
    EXPECT_GT(rank.cpu_cores.value(), 0.01);
    EXPECT_LT(rank.cpu_cores.value(), 1.5);
    EXPECT_GT(rank.memory_bytes.value(), 100 << 10);
    EXPECT_LT(rank.memory_bytes.value(), 100 << 20);
  }
}

TEST_F(OtherHostTest, WhatAKilledRankWroteStillComes) {
  const Variable fault("FAKE_FAULT", "1:10:kill:9");
  const fs::path dir = make_run("far-killed-2", 2);
  begin_there(dir);
  EXPECT_EQ(end(), static_cast<int>(ExitCode::kRunFailed));
  const Json json = record(dir);
  EXPECT_EQ(json["failure"]["kind"], "rank_died");
  EXPECT_EQ(json["failure"]["rank"], 1);
  EXPECT_THAT(json["failure"]["message"].get<std::string>(), HasSubstr("rank 1 on elsewhere was killed by signal 9"));
  EXPECT_EQ(json["exit_codes"][1], 137);
  EXPECT_EQ(steps_recorded(dir, 1), 10u);
  expect_all_is_here(dir, 2);
}

TEST_F(OtherHostTest, ACutOfThreeSecondsLeavesNoGap) {
  const Variable steps("FAKE_STEPS", "300");
  const fs::path dir = make_run("far-cut-2", 2);
  begin_there(dir);
  wait_for_steps(dir, 2, 20);
  network().cut();
  std::this_thread::sleep_for(3s);
  network().heal();
  EXPECT_EQ(end(), 0);
  for (int rank = 0; rank < 2; ++rank) {
    const auto recorded = record::read_spool(dir, 1, rank).steps;
    ASSERT_EQ(recorded.size(), 300u);
    for (size_t i = 0; i < recorded.size(); ++i) ASSERT_EQ(recorded[i].first_step, i);
  }
  expect_all_is_here(dir, 2);
}

TEST_F(OtherHostTest, ALongerCutFailsTheRun) {
  const Variable steps("FAKE_STEPS", "100000");
  const fs::path dir = make_run("far-lost-2", 2);
  begin_there(dir);
  wait_for_steps(dir, 2, 20);
  const size_t before = steps_recorded(dir, 0);
  network().hold();
  EXPECT_EQ(end(), static_cast<int>(ExitCode::kRunFailed));
  const Json json = record(dir);
  EXPECT_EQ(json["failure"]["kind"], "host_lost");
  EXPECT_EQ(json["failure"]["host"], "elsewhere");
  EXPECT_EQ(json["failure"]["message"], "ranks 0, 1 on elsewhere: the link to their host was lost");
  EXPECT_EQ(json["exit_codes"], Json::array({nullptr, nullptr}));
  EXPECT_GE(steps_recorded(dir, 0), before) << "what had come is kept";
}

// Nothing says there that a process is stopped: who waited for it is not to blame all the same.
TEST_F(OtherHostTest, ARankThatNeverComesIsNamed) {
  const Variable fault("FAKE_FAULT", "1:0:no_join");
  const fs::path dir = make_run("far-absent-2", 2, 2);
  begin_there(dir);
  EXPECT_EQ(end(), static_cast<int>(ExitCode::kRunFailed));
  const Json failure = record(dir)["failure"];
  EXPECT_EQ(failure["kind"], "start_failed");
  EXPECT_EQ(failure["rank"], 1);
  EXPECT_EQ(failure["host"], "elsewhere");
  EXPECT_THAT(failure["message"].get<std::string>(), StartsWith("rank 1 on elsewhere did not join the rendezvous"));
}

// Another host than before, or the same without what it had.
TEST_F(OtherHostTest, ARunGoesOnWhereNothingIsOfIt) {
  const Variable checkpoints("FAKE_CHECKPOINT", "5");
  const fs::path dir = make_run("far-resumed-2", 2);
  {
    const Variable fault("FAKE_FAULT", "1:12:exit:4");
    begin_there(dir);
    EXPECT_EQ(end(), static_cast<int>(ExitCode::kRunFailed));
  }
  EXPECT_EQ(names_in(dir / "checkpoints"), (std::set<std::string>{"step-000000005", "step-000000010"}));
  const fs::path model = "checkpoints/step-000000010/model.safetensors";
  EXPECT_TRUE(read_file(dir / model) == read_file(exec::LinkedExecutor::there(dir) / model));
  fs::remove_all(exec::LinkedExecutor::there(dir));

  begin_there(dir, 10);
  EXPECT_EQ(end(), 0);
  const Json json = record(dir);
  EXPECT_EQ(json["state"], "finished");
  EXPECT_EQ(json["failure"], nullptr);
  ASSERT_EQ(json["segments"].size(), 2u);
  EXPECT_EQ(json["segments"][0]["failure"]["kind"], "rank_error");
  EXPECT_EQ(json["segments"][1]["failure"], nullptr);
  EXPECT_EQ(json["segments"][1]["start_step"], 10);
  EXPECT_EQ(json["segments"][1]["steps"], 10);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(read_file(rank_log_path(dir / "logs", 2, rank, LogStream::kStderr)), HasSubstr("goes on from step 10"));
  }
  const fs::path spool = steps_path("", 1, 0);
  EXPECT_TRUE(read_file(exec::LinkedExecutor::there(dir) / spool) == read_file(dir / spool));
  EXPECT_EQ(names_in(dir / "checkpoints"),
            (std::set<std::string>{"step-000000005", "step-000000010", "step-000000015", "step-000000020"}));
}

TEST_F(OtherHostTest, ACommandGoesOnFromItsOwnCheckpoint) {
  const fs::path dir = make_command("far-own-2", 2, R"sh(
      cd "$MLBENCH_RUN_DIR"; mkdir -p metrics; whole=checkpoints/step-000000007
      if [ -n "$1" ]; then echo "goes on from $(cat $whole/state)"; echo two >> metrics/rank-$RANK.jsonl; exit 0; fi
      echo one >> metrics/rank-$RANK.jsonl
      if [ $RANK = 0 ]; then mkdir checkpoints/.new; echo 7 > checkpoints/.new/state; mv checkpoints/.new $whole; fi
      while [ ! -e $whole ]; do sleep 0.1; done
      exit 3)sh");
  begin_there(dir);
  EXPECT_EQ(end(), static_cast<int>(ExitCode::kRunFailed));
  fs::remove_all(exec::LinkedExecutor::there(dir));
  begin_there(dir, 7);
  EXPECT_EQ(end(), 0);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(read_file(rank_log_path(dir / "logs", 2, rank, LogStream::kStdout)), "goes on from 7\n");
    EXPECT_EQ(read_file(dir / "metrics" / ("rank-" + std::to_string(rank) + ".jsonl")), "one\ntwo\n");
  }
}

TEST_F(OtherHostTest, WhatARunGoesOnFromIsSentOncePerHost) {
  constexpr int64_t kBytes = 4'000'000;
  const fs::path dir = make_command("far-once-3", 3, R"sh(
      cd "$MLBENCH_RUN_DIR"; whole=checkpoints/step-000000007
      if [ -n "$1" ]; then sha256sum < $whole/state; exit 0; fi
      if [ $RANK = 0 ]; then
        mkdir checkpoints/.new; head -c 4000000 /dev/urandom > checkpoints/.new/state; mv checkpoints/.new $whole
      fi
      while [ ! -e $whole ]; do sleep 0.1; done
      exit 3)sh");
  begin_there(dir);
  EXPECT_EQ(end(), static_cast<int>(ExitCode::kRunFailed));
  fs::remove_all(exec::LinkedExecutor::there(dir));
  begin_there(dir, 7);
  EXPECT_EQ(end(), 0);
  const std::string hash = sha256_hex(read_file(dir / "checkpoints/step-000000007/state"));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(read_file(rank_log_path(dir / "logs", 2, rank, LogStream::kStdout)), StartsWith(hash))
        << "rank " << rank;
  }
  EXPECT_GE(network().bytes_to_clients(), kBytes);
  EXPECT_LT(network().bytes_to_clients(), 2 * kBytes);
}

TEST_F(OtherHostTest, ALostHostIsRequeued) {
  const Variable steps("FAKE_STEPS", "200");
  const Variable checkpoints("FAKE_CHECKPOINT", "20");
  const fs::path dir = make_run("far-requeued-2", 2);
  requeue(dir, 1);
  begin_there(dir);
  EXPECT_TRUE(eventually([&] { return fs::exists(dir / "checkpoints/step-000000040/state.json"); }));
  network().hold();
  EXPECT_EQ(end(), 0);
  const Json json = record(dir);
  EXPECT_EQ(json["state"], "finished");
  EXPECT_EQ(json["failure"], nullptr);
  ASSERT_EQ(json["segments"].size(), 2u);
  EXPECT_EQ(json["segments"][0]["failure"]["kind"], "host_lost");
  EXPECT_EQ(json["segments"][0]["exit_codes"], Json::array({nullptr, nullptr}));
  const int64_t from = json["segments"][1]["start_step"];
  EXPECT_GE(from, 40);
  EXPECT_EQ(json["segments"][1]["steps"], 200 - from);
  EXPECT_GT(json["segments"][1]["lost_s"], 9) << "from the last that was heard";
  EXPECT_EQ(json["exit_codes"], Json({0, 0}));
  EXPECT_TRUE(notes_have(dir, "requeued from step " + std::to_string(from) + " (1 of 1): ranks 0, 1 on elsewhere"));
  EXPECT_TRUE(fs::exists(dir / "checkpoints/step-000000200/state.json"));
}

TEST_F(OtherHostTest, ARankThatFailsIsNotRequeued) {
  const Variable checkpoints("FAKE_CHECKPOINT", "5");
  const Variable fault("FAKE_FAULT", "1:12:exit:4");
  const fs::path dir = make_run("far-failed-2", 2);
  requeue(dir, 3);
  begin_there(dir);
  EXPECT_EQ(end(), static_cast<int>(ExitCode::kRunFailed));
  const Json json = record(dir);
  EXPECT_EQ(json["failure"]["kind"], "rank_error");
  EXPECT_EQ(json["segments"].size(), 1u);
  EXPECT_EQ(json["segments"][0]["failure"], json["failure"]);
}

TEST_F(OtherHostTest, ARunCanBeStopped) {
  const Variable steps("FAKE_STEPS", "100000");
  const fs::path dir = make_run("far-stopped-2", 2);
  begin_there(dir);
  wait_for_steps(dir, 2, 5);
  request_stop(dir);
  EXPECT_EQ(end(), static_cast<int>(ExitCode::kStopped));
  EXPECT_EQ(record(dir)["state"], "stopped");
  expect_all_is_here(dir, 2);
}

// ---- segments -------------------------------------------------------------------------------------------------------

// An executor that looks at the folder when the ranks would start.
class WatchingExecutor final : public exec::Executor {
 public:
  std::string name() const override { return "watching"; }
  exec::ExecutorFacts facts() const override { return {.on_this_host = true}; }
  std::unique_ptr<exec::Start> start(const exec::LaunchRequest& request) override {
    const auto progress = read_progress(request.log_dir.parent_path());
    segments_ = progress ? static_cast<int64_t>(progress->segments.size()) : -1;
    throw IoError("no rank today");
  }
  std::vector<std::string> describe(const exec::LaunchRequest&) const override { return {}; }
  int64_t segments() const { return segments_; }

 private:
  int64_t segments_ = 0;
};

// Else a resumed run would write the files of a segment whose supervisor died early.
TEST_F(SupervisorTest, ASegmentIsOnDiskBeforeItsRanksStart) {
  WatchingExecutor executor;
  const fs::path dir = make_run("early-1", 1);
  SupervisorOptions here = options(dir);
  here.attached = false;
  EXPECT_EQ(supervise(here, executor), static_cast<int>(ExitCode::kRunFailed));
  EXPECT_EQ(executor.segments(), 1);
  here.resume_step = 5;
  EXPECT_EQ(supervise(here, executor), static_cast<int>(ExitCode::kRunFailed));
  EXPECT_EQ(executor.segments(), 2);
}

// A supervisor that dies in the queue takes nothing from the segment that was over.
TEST_F(SupervisorTest, ALostResumeLeavesTheEarlierSegment) {
  const fs::path dir = make_run("lost-1", 1);
  {
    const Variable fault("FAKE_FAULT", "0:10:exit:7");
    EXPECT_EQ(run(options(dir)), static_cast<int>(ExitCode::kRunFailed));
  }
  auto cores = FileLock::acquire(folder_.path() / "cores.lock", 0ms);
  SupervisorOptions resume = options(dir);
  resume.resume_step = 5;
  SupervisorHandle handle = start(resume);
  EXPECT_TRUE(eventually([&] { return state(dir) == "queued"; })) << "it is active again at once";
  kill(handle.pid(), SIGKILL);
  EXPECT_EQ(wait(handle), 137);
  EXPECT_EQ(record(dir)["failure"]["kind"], "supervisor_lost");
  EXPECT_EQ(record(dir)["segments"][0]["exit_codes"][0], 7);
}

TEST_F(SupervisorTest, ResumeAddsASegment) {
  const fs::path dir = make_run("resume-2", 2);
  {
    const Variable fault("FAKE_FAULT", "1:10:exit:7");
    EXPECT_EQ(run(options(dir)), static_cast<int>(ExitCode::kRunFailed));
  }
  const double wall = record(dir)["clocks"]["wall_s"].get<double>();
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(run(options(dir)), static_cast<int>(ExitCode::kUserError)) << "a second start that is no resume";
  EXPECT_EQ(state(dir), "failed");
  SupervisorOptions resume = options(dir);
  resume.resume_step = 5;
  EXPECT_EQ(run(resume), 0);
  const Json json = record(dir);
  EXPECT_EQ(json["state"], "finished");
  EXPECT_TRUE(json["failure"].is_null());
  ASSERT_EQ(json["segments"].size(), 2u);
  EXPECT_EQ(json["segments"][0]["exit_codes"][1], 7);
  EXPECT_EQ(json["segments"][1]["index"], 2);
  EXPECT_EQ(json["segments"][1]["start_step"], 5);
  EXPECT_EQ(json["segments"][1]["exit_codes"], Json({0, 0}));
  EXPECT_GE(json["segments"][1]["lost_s"].get<double>(), 0.3);
  EXPECT_GT(json["clocks"]["wall_s"].get<double>(), wall);
  EXPECT_EQ(steps_recorded(dir, 0, 2), 15u);
  EXPECT_EQ(run(resume), static_cast<int>(ExitCode::kUserError)) << "a finished run cannot be resumed";
  EXPECT_EQ(state(dir), "finished");
}

}  // namespace
}  // namespace mlbench::supervise
