#include "mlbench/exec/slurm/slurm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "mlbench/base/build_info.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/exec/linked.h"
#include "mlbench/exec/slurm/answers.h"
#include "mlbench/exec/slurm/job.h"
#include "mlbench/exec/slurm/script.h"
#include "mlbench/exec/slurm/test_fake_slurm.h"
#include "mlbench/exec/test_executor.h"
#include "mlbench/exec/test_links.h"

namespace mlbench::exec::slurm {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
constexpr auto kPatience = 30s;

// ---- what Slurm is given -------------------------------------------------------------------------------------------

LaunchRequest plain_request() {
  LaunchRequest request;
  request.backend = "gloo";
  request.guard = "/opt/mlbench-guard";
  request.command = {"/opt/mlbench-worker", "--run-dir", "/home/x/runs/r-4", "--segment", "2"};
  request.workers = 4;
  request.log_dir = "/home/x/runs/r-4/logs";
  request.segment = 2;
  request.run_name = "r-4";
  request.environment = {{"MLBENCH_RUN_ID", "17"}, {"OMP_NUM_THREADS", "1"}};
  return request;
}

std::string scratch_of(const LaunchRequest& request, const Options& engine = {}) {
  return folder_on_hosts(request, engine.scratch).string();
}

TEST(SlurmScript, HasAllThatASiteMaySetOtherwise) {
  const LaunchRequest request = plain_request();
  EXPECT_EQ(batch_script(on_hosts(request, {}), {}),
            "#!/bin/bash\n"
            "#SBATCH --job-name=mlbench-r-4\n"
            "#SBATCH --ntasks=4\n"
            "#SBATCH --cpus-per-task=1\n"
            "#SBATCH --chdir=/tmp\n"
            "#SBATCH --output=/home/x/runs/r-4/logs/slurm.seg-2.log\n"
            "#SBATCH --open-mode=append\n"
            "#SBATCH --export=ALL\n"
            "#SBATCH --no-requeue\n"
            "#SBATCH --exclusive\n"
            "\n"
            "if [ \"${SLURM_RESTART_COUNT:-0}\" != 0 ]; then\n"
            "  echo 'this job was requeued: its run does not begin again' >&2\n"
            "  exit 1\n"
            "fi\n"
            "\n"
            "exec srun --ntasks=4 --cpus-per-task=1 --distribution=block --cpu-bind=none --mpi=none "
            "--kill-on-bad-exit=0 --wait=0 --export=ALL --input=none --label /opt/mlbench-guard slurm "
            "/opt/mlbench-worker --run-dir " +
                scratch_of(request) + " --segment 2\n");
}

TEST(SlurmScript, HasWhatWasAskedFor) {
  LaunchRequest request = plain_request();
  request.by_mpirun = true;
  request.workers = 5;
  request.threads = 3;
  request.working_directory = "/home/x/my work";
  request.command = {"/bin/sh", "-c", "echo it's {rank}\n#SBATCH --partition=stolen"};
  Options engine;
  engine.ranks_per_host = 2;
  engine.scratch = "/scratch";
  engine.setup = "module load openmpi\nexport A='b c'";
  // An image of pyxis is one such option.
  engine.slurm = {"partition=gpu",
                  "time=1:00:00",
                  "exclusive",
                  "gres=gpu:2",
                  "container-image=docker://registry.example/mlbench#worker:1",
                  "container-mounts=/data:/data,/opt/mlbench:/opt/mlbench",
                  "comment=say \"it\"",
                  "requeue"};
  EXPECT_EQ(batch_script(on_hosts(request, engine), engine),
            "#!/bin/bash\n"
            "#SBATCH --job-name=mlbench-r-4\n"
            "#SBATCH --ntasks=5\n"
            "#SBATCH --nodes=3\n"
            "#SBATCH --ntasks-per-node=2\n"
            "#SBATCH --cpus-per-task=3\n"
            "#SBATCH --chdir=\"/home/x/my work\"\n"
            "#SBATCH --output=/home/x/runs/r-4/logs/slurm.seg-2.log\n"
            "#SBATCH --open-mode=append\n"
            "#SBATCH --export=ALL\n"
            "#SBATCH --no-requeue\n"
            "#SBATCH --partition=gpu\n"
            "#SBATCH --time=1:00:00\n"
            "#SBATCH --exclusive\n"
            "#SBATCH --gres=gpu:2\n"
            "#SBATCH --container-image=\"docker://registry.example/mlbench#worker:1\"\n"
            "#SBATCH --container-mounts=/data:/data,/opt/mlbench:/opt/mlbench\n"
            "#SBATCH --comment=\"say \\\"it\\\"\"\n"
            "#SBATCH --requeue\n"
            "\n"
            "if [ \"${SLURM_RESTART_COUNT:-0}\" != 0 ]; then\n"
            "  echo 'this job was requeued: its run does not begin again' >&2\n"
            "  exit 1\n"
            "fi\n"
            "\n"
            "module load openmpi\n"
            "export A='b c'\n"
            "\n"
            "exec srun --ntasks=5 --ntasks-per-node=2 --cpus-per-task=3 --distribution=block --cpu-bind=none "
            "--mpi=pmix --kill-on-bad-exit=0 --wait=0 --export=ALL --input=none --label /opt/mlbench-guard slurm "
            "/bin/sh -c 'echo it'\\''s {rank}\n#SBATCH --partition=stolen'\n");
}

TEST(SlurmScript, TheImageIsThatOfTheRanks) {
  LaunchRequest request = plain_request();
  request.working_directory = "/home/x/work";
  request.folders = {{"/home/x/work", true}, {"/data", false}};
  Options engine;
  engine.scratch = "/scratch";
  engine.image = "registry.example#team/image:1";
  const std::string script = batch_script(on_hosts(request, engine), engine);
  EXPECT_THAT(script, HasSubstr(" --label '--container-image=registry.example#team/image:1' --container-mounts="
                                "/opt/mlbench-guard:/opt/mlbench-guard:ro,/scratch:/scratch,/home/x/work:/home/x/work,"
                                "/data:/data:ro --container-workdir=/home/x/work /opt/mlbench-guard slurm "));
  EXPECT_EQ(script.find("#SBATCH --container"), std::string::npos) << "the script itself runs on the host";
  request.folders = {{"/a,b", true}};
  EXPECT_THAT([&] { batch_script(on_hosts(request, engine), engine); },
              testing::ThrowsMessage<UserError>(HasSubstr("/a,b has a comma")));
  request.folders = {{"/a$(reboot)", true}};
  EXPECT_THAT([&] { batch_script(on_hosts(request, engine), engine); },
              testing::ThrowsMessage<UserError>(HasSubstr("where pyxis takes it apart: use another folder")));
  EXPECT_THAT(
      [&] {
        make({{"image", engine.image}, {"slurm", {"container-image=other"}}});
      },
      testing::ThrowsMessage<UserError>(HasSubstr("leave out one")));
}

TEST(SlurmScript, AFileOfApptainersIsItsToRun) {
  LaunchRequest request = plain_request();
  request.command.front() = "mlbench-worker";
  request.folders = {{"/home/x/cache", true}, {"/data", false}};
  Options engine;
  engine.image = "/images/my worker.sif";
  std::string script = batch_script(on_hosts(request, engine), engine);
  EXPECT_THAT(
      script,
      testing::EndsWith(
          "\nexec srun --ntasks=4 --cpus-per-task=1 --distribution=block --cpu-bind=none --mpi=none "
          "--kill-on-bad-exit=0 --wait=0 --export=ALL --input=none --label apptainer exec --no-mount "
          "home,cwd,tmp --bind /opt/mlbench-guard:/opt/mlbench-guard:ro,/tmp:/tmp:rw,/home/x/"
          "cache:/home/x/cache:rw,/data:/data:ro '/images/my worker.sif' /opt/mlbench-guard slurm mlbench-worker "
          "--run-dir " +
          scratch_of(request) + " --segment 2\n"));
  request.gpu = true;
  request.working_directory = "/home/x/work";
  script = batch_script(on_hosts(request, engine), engine);
  EXPECT_THAT(script, HasSubstr("/data:/data:ro --nv --pwd /home/x/work '/images/my worker.sif' "));
  EXPECT_THAT(script, Not(HasSubstr("--container")));
  request.folders = {{"/a^b", true}};
  EXPECT_THAT([&] { batch_script(on_hosts(request, engine), engine); },
              testing::ThrowsMessage<UserError>(HasSubstr("where Apptainer takes it apart: use another folder")));
  engine.image = "worker.sif";
  EXPECT_THAT([&] { batch_script(request, engine); }, testing::ThrowsMessage<UserError>(HasSubstr("absolute path")));
}

TEST(SlurmScript, EachTaskHasAGpuUnlessOptionsSayWhichItHas) {
  LaunchRequest request = plain_request();
  request.gpu = true;
  Options engine;
  const auto script = [&] { return batch_script(on_hosts(request, engine), engine); };
  const auto guard_picks = [&] { return on_hosts(request, engine).environment.contains("MLBENCH_GUARD_OWN_GPU"); };
  const std::string line = "#SBATCH --cpus-per-task=1\n#SBATCH --gpus-per-task=1\n";
  EXPECT_THAT(script(), testing::AllOf(HasSubstr(line), HasSubstr(" --gpus-per-task=1 --gpu-bind=none ")))
      << "a worker picks its own";
  EXPECT_FALSE(guard_picks());
  request.rank_words = true;
  EXPECT_THAT(script(), testing::AllOf(HasSubstr(line), HasSubstr(" --cpus-per-task=1 --gpus-per-task=1 --dist")));
  EXPECT_FALSE(guard_picks()) << "srun binds each task";
  request.environment["CUDA_VISIBLE_DEVICES"] = "0,1";
  EXPECT_THAT(script(), HasSubstr(" --gpus-per-task=1 --gpu-bind=none "));
  EXPECT_EQ(on_hosts(request, engine).environment.at("MLBENCH_GIVEN_CUDA_VISIBLE_DEVICES"), "0,1")
      << "srun has its own";
  request.environment.erase("CUDA_VISIBLE_DEVICES");
  for (const char* option : {"gres=gpu:a100:2", "gpus=4", "gpus-per-node=2", "gpus-per-socket=1"}) {
    engine.slurm = {"partition=short", option};
    EXPECT_THAT(script(), Not(HasSubstr("gpus-per-task"))) << option;
    EXPECT_TRUE(guard_picks()) << option;
  }
  for (const char* option : {"gpus-per-task=2", "gpu-bind=closest", "tres-per-task=gres:gpu:1"}) {
    engine.slurm = {"gres=gpu:2", option};
    EXPECT_THAT(script(), Not(HasSubstr("srun --ntasks=4 --cpus-per-task=1 --gpu"))) << option;
    EXPECT_FALSE(guard_picks()) << option << ": the user binds tasks";
  }
  engine.slurm = {"gres=nvme:1"};
  EXPECT_THAT(script(), HasSubstr(line));
  request.gpu = false;
  EXPECT_THAT(script(), Not(HasSubstr("gpu")));
}

TEST(SlurmScript, ApptainerLimitsAFractionOfTheCpusThatSlurmGives) {
  LaunchRequest request = plain_request();
  request.threads = 2;
  Options engine;
  engine.image = "/images/worker.sif";
  request.cpus = 2.5;
  const std::string script = batch_script(on_hosts(request, engine), engine);
  EXPECT_THAT(script, HasSubstr("#SBATCH --cpus-per-task=3\n"));
  EXPECT_THAT(script, HasSubstr("exec srun --ntasks=4 --cpus-per-task=3 "));
  EXPECT_THAT(script, HasSubstr(" --cpus 2.5 /images/worker.sif "));
}

TEST(SlurmScript, NodesAreOneRunsAloneUnlessItSharesThem) {
  LaunchRequest request = plain_request();
  const std::string line = "#SBATCH --exclusive\n";
  Options engine;
  EXPECT_THAT(batch_script(request, engine), HasSubstr(line));
  for (const char* option : {"exclusive=user", "oversubscribe"}) {
    engine.slurm = {option};
    EXPECT_THAT(batch_script(request, engine), testing::AllOf(HasSubstr(option), Not(HasSubstr(line))));
  }
  engine.slurm = {"exclusive-like=x"};
  EXPECT_THAT(batch_script(request, engine), HasSubstr(line));
  engine.slurm.clear();
  request.share_host = true;
  EXPECT_THAT(batch_script(request, engine), Not(HasSubstr("exclusive")));
}

TEST(SlurmScript, FewerRanksThanAHostTakesAreOnOne) {
  LaunchRequest request = plain_request();
  request.workers = 2;
  Options engine;
  engine.ranks_per_host = 8;
  EXPECT_THAT(batch_script(request, engine), HasSubstr("#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=2\n"));
}

TEST(SlurmScript, RefusesOptionsThatAreNone) {
  for (const char* option : {"", "=x", "--partition=x", "part ition=x", "-p", "1time"}) {
    EXPECT_THAT([&] { option_line(option); }, testing::ThrowsMessage<UserError>(HasSubstr("expected KEY or KEY=VALUE")))
        << option;
  }
  for (const char* option : {"comment=a\nb", "comment=a\rb", "comment=a\tb"}) {
    EXPECT_THAT([&] { option_line(option); }, testing::ThrowsMessage<UserError>(HasSubstr("control character")));
  }
  EXPECT_THAT([] { option_line("ntasks=9"); }, testing::ThrowsMessage<UserError>(HasSubstr("the number of workers")));
  EXPECT_THAT([] { option_line("array=1-4"); }, testing::ThrowsMessage<UserError>(HasSubstr("--repeat")));
  EXPECT_THAT([] { make({{"slurm", {"export=NONE"}}}); }, testing::ThrowsMessage<UserError>(HasSubstr("--env")));
  EXPECT_EQ(option_line("comment=C:\\x"), "#SBATCH --comment=\"C:\\\\x\"\n");
  EXPECT_EQ(option_line("comment="), "#SBATCH --comment=\n");
}

TEST(SlurmScript, TheFolderOnTheHostsIsOneRunsAlone) {
  const LaunchRequest request = plain_request();
  LaunchRequest other = request, later = request;
  other.log_dir = "/home/y/runs/r-4/logs";
  later.run_id = 18;
  EXPECT_THAT(scratch_of(request), testing::MatchesRegex("/tmp/mlbench-[0-9]+/r-4-[0-9a-f]{8}"));
  EXPECT_NE(scratch_of(request), scratch_of(other));
  EXPECT_NE(scratch_of(request), scratch_of(later));
  LaunchRequest named = request, again = request;
  named.run_identity = std::string(32, 'a');
  again.run_identity = std::string(32, 'b');  // the run of a home that was made again at the same path
  EXPECT_THAT(scratch_of(named), testing::EndsWith("/r-4-" + named.run_identity));
  EXPECT_NE(scratch_of(named), scratch_of(again));
  LaunchRequest resumed = request;
  resumed.segment = 3;
  EXPECT_EQ(scratch_of(request), scratch_of(resumed));
  Options engine;
  engine.scratch = "/scratch";
  EXPECT_THAT(scratch_of(request, engine), testing::StartsWith("/scratch/mlbench-"));
}

TEST(SlurmScript, OpenMpiIsToldWhatItNeeds) {
  LaunchRequest request = plain_request();
  request.by_mpirun = true;
  request.network_interface = "ib0";
  request.environment["MLBENCH_OVERSUBSCRIBED"] = "1";
  const auto environment = on_hosts(request, {}).environment;
  EXPECT_EQ(environment.at("OMPI_MCA_btl_tcp_if_include"), "ib0");
  EXPECT_EQ(environment.at("OMPI_MCA_mpi_yield_when_idle"), "1");
  request.network_interface = "10.0.0.7";
  EXPECT_FALSE(on_hosts(request, {}).environment.contains("OMPI_MCA_btl_tcp_if_include"));
}

TEST(SlurmCommand, IsAskedWithoutTheSettingsOfTheTerminal) {
  const auto plain = slurm_command({"sbatch", "x"});
  for (const auto& [name, value] : {std::pair("SBATCH_PARTITION", "p"), std::pair("SLURM_JOB_ID", "4"),
                                    std::pair("SLURM_CONF", "/etc/slurm.conf")}) {
    ASSERT_EQ(getenv(name), nullptr) << "this test is not to run within a job of Slurm";
    setenv(name, value, 1);
  }
  const auto command = slurm_command({"sbatch", "x"});
  for (const char* name : {"SBATCH_PARTITION", "SLURM_JOB_ID", "SLURM_CONF"}) unsetenv(name);
  EXPECT_THAT(plain, testing::ElementsAre("sbatch", "x"));
  EXPECT_THAT(command, testing::ElementsAre("env", "--unset=SBATCH_PARTITION", "--unset=SLURM_JOB_ID", "sbatch", "x"));
}

TEST(SlurmExecutor, DescribesCommandAndScript) {
  LaunchRequest request = plain_request();
  request.rank_words = true;
  const auto lines = make({})->describe(request);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            "MLBENCH_GUARD_RANK_WORDS=1 MLBENCH_RUN_ID=17 OMP_NUM_THREADS=1 sbatch --parsable "
            "/home/x/runs/r-4/logs/slurm.seg-2.sbatch\n" +
                batch_script(on_hosts(request, {}), {}));
}

TEST(SlurmExecutor, AControllerThatDoesNotAnswerIsAnObstacle) {
  const FakeSlurm slurm(FAKE_SLURM);
  EXPECT_EQ(make({})->obstacle(plain_request()), "");
  slurm.write("plan", "down");
  EXPECT_EQ(make({})->obstacle(plain_request()),
            "executor slurm: Slurm does not say what nodes it has: sinfo: slurm_load_partitions: Unable to contact "
            "slurm controller (connect failure)");
}

// ---- what Slurm answers --------------------------------------------------------------------------------------------

TEST(SlurmAnswers, ASubmission) {
  EXPECT_EQ(parse_submission("12\n")->id, "12");
  EXPECT_EQ(parse_submission("12\n")->cluster, "");
  EXPECT_EQ(parse_submission("welcome to this site\n4711;north\n\n")->id, "4711");
  EXPECT_EQ(parse_submission("4711;north\n")->cluster, "north");
  for (const char* text : {"", "\n", "Submitted batch job 12\n", ";north", "12a"}) {
    EXPECT_FALSE(parse_submission(text)) << text;
  }
}

// This is what Slurm 22.05.8 printed.
const std::string kPending =
    "JobId=12 JobName=mlbench-r-4 UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901759 Nice=0 "
    "Account=(null) "
    "QOS=(null) JobState=PENDING Reason=Resources Dependency=(null) Requeue=0 Restarts=0 BatchFlag=1 Reboot=0 "
    "ExitCode=0:0 RunTime=00:00:00 TimeLimit=01:00:00 TimeMin=N/A SubmitTime=2026-01-31T12:00:00 "
    "EligibleTime=2026-01-31T12:00:00 AccrueTime=2026-01-31T12:00:00 StartTime=Unknown EndTime=Unknown Deadline=N/A "
    "SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-01-31T12:00:03 Scheduler=Main Partition=test "
    "AllocNode:Sid=vm:31644 ReqNodeList=(null) ExcNodeList=(null) NodeList= NumNodes=4-4 NumCPUs=4 NumTasks=4 "
    "CPUs/Task=1 ReqB:S:C:T=0:0:*:* TRES=cpu=4,mem=400M,node=4,billing=4 Socks/Node=* NtasksPerN:B:S:C=1:0:*:* "
    "CoreSpec=* MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0 Features=(null) DelayBoot=00:00:00 OverSubscribe=OK "
    "Contiguous=0 Licenses=(null) Network=(null) Command=/home/x/my runs/r-4/logs/slurm.seg-1.sbatch WorkDir=/tmp "
    "Comment=JobState=RUNNING x JobState=RUNNING  StdErr=/home/x/r-4/logs/slurm.seg-1.log StdIn=/dev/null "
    "StdOut=/home/x/r-4/logs/slurm.seg-1.log Power= \n";

std::string sample(std::vector<std::pair<std::string, std::string>> changes) {
  std::string text = kPending;
  for (const auto& [from, to] : changes) {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
  }
  return text;
}

TEST(SlurmAnswers, AJobThatWaits) {
  const auto job = parse_job(kPending);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->phase(), JobPhase::kQueued);
  EXPECT_EQ(job->words(), "PENDING (Resources)");
  EXPECT_FALSE(job->requeued());
  EXPECT_EQ(job->field("NodeList"), "");
  EXPECT_EQ(job->field("Command"), "/home/x/my runs/r-4/logs/slurm.seg-1.sbatch");
  EXPECT_EQ(job->field("AllocNode:Sid"), "vm:31644");
  EXPECT_EQ(job->field("Comment"), "JobState=RUNNING x");
  EXPECT_EQ(job->field("no such"), "");
}

TEST(SlurmAnswers, AJobThatRuns) {
  const auto job = parse_job(sample({{"JobState=PENDING Reason=Resources", "JobState=RUNNING Reason=None"},
                                     {"NodeList= NumNodes=4-4", "NodeList=n[1-4] BatchHost=n1 NumNodes=4"},
                                     {"Account=(null)", "Account=lab"}}));
  ASSERT_TRUE(job);
  EXPECT_EQ(job->phase(), JobPhase::kRunning);
  EXPECT_EQ(job->words(), "RUNNING on n[1-4]");
  EXPECT_EQ(allocation_of({"12", ""}, *job), Json({{"engine", "slurm"},
                                                   {"job", "12"},
                                                   {"cluster", nullptr},
                                                   {"partition", "test"},
                                                   {"account", "lab"},
                                                   {"qos", nullptr},
                                                   {"reservation", nullptr},
                                                   {"nodes", "n[1-4]"},
                                                   {"node_count", 4},
                                                   {"cpus", 4},
                                                   {"memory", "400M"},
                                                   {"resources", "cpu=4,mem=400M,node=4,billing=4"},
                                                   {"time_limit", "01:00:00"}}));
}

TEST(SlurmAnswers, WhatNewerOnesCallAllocated) {
  const auto job = parse_job("JobId=1 JobState=RUNNING ReqTRES=cpu=2,mem=1G AllocTRES=cpu=4,mem=2G,gres/gpu=1");
  ASSERT_TRUE(job);
  EXPECT_EQ(allocation_of({"1", "north"}, *job)["resources"], "cpu=4,mem=2G,gres/gpu=1");
  EXPECT_EQ(allocation_of({"1", "north"}, *job)["memory"], "2G");
  EXPECT_EQ(allocation_of({"1", "north"}, *job)["cluster"], "north");
}

TEST(SlurmAnswers, EachStateIsAPhase) {
  const auto phase = [](const std::string& state) { return parse_job("JobId=1 JobState=" + state)->phase(); };
  for (const char* state : {"PENDING", "REQUEUED", "SPECIAL_EXIT"}) EXPECT_EQ(phase(state), JobPhase::kQueued) << state;
  for (const char* state : {"CONFIGURING", "RUNNING", "SUSPENDED", "SOMETHING_NEW"}) {
    EXPECT_EQ(phase(state), JobPhase::kRunning) << state;
  }
  EXPECT_EQ(phase("COMPLETING"), JobPhase::kEnding);
  for (const char* state : {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}) {
    EXPECT_EQ(phase(state), JobPhase::kEnded) << state;
  }
}

TEST(SlurmAnswers, ARequeueAndALostNodeAreSeen) {
  EXPECT_TRUE(parse_job(sample({{"Restarts=0", "Restarts=1"}}))->requeued());
  EXPECT_TRUE(parse_job("JobId=1 JobState=REQUEUED Restarts=0")->requeued());
  EXPECT_TRUE(parse_job("JobId=1 JobState=NODE_FAIL Reason=None")->host_gone());
  EXPECT_TRUE(parse_job("JobId=1 JobState=COMPLETING Reason=NodeDown")->host_gone());
  EXPECT_FALSE(parse_job("JobId=1 JobState=TIMEOUT Reason=TimeLimit")->host_gone());
  EXPECT_TRUE(parse_job("JobId=1 JobState=PREEMPTED Reason=None")->preempted());
  EXPECT_FALSE(parse_job("JobId=1 JobState=CANCELLED Reason=None")->preempted());
}

TEST(SlurmAnswers, WhatIsNoJob) {
  for (const char* text :
       {"", "\n", "No jobs in the system", "JobId=1", "JobState=RUNNING", "=", "JobId=1 JobState="}) {
    EXPECT_FALSE(parse_job(text)) << text;
  }
  EXPECT_TRUE(job_is_unknown("slurm_load_jobs error: Invalid job id specified"));
  EXPECT_FALSE(job_is_unknown("slurm_load_jobs error: Unable to contact slurm controller (connect failure)"));
}

// ---- a Slurm of this host ------------------------------------------------------------------------------------------

class SlurmTest : public testing::Test {
 protected:
  SlurmTest() { fs::create_directory(folder() / "logs"); }
  ~SlurmTest() override { fs::remove_all(scratch_of(request("", 1))); }

  fs::path folder() const { return dir_.path(); }

  LaunchRequest request(const std::string& script, int workers) const {
    LaunchRequest result;
    result.backend = "gloo";
    result.guard = GUARD;
    result.command = {"/bin/sh", "-c", script};
    result.workers = workers;
    result.log_dir = folder() / "logs";
    result.run_name = "test";
    result.environment = {{"MLBENCH_RUN_ID", "1"}};
    result.links.folder = folder();
    result.links.secret = "sesame";
    return result;
  }

  std::unique_ptr<Start> start(LaunchRequest launch) {
    links_.emplace(launch);
    return executor_->start(launch);
  }

  std::string log(int rank) const { return log_of(rank, folder() / "logs"); }
  void wait_for_log(int rank, const std::string& text) const { exec::wait_for_log(rank, text, folder() / "logs"); }

  static EngineWord next_word(RankGroup& group) {
    const auto words = exec::next_of<EngineWord>(group, kPatience);
    return words.empty() ? EngineWord() : words.front();
  }

  TemporaryFolder dir_;
  FakeSlurm slurm_{FAKE_SLURM};
  std::optional<TestLinks> links_;
  std::unique_ptr<Executor> executor_ = make({});
};

// This is what `scontrol show nodes --oneliner` of Slurm 22.05.8 printed, less some fields.
const std::string kNode =
    "NodeName=n1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=2 CPUTot=4 CPULoad=3.02 AvailableFeatures=(null) "
    "ActiveFeatures=(null) Gres=(null) NodeAddr=127.0.0.1 NodeHostName=localhost Port=17001 Version=22.05.8 "
    "OS=Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=4000 AllocMem=0 FreeMem=18400 Sockets=2 Boards=1 State=IDLE "
    "ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=test  BootTime=2026-01-31T12:00:00 "
    "CfgTRES=cpu=2,mem=4000M,billing=2 AllocTRES= CapWatts=n/a ExtSensorsTemp=n/s";

std::string node_with(const std::string& name, const std::string& state, const std::string& gres = "(null)",
                      const std::string& behind = "") {
  std::string text = kNode;
  for (const auto& [from, to] : {std::pair<std::string, std::string>("NodeName=n1", "NodeName=" + name),
                                 {"State=IDLE", "State=" + state},
                                 {"Gres=(null)", "Gres=" + gres}}) {
    text.replace(text.find(from), from.size(), to);
  }
  return text + behind + "\n";
}

TEST_F(SlurmTest, SaysWhatNodesThereAre) {
  slurm_.write("nodes", node_with("n1", "IDLE") +
                            node_with("n2", "IDLE+DRAIN", "(null)", " Reason=disk is full [root@2026-01-31T12:00:00]") +
                            node_with("g1", "MIXED", "gpu:a100:4(S:0-1),gpu:2,shard:8") + node_with("n3", "DOWN*") +
                            "No nodes in the system\n");
  const ClusterNodes all = executor_->nodes();
  EXPECT_EQ(all.problem, "");
  EXPECT_EQ(to_json(all)["nodes"], Json::parse(R"json([
    {"name": "n1", "state": "IDLE", "ready": true, "cpus": 2.0, "memory_bytes": 4194304000, "gpus": 0, "slots": null},
    {"name": "n2", "state": "IDLE+DRAIN (disk is full [root@2026-01-31T12:00:00])", "ready": false, "cpus": 2.0,
     "memory_bytes": 4194304000, "gpus": 0, "slots": null},
    {"name": "g1", "state": "MIXED", "ready": true, "cpus": 2.0, "memory_bytes": 4194304000, "gpus": 6, "slots": null},
    {"name": "n3", "state": "DOWN*", "ready": false, "cpus": 2.0, "memory_bytes": 4194304000, "gpus": 0, "slots": null}
  ])json"));
  EXPECT_THAT(slurm_.read("calls"), HasSubstr("scontrol show nodes --oneliner"));
  for (const char* good : {"ALLOCATED", "COMPLETING", "IDLE~", "IDLE+CLOUD", "MIXED#"}) {
    EXPECT_EQ(parse_nodes(node_with("n", good)).front().ready, true) << good;
  }
  for (const char* bad : {"IDLE*", "MIXED+DRAIN", "UNKNOWN", "ALLOCATED+MAINT", "FUTURE", "IDLE+NOT_RESPONDING"}) {
    EXPECT_EQ(parse_nodes(node_with("n", bad)).front().ready, false) << bad;
  }
}

TEST_F(SlurmTest, SaysWhyItsNodesAreNotKnown) {
  slurm_.write("plan", "refuse");
  const ClusterNodes none = executor_->nodes();
  EXPECT_TRUE(none.nodes.empty());
  EXPECT_EQ(none.problem,
            "Slurm does not say what nodes it has: scontrol: slurm_load_node error: Unable to contact slurm controller "
            "(connect failure)");
}

TEST_F(SlurmTest, QueuesThenRunsWhereSlurmSays) {
  slurm_.write("plan", "queue 2");
  slurm_.write("per_node", "2");
  LaunchRequest launch = request("echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $EXTRA; exit $((RANK + 3))", 3);
  launch.environment["EXTRA"] = "two words";
  const auto begun = start(launch);
  EXPECT_THAT(wait_for(*begun, StartState::kQueued).words, HasSubstr("job 12"));
  EXPECT_EQ(slurm_.read("job.12/state"), "PENDING\n");
  wait_for(*begun, StartState::kStarted);
  auto group = begun->take();
  const auto places = group->placement();
  ASSERT_EQ(places.size(), 3u);
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(places[rank].rank, static_cast<int>(rank));
    EXPECT_EQ(places[rank].host, rank < 2 ? "n1" : "n2");
    EXPECT_EQ(places[rank].local_rank, rank < 2 ? static_cast<int>(rank) : 0);
    EXPECT_EQ(places[rank].cores, allowed_cores());
  }
  EXPECT_EQ(group->allocation()["job"], "12");
  EXPECT_EQ(group->allocation()["partition"], "test");
  EXPECT_EQ(group->allocation()["cpus"], 3);
  std::map<int, int> codes;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (group->running() && std::chrono::steady_clock::now() < deadline) {
    const auto seen = group->poll(100ms);
    for (const RankExit& exit : only<RankExit>(seen)) codes[exit.rank] = exit.end.code;
    EXPECT_THAT(only<EngineWord>(seen), testing::IsEmpty());
  }
  EXPECT_EQ(codes, (std::map<int, int>{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(log(0), "0/3 0/2 two words\n");
  EXPECT_EQ(log(2), "2/3 0/1 two words\n");
  group.reset();
  EXPECT_EQ(slurm_.read("job.12/state"), "FAILED\n") << "it ended by itself, with the code of a rank";
  EXPECT_THAT(slurm_.read("calls"), Not(HasSubstr("scancel")));
}

TEST_F(SlurmTest, RanksOfACommandAreToldOfEachOther) {
  slurm_.write("per_node", "2");
  LaunchRequest launch = request(
      "echo {rank} {hosts} $MASTER_ADDR $HOROVOD_CONTROLLER $HOROVOD_GLOO_RENDEZVOUS_ADDR $HOROVOD_RANK/$HOROVOD_SIZE "
      "$HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE $HOROVOD_CROSS_RANK/$HOROVOD_CROSS_SIZE; echo $MASTER_PORT >port-{rank}",
      3);
  launch.rank_words = true;
  launch.working_directory = folder();
  launch.environment["HOROVOD_CONTROLLER"] = "theirs";
  const auto begun = start(launch);
  wait_for(*begun, StartState::kStarted);
  auto group = begun->take();
  for (int rank = 0; rank < 3; ++rank) wait_for_log(rank, "/");
  const std::string all = "127.0.0.1,127.0.0.1,127.0.0.1 127.0.0.1 theirs 127.0.0.1 ";
  EXPECT_EQ(log(0), "0 " + all + "0/3 0/2 0/2\n");
  EXPECT_EQ(log(1), "1 " + all + "1/3 1/2 0/1\n");
  EXPECT_EQ(log(2), "2 " + all + "2/3 0/1 1/2\n");
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (group->running() && std::chrono::steady_clock::now() < deadline) group->poll(100ms);
  EXPECT_GT(std::stoi(read_file(folder() / "port-0")), 1023);
  EXPECT_EQ(read_file(folder() / "port-0"), read_file(folder() / "port-2")) << "it is that of rank 0";
}

TEST_F(SlurmTest, SecretsStandInNoCommandAndNoScript) {
  const auto begun = start(request("exit 0", 1));
  wait_for(*begun, StartState::kStarted);
  EXPECT_THAT(slurm_.read("calls"), HasSubstr("sbatch --parsable"));
  EXPECT_THAT(slurm_.read("calls"), Not(HasSubstr("sesame")));
  EXPECT_THAT(read_file(folder() / "logs/slurm.seg-1.sbatch"), Not(HasSubstr("sesame")));
  EXPECT_EQ(fs::status(folder() / "logs/slurm.seg-1.sbatch").permissions() & fs::perms::others_write, fs::perms::none);
  EXPECT_THAT(slurm_.read("job.12/environment"), HasSubstr("MLBENCH_GUARD_SECRET=sesame"));
}

// Changes the build id in `program`, as another build has it.
void make_another_build_of(const fs::path& program) {
  const std::string id = elf_build_id(program).value();
  std::string note, bytes = read_file(program);
  for (size_t digit = 0; digit < id.size(); digit += 2) {
    note += static_cast<char>(std::stoi(id.substr(digit, 2), nullptr, 16));
  }
  const size_t place = bytes.find(note);
  ASSERT_NE(place, std::string::npos);
  bytes[place] = static_cast<char>(bytes[place] ^ 1);
  write_file_atomically(program, bytes);
  fs::permissions(program, fs::perms::owner_all);
  ASSERT_NE(elf_build_id(program), id);
}

TEST_F(SlurmTest, AnotherBuildOnANodeIsRefused) {
  const TemporaryFolder programs;  // not the run's folder, which is another one on the nodes
  for (const char* name : {"mlbench-guard", "worker"}) {
    slurm_.write("plan", "queue 1");
    LaunchRequest launch = request("touch " + (programs / "began").string(), 2);
    launch.guard = programs / "mlbench-guard";
    launch.command.front() = programs / "worker";
    fs::copy_file(GUARD, launch.guard, fs::copy_options::overwrite_existing);
    fs::copy_file(fs::canonical("/bin/sh"), launch.command.front(), fs::copy_options::overwrite_existing);
    const auto begun = start(launch);
    const std::string here = elf_build_id(programs / name).value();
    make_another_build_of(programs / name);
    const StartStatus status = wait_for(*begun, StartState::kFailed);
    EXPECT_THAT(status.words, testing::AllOf(HasSubstr("on n1: " + (programs / name).string() + " is another build"),
                                             HasSubstr("there (" + elf_build_id(programs / name).value()),
                                             HasSubstr("here (" + here + "): install the same")));
    EXPECT_FALSE(fs::exists(programs / "began"));
  }
}

TEST_F(SlurmTest, SaysWhySlurmRefuses) {
  slurm_.write("plan", "refuse");
  EXPECT_THAT([&] { start(request("exit 0", 1)); },
              testing::ThrowsMessage<IoError>(HasSubstr("Invalid partition name specified")));
}

TEST_F(SlurmTest, AQueuedJobThatIsDroppedIsCancelled) {
  slurm_.write("plan", "queue 1000000");
  auto begun = start(request("touch " + (folder() / "started").string(), 1));
  wait_for(*begun, StartState::kQueued);
  const auto before = std::chrono::steady_clock::now();
  begun.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 10s);
  EXPECT_EQ(slurm_.read("job.12/state"), "CANCELLED\n");
  EXPECT_FALSE(fs::exists(folder() / "started"));
}

TEST_F(SlurmTest, AJobIsWithdrawnByWhatWasNotedOfIt) {
  slurm_.write("plan", "queue 1000000");
  Json noted;
  LaunchRequest launch = request("exit 0", 1);
  launch.note_job = [&](const Json& job) { noted = job; };
  const auto begun = start(launch);
  EXPECT_EQ(noted, Json({{"engine", "slurm"}, {"job", "12"}, {"cluster", nullptr}}));
  EXPECT_FALSE(executor_->withdraw("another", noted));
  EXPECT_EQ(slurm_.read("job.12/state"), "PENDING\n") << "the number is now another run's";
  EXPECT_TRUE(executor_->withdraw("test", noted));
  EXPECT_EQ(slurm_.read("job.12/state"), "CANCELLED\n");
  const std::string asked = slurm_.read("calls");
  EXPECT_FALSE(executor_->withdraw("test", noted));
  EXPECT_THAT(slurm_.read("calls").substr(asked.size()), Not(HasSubstr("scancel"))) << "it is over";
  EXPECT_FALSE(executor_->withdraw("test", {{"engine", "slurm"}, {"job", "13"}}));
  EXPECT_FALSE(executor_->withdraw("test", {{"engine", "kubernetes"}, {"job", "12"}}));
}

TEST_F(SlurmTest, WhatRunsWhenItIsDroppedEnds) {
  auto begun = start(request("echo ready; exec sleep 600", 2));
  wait_for(*begun, StartState::kStarted);
  auto group = begun->take();
  wait_for_log(1, "ready");
  group->stop(1s);
  EXPECT_FALSE(group->running());
  group.reset();
  EXPECT_THAT(slurm_.read("job.12/state"), testing::AnyOf("COMPLETED\n", "FAILED\n", "CANCELLED\n"));
}

TEST_F(SlurmTest, AJobThatFailsIsQuoted) {
  executor_ = make({{"setup", "echo no such module >&2; exit 3"}});
  const auto begun = start(request("exit 0", 1));
  const StartStatus status = wait_for(*begun, StartState::kFailed);
  EXPECT_THAT(status.words, HasSubstr("FAILED (NonZeroExitCode)"));
  EXPECT_THAT(status.words, HasSubstr("exit code 3:0"));
  EXPECT_THAT(status.words, HasSubstr("no such module"));
}

TEST_F(SlurmTest, AJobThatSlurmForgetsHasFailed) {
  slurm_.write("plan", "forget");
  const auto begun = start(request("exit 0", 1));
  EXPECT_THAT(wait_for(*begun, StartState::kFailed).words, HasSubstr("Slurm does not know it any more"));
}

TEST_F(SlurmTest, ARequeuedJobDoesNotBeginAgain) {
  slurm_.write("plan", "queue 1000000");
  const auto begun = start(request("exit 0", 1));
  wait_for(*begun, StartState::kQueued);
  slurm_.write("job.12/restarts", "1\n");
  EXPECT_THAT(wait_for(*begun, StartState::kFailed).words, HasSubstr("requeued"));
  EXPECT_EQ(slurm_.read("job.12/state"), "CANCELLED\n");
}

TEST_F(SlurmTest, ARequeueUnderTheRanksIsTold) {
  const auto begun = start(request("exec sleep 600", 2));
  wait_for(*begun, StartState::kStarted);
  auto group = begun->take();
  EXPECT_THAT(only<EngineWord>(group->poll(0ms)), testing::IsEmpty());
  slurm_.write("job.12/state", "PENDING\n");
  slurm_.write("job.12/reason", "BeginTime\n");
  slurm_.write("job.12/restarts", "1\n");
  const EngineWord word = next_word(*group);
  EXPECT_EQ(word.fact, EngineFact::kJobTaken);
  EXPECT_TRUE(word.place_lost);
  EXPECT_THAT(word.words, HasSubstr("Slurm job 12: Slurm requeued it under its ranks: PENDING (BeginTime)"));
  group->stop(1s);
  group.reset();
  EXPECT_EQ(slurm_.read("job.12/state"), "CANCELLED\n") << "it would begin again";
}

TEST_F(SlurmTest, AnEndFromOutsideIsToldWhenARankEnds) {
  const auto begun = start(request("trap '[ $RANK = 0 ] && exit 3' USR1; echo ready; while :; do sleep 0.05; done", 2));
  wait_for(*begun, StartState::kStarted);
  const auto group = begun->take();
  for (int rank = 0; rank < 2; ++rank) wait_for_log(rank, "ready");
  slurm_.write("job.12/state", "COMPLETING\n");
  slurm_.write("job.12/reason", "TimeLimit\n");
  group->signal_all(SIGUSR1);
  const EngineWord word = next_word(*group);
  EXPECT_EQ(word.fact, EngineFact::kJobOver);
  EXPECT_FALSE(word.place_lost);
  EXPECT_THAT(word.words, HasSubstr("Slurm ended it under its ranks: COMPLETING (TimeLimit) on n1"));
  slurm_.write("job.12/state", "TIMEOUT\n");
}

TEST_F(SlurmTest, ANodeThatFailsIsToldWhileLinksAreWell) {
  const auto begun = start(request("exec sleep 600", 2));
  wait_for(*begun, StartState::kStarted);
  auto group = begun->take();
  slurm_.write("job.12/state", "COMPLETING\n");
  slurm_.write("job.12/reason", "NodeDown\n");
  const EngineWord word = next_word(*group);
  EXPECT_EQ(word.fact, EngineFact::kHostGone);
  EXPECT_TRUE(word.place_lost);
  EXPECT_THAT(word.words, HasSubstr("NodeDown"));
  group->stop(1s);
  slurm_.write("job.12/state", "NODE_FAIL\n");
}

TEST_F(SlurmTest, TheRendezvousIsWhereNodesReachThisHost) {
  EXPECT_EQ(executor_->rendezvous({}).address, "127.0.0.1");
  EXPECT_EQ(executor_->rendezvous({}).bind, "127.0.0.1");
}

// ---- a Slurm that hangs --------------------------------------------------------------------------------------------

JobPace hasty() {
  JobPace pace;
  pace.look = 20ms;
  pace.slow_look = 100ms;
  pace.answer = 200ms;
  pace.start = 300ms;
  pace.cancel = 500ms;
  pace.verdict = 200ms;
  return pace;
}

TEST_F(SlurmTest, AControllerThatHangsIsWaitedForAndSaid) {
  slurm_.write("plan", "hang");
  Job job({"12"}, folder() / "none", hasty());
  const auto begin = std::chrono::steady_clock::now();
  StartStatus status;
  while (status.words.find("has not answered") == std::string::npos) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, kPatience) << status.words;
    const auto before = std::chrono::steady_clock::now();
    status = job.status();
    EXPECT_LT(std::chrono::steady_clock::now() - before, 5s);
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(status.state, StartState::kQueued);
  EXPECT_EQ(status.words, "job 12 is submitted: scontrol has not answered within 0.2 s");
  fs::create_directory(fs::path(getenv("FAKE_SLURM")) / "job.12");
  slurm_.write("job.12/state", "PENDING\n");
  slurm_.write("job.12/reason", "Priority\n");
  slurm_.write("job.12/script", "");
  slurm_.write("plan", "queue 1000000");
  while (job.status().words != "job 12 PENDING (Priority)") {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, kPatience);
    std::this_thread::sleep_for(10ms);
  }
  job.end(0ms);
  EXPECT_EQ(slurm_.read("job.12/state"), "CANCELLED\n");
}

TEST_F(SlurmTest, AJobWhoseRanksNeverComeFails) {
  fs::create_directory(fs::path(getenv("FAKE_SLURM")) / "job.12");
  slurm_.write("job.12/state", "RUNNING\n");
  slurm_.write("job.12/reason", "None\n");
  slurm_.write("job.12/script", "");
  write_file_atomically(folder() / "job.log", "2: mlbench-guard: nobody answers at 10.0.0.1:4711\n");
  Job job({"12"}, folder() / "job.log", hasty());
  StartStatus status;
  const auto begin = std::chrono::steady_clock::now();
  while (status.state != StartState::kFailed) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, kPatience) << status.words;
    status = job.status();
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_THAT(status.words, HasSubstr("not all of its ranks ran within 0.3 s: RUNNING on n1"));
  EXPECT_THAT(status.words, HasSubstr("nobody answers at 10.0.0.1:4711"));
  job.end(0ms);
}

TEST_F(SlurmTest, AJobThatCannotWriteItsOutputIsExplained) {
  fs::create_directory(fs::path(getenv("FAKE_SLURM")) / "job.12");
  slurm_.write("job.12/state", "FAILED\n");
  slurm_.write("job.12/reason", "RaisedSignal:53(Real-time_signal_19)\n");
  slurm_.write("job.12/code", "0:53\n");
  slurm_.write("job.12/script", "");
  Job job({"12"}, folder() / "none", hasty());
  StartStatus status;
  const auto begin = std::chrono::steady_clock::now();
  while (status.state != StartState::kFailed) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, kPatience);
    status = job.status();
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_THAT(status.words, HasSubstr("--slurm-option output=/dev/null"));
}

TEST(SlurmQuestion, AProgramThatIsMissingIsAnAnswer) {
  const Answer answer = ask({"/no/such/scontrol"}, 5s);
  EXPECT_FALSE(answer.good());
  EXPECT_THAT(answer.errors, HasSubstr("/no/such/scontrol"));
}

TEST(SlurmQuestion, BothStreamsAndTheCode) {
  const Answer answer = ask({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, kPatience);
  ASSERT_TRUE(answer.end);
  EXPECT_EQ(answer.end->code, 3);
  EXPECT_EQ(answer.output, "out\n");
  EXPECT_EQ(answer.errors, "err");
}

}  // namespace
}  // namespace mlbench::exec::slurm
