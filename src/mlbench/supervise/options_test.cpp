#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlbench/base/environment.h"
#include "mlbench/base/files.h"
#include "mlbench/base/test_error.h"
#include "mlbench/spec/collectives.h"
#include "mlbench/spec/declaration.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::supervise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SupervisorArguments, AreWhatTheyWereAfterARoundTrip) {
  SupervisorOptions options;
  options.run_dir = "/home/a b/runs/r-2";
  options.worker = "/opt/mlbench-worker";
  options.core_lock = "/tmp/lock";
  options.resume_step = 0;
  options.start_timeout = std::chrono::seconds(5);
  options.no_wait = true;
  options.attached = false;
  std::vector<std::string> arguments = to_arguments(options);
  EXPECT_THAT(arguments, ElementsAre("supervise", "--run-dir", "/home/a b/runs/r-2", "--worker", "/opt/mlbench-worker",
                                     "--core-lock", "/tmp/lock", "--resume-step", "0", "--start-timeout", "5",
                                     "--no-wait", "--detached"));
  arguments.erase(arguments.begin());
  EXPECT_EQ(to_arguments(options_from_arguments(arguments)), to_arguments(options));
}

TEST(SupervisorArguments, MinimalOnes) {
  const auto options = options_from_arguments({"--run-dir", "/r", "--worker", "/w"});
  EXPECT_TRUE(options.attached);
  EXPECT_FALSE(options.no_wait);
  EXPECT_FALSE(options.resume_step);
  EXPECT_THAT(to_arguments(options), ElementsAre("supervise", "--run-dir", "/r", "--worker", "/w"));
}

TEST(SupervisorArguments, WrongOnesAreNamed) {
  const auto error_of = [](const std::vector<std::string>& arguments) {
    return mlbench::error_of([&] { options_from_arguments(arguments); });
  };
  EXPECT_THAT(error_of({}), HasSubstr("--run-dir DIR and --worker FILE"));
  EXPECT_THAT(error_of({"--run-dir"}), HasSubstr("--run-dir needs a value"));
  EXPECT_THAT(error_of({"--rundir", "x"}), HasSubstr("unknown argument of supervise '--rundir'"));
  EXPECT_THAT(error_of({"--resume-step", "3x"}),
              HasSubstr("supervise: --resume-step '3x' is not a whole number from 0 to"));
}

class Somewhere final : public exec::Executor {
 public:
  explicit Somewhere(bool on_this_host, bool in_images = false)
      : facts_{.on_this_host = on_this_host, .in_images = in_images} {}
  std::string name() const override { return "somewhere"; }
  exec::ExecutorFacts facts() const override { return facts_; }
  std::unique_ptr<exec::Start> start(const exec::LaunchRequest& /*request*/) override { return nullptr; }
  std::vector<std::string> describe(const exec::LaunchRequest& /*request*/) const override { return {}; }

 private:
  const exec::ExecutorFacts facts_;
};

TEST(LaunchRequest, HoldsWhatARankNeeds) {
  spec::RunSpec run;
  run.backend = "gloo";
  run.workers = 2;
  run.threads_per_worker = 3;
  run.run_dir = "/home/runs/r-2";
  auto request = launch_request(run, Somewhere(true), "/opt/mlbench-worker", 2, 40, false);
  EXPECT_THAT(request.command, ElementsAre("/opt/mlbench-worker", "--run-dir", "/home/runs/r-2", "--segment", "2",
                                           "--resume-step", "40"));
  EXPECT_EQ(request.workers, 2);
  EXPECT_EQ(request.segment, 2);
  EXPECT_EQ(request.log_dir, "/home/runs/r-2/logs");
  EXPECT_THAT(request.environment, ElementsAre(testing::Pair("MLBENCH_CORES", Json(allowed_cores()).dump()),
                                               testing::Pair("OMP_NUM_THREADS", "3")));

  request = launch_request(run, Somewhere(true), "/opt/mlbench-worker", 1, std::nullopt, true);
  EXPECT_THAT(request.command, ElementsAre("/opt/mlbench-worker", "--run-dir", "/home/runs/r-2", "--segment", "1"));
  EXPECT_EQ(request.environment.at("OMP_WAIT_POLICY"), "passive");
  EXPECT_EQ(request.environment.at("MLBENCH_OVERSUBSCRIBED"), "1");
  EXPECT_FALSE(request.environment.contains("MLBENCH_CORES")) << "others run on them, too";

  request = launch_request(run, Somewhere(false), "/opt/mlbench-worker", 1, std::nullopt, false);
  EXPECT_FALSE(request.environment.contains("MLBENCH_CORES")) << "they are of this host";

  EXPECT_FALSE(request.by_mpirun);
  run.backend = "mpi";
  EXPECT_TRUE(launch_request(run, Somewhere(true), "/opt/mlbench-worker", 1, std::nullopt, false).by_mpirun);
}

TEST(LaunchRequest, AllRanksAreOfTheProgramThatHasTheFramework) {
  spec::RunSpec run;
  run.workers = 2;
  run.run_dir = "/home/runs/r-2";
  run.framework = "tensorflow";
  auto request = launch_request(run, Somewhere(true), "/opt/mlbench-worker", 1, std::nullopt, false);
  EXPECT_EQ(request.command.front(), "/opt/mlbench-worker-tensorflow");
  EXPECT_EQ(request.modules, "libtensorflow") << "what executors bring to other hosts with it";
  request = launch_request(run, Somewhere(true), "/tmp/my-worker", 1, std::nullopt, false);
  EXPECT_EQ(request.command.front(), "/tmp/mlbench-worker-tensorflow");
  request = launch_request(run, Somewhere(false, true), "/opt/mlbench-worker", 1, std::nullopt, false);
  EXPECT_EQ(request.command.front(), "mlbench-worker-tensorflow") << "as the PATH of its pods finds it";
  run.engine["image"] = "worker:1";
  request = launch_request(run, Somewhere(true), "/opt/mlbench-worker", 1, std::nullopt, false);
  EXPECT_EQ(request.command.front(), "mlbench-worker-tensorflow");
  spec::set_collectives(run, spec::task_0a());
  run.engine = Json::object();
  request = launch_request(run, Somewhere(true), "/opt/mlbench-worker", 1, std::nullopt, false);
  EXPECT_EQ(request.command.front(), "/opt/mlbench-worker") << "collectives need no framework";
}

TEST(LaunchRequest, ACommandIsToldTheGoalThatItDeclares) {
  spec::RunSpec run;
  run.run_dir = "/home/runs/r-1";
  run.limits.light = true;
  spec::set_command(run, {{"python3", "train.py"}});
  auto request = launch_request(run, Somewhere(true), "", 1, std::nullopt, false);
  EXPECT_FALSE(request.environment.contains("MLBENCH_GOAL"));
  spec::declare(run, spec::find_task("fashion-mnist", "", "", {}), {}, "fashion-mnist");
  request = launch_request(run, Somewhere(true), "", 1, std::nullopt, false);
  EXPECT_THAT(request.command, ElementsAre("python3", "train.py"));
  EXPECT_EQ(Json::parse(request.environment.at("MLBENCH_GOAL")),
            Json::parse(R"({"metric": "Prec@1", "split": "test", "target": 85.0, "higher_is_better": true})"));
}

TEST(LaunchRequest, InAnImageTheWorkerIsTheImagesOwn) {
  const TemporaryFolder folder;
  spec::RunSpec run;
  run.run_dir = "/home/runs/r-2";
  run.cache_dir = "/home/cache";
  run.data_dirs = {folder.path(), "/no/such", folder.path()};
  run.engine["image"] = "worker:1";
  auto request = launch_request(run, Somewhere(true), "/opt/mlbench-worker", 1, std::nullopt, false);
  EXPECT_EQ(request.command.front(), "mlbench-worker");
  ASSERT_EQ(request.folders.size(), 2u);
  EXPECT_EQ(request.folders[0].path, "/home/cache");
  EXPECT_TRUE(request.folders[0].writable);
  EXPECT_EQ(request.folders[1].path, folder.path());
  EXPECT_FALSE(request.folders[1].writable);
  spec::set_command(run, {{"true"}});
  EXPECT_TRUE(launch_request(run, Somewhere(true), "", 1, std::nullopt, false).folders.empty());
  spec::set_command(run, {{"true"}, "/home/x"});
  request = launch_request(run, Somewhere(true), "", 1, std::nullopt, false);
  ASSERT_EQ(request.folders.size(), 1u);
  EXPECT_EQ(request.folders[0].path, "/home/x");
}

TEST(HostsNeeded, AreThoseThatARunNames) {
  spec::RunSpec run;
  run.workers = 3;
  EXPECT_THAT(hosts_needed(run), ElementsAre(kThisHost));
  EXPECT_FALSE(names_this_host(run)) << "it needs no name";
  run.executor = "slurm";
  EXPECT_TRUE(hosts_needed(run).empty());
  run.executor = "mpirun";
  run.engine["hosts"] = "h1:2,h2:2,h3:2";
  EXPECT_THAT(hosts_needed(run), ElementsAre("h1", "h2"));
  EXPECT_FALSE(names_this_host(run));
  run.engine["hosts"] = host_name() + ":1,h2:2";
  EXPECT_THAT(hosts_needed(run), ElementsAre(kThisHost, "h2"));
  EXPECT_TRUE(names_this_host(run));
}

TEST(WorkerCatalog, HasTheFrameworkOfEachProgram) {
  const catalog::ProgramRow& program = catalog::program_with("tensorflow");
  Json catalog = Json::parse(R"({"frameworks": [{"name": "torch"}]})");
  const Json its = Json::parse(R"({"frameworks": [{"name": "torch"}, {"name": "tensorflow", "devices": ["cpu"]}]})");
  add_framework(catalog, program, {its, ""});
  ASSERT_EQ(catalog["frameworks"].size(), 2U);
  EXPECT_EQ(catalog["frameworks"][1], Json::parse(R"({"name": "tensorflow", "devices": ["cpu"],
                                                      "program": "mlbench-worker-tensorflow"})"));
  add_framework(catalog, program, {std::nullopt, "it does not start"});
  const Json& missing = catalog["frameworks"][2];
  EXPECT_EQ(missing["available"], false);
  EXPECT_EQ(missing["reason"],
            "it does not start; build it (-DMLBENCH_TENSORFLOW=ON), install the package mlbench-worker-tensorflow, or "
            "put it beside mlbench-worker");
  add_framework(catalog, program, {Json::object(), ""});
  EXPECT_THAT(catalog["frameworks"][3]["reason"].get<std::string>(), HasSubstr("lists no framework 'tensorflow'"));
}

TEST(WorkerCatalog, SaysWhyThereIsNone) {
  const TemporaryFolder folder;
  auto result = worker_catalog(folder.path() / "mlbench-worker", folder.path());
  EXPECT_FALSE(result.catalog);
  EXPECT_THAT(result.reason, HasSubstr("there is no worker program at"));

  write_file_atomically(folder.path() / "script", "#!/bin/sh\n");
  result = worker_catalog(folder.path() / "script", folder.path());
  EXPECT_FALSE(result.catalog);
  EXPECT_THAT(result.reason, HasSubstr("no program with a build id"));
}

}  // namespace
}  // namespace mlbench::supervise
