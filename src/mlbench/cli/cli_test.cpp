// Tests of the built program: every verb's answers, errors and exit codes. Ranks are fake (fake_worker.cpp).

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/exec/test_fake_podman.h"
#include "mlbench/record/test_schema.h"
#include "mlbench/report/archive/zip.h"
#include "mlbench/report/timeline/test_timeline.h"
#include "mlbench/supervise/core_lock.h"
#include "mlbench/supervise/lease.h"

namespace mlbench::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

using testing::Not;
using testing::StartsWith;

constexpr auto kPatience = 120s;

struct Result {
  int code = 0;
  std::string out, err;
  Json json() const { return Json::parse(out); }
};

class Cli : public testing::Test {
 protected:
  Cli() {
    environment_ = {{"MLBENCH_HOME", home().string()},
                    {"MLBENCH_CORE_LOCK", (folder_.path() / "cores").string()},
                    {"MLBENCH_WORKER", FAKE_CLI_WORKER},
                    {"MLBENCH_DATA_DIR", ""},
                    {"FAKE_STEPS", "20"},
                    {"FAKE_STEP_MS", "1"}};
  }

  fs::path home() const { return folder_.path() / "home"; }

  static std::string program() { return environment_variable("MLBENCH_TEST_MLBENCH").value(); }

  Result mlbench(std::vector<std::string> arguments) const {
    ProcessOptions options;
    options.arguments = std::move(arguments);
    options.arguments.insert(options.arguments.begin(), program());
    options.environment = environment_;
    ProcessOutput output = run_process(options, kPatience);
    return {output.end.code, std::move(output.standard_output), std::move(output.standard_error)};
  }

  // Starts the program as mlbench() does, without waiting for its end. What the program writes is in the file.
  ChildProcess start(std::vector<std::string> arguments, const char* file = "output") const {
    ProcessOptions options;
    options.arguments = std::move(arguments);
    options.arguments.insert(options.arguments.begin(), program());
    options.environment = environment_;
    options.output = folder_.path() / file;
    return ChildProcess::start(options);
  }

  // Ctrl-C ends it.
  static void interrupt(ChildProcess& command) {
    kill(command.pid(), SIGINT);
    const auto end = command.wait(kPatience);
    ASSERT_TRUE(end);
    EXPECT_EQ(end->code, 130);
  }

  // A run of the fake worker.
  Result run(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"run", "r", "--task", "fashion-mnist", "--synthetic"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return mlbench(arguments);
  }

  void expect_error(const std::vector<std::string>& arguments, const testing::Matcher<std::string>& message) const {
    const Result result = mlbench(arguments);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, AllOf(HasSubstr("mlbench: error: "), message));
  }

  bool eventually(const std::function<bool()>& condition) const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(20ms);
    }
    return true;
  }

  std::string state_of(const std::string& name) const {
    const fs::path file = home() / "runs" / name / "run.json";
    return fs::exists(file) ? read_json_file(file).value("state", "") : "";
  }

  TemporaryFolder folder_;
  std::map<std::string, std::string> environment_;
};

// The real worker, in place of the fake one.
class CliWithWorker : public Cli {
 protected:
  void SetUp() override {
    const std::string worker = environment_variable("MLBENCH_TEST_WORKER").value_or("");
    if (!fs::exists(worker)) GTEST_SKIP() << "missing capability: mlbench-worker (MLBENCH_WORKER=OFF)";
    environment_["MLBENCH_WORKER"] = worker;
  }
};

// ---- the program ----------------------------------------------------------------------------------------------------

TEST_F(Cli, Version) {
  EXPECT_THAT(mlbench({"--version"}).out, testing::MatchesRegex("mlbench [0-9.]+ \\(.+\\)\n"));
  const Json json = mlbench({"--version", "--json"}).json();
  EXPECT_FALSE(json["build_id"].get<std::string>().empty());
}

TEST_F(Cli, AFileThatCannotBeReachedIsNamedWithTheReason) {
  const fs::path loop = folder_.path() / "loop";
  fs::create_symlink(loop, loop);
  const Result result = mlbench({"status", "--home", loop});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, testing::MatchesRegex("mlbench: error: .*/loop.*: Too many levels of symbolic links.*\n"));
  EXPECT_THAT(result.err, Not(HasSubstr("filesystem error")));
}

TEST_F(Cli, AReaderThatLeavesEndsThePrintingOfARunAlone) {
  const auto with_reader_gone = [&](const std::string& words) {
    ProcessOptions options;
    options.arguments = {"/bin/bash", "-c",
                         "(sleep 0.5; " + program() + " " + words + ") | true; exit ${PIPESTATUS[0]}"};
    options.environment = environment_;
    return run_process(options, kPatience);
  };
  const ProcessOutput followed = with_reader_gone("run s 1 -- /bin/sh -c 'sleep 0.2; echo done'");
  EXPECT_EQ(followed.end.code, 0) << followed.standard_error;
  EXPECT_EQ(state_of("s-1"), "finished");
  const ProcessOutput table = with_reader_gone("status");
  EXPECT_EQ(table.end.code, 128 + SIGPIPE) << "as other programs end";
  EXPECT_EQ(table.standard_error, "");
}

TEST_F(Cli, HelpNamesEveryVerbAndNothingInternal) {
  const Result result = mlbench({"--help"});
  EXPECT_EQ(result.code, 0);
  for (const char* verb : {"run",         "resume",   "stop",     "status",   "watch",          "logs",
                           "note",        "download", "delete",   "serve",    "dashboard",      "list-clusters",
                           "set-cluster", "list",     "data",     "result",   "create-cluster", "delete-cluster",
                           "charts",      "compare",  "evaluate", "schedule", "doctor",         "bench",
                           "timeline",    "sweep",    "score",    "tune",     "study"}) {
    const std::string line = std::string("\n  ") + verb;
    EXPECT_THAT(result.out, AnyOf(HasSubstr(line + " "), HasSubstr(line + ", ")));  // what follows the comma: an alias
  }
  EXPECT_THAT(result.out, Not(HasSubstr("supervise")));
  const Result run_help = mlbench({"run", "--help"});
  EXPECT_EQ(run_help.code, 0);
  EXPECT_THAT(run_help.out,
              AllOf(HasSubstr("\n  --requeue[=N]  "), HasSubstr("at most N times, 3 without =N (from 1")));
}

TEST_F(Cli, WithoutAVerbItShowsHelpAndFails) {
  const Result result = mlbench({});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("mlbench list tasks"));
}

TEST_F(Cli, TyposAreExplained) {
  expect_error({"statsu"}, AllOf(HasSubstr("unknown verb 'statsu'"), HasSubstr("did you mean 'status'?")));
  expect_error({"run", "r", "1", "--tsak", "x"},
               AllOf(HasSubstr("'--tsak'"), HasSubstr("did you mean '--task'?"), HasSubstr("see mlbench run --help")));
  expect_error({"data", "fecth"}, AllOf(HasSubstr("unknown verb 'fecth'"), HasSubstr("did you mean 'fetch'?")));
  expect_error({"data"}, HasSubstr("list, fetch, verify, prepare, shard, index"));
  expect_error({"run", "r"}, HasSubstr("K is required"));
  expect_error({"list", "taskz"}, AllOf(HasSubstr("unknown list 'taskz'"), HasSubstr("did you mean 'tasks'?")));
  expect_error({"supervise"}, HasSubstr("--run-dir"));
}

TEST_F(Cli, AHomeThatIsAFileIsAnError) {
  std::ofstream(folder_.path() / "file") << "x";
  expect_error({"status", "--home", folder_.path() / "file"}, HasSubstr("is not a folder"));
}

TEST_F(Cli, OutputThatCannotBeWrittenIsAnError) {
  const FileDescriptor full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  ProcessOptions options;
  options.arguments = {program(), "list", "tasks"};
  options.environment = environment_;
  options.standard_output = full.get();
  options.standard_error = full.get();
  ChildProcess child = ChildProcess::start(options);
  const auto end = child.wait(kPatience);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 4);
}

// ---- list -----------------------------------------------------------------------------------------------------------

TEST_F(Cli, ListTasks) {
  EXPECT_THAT(mlbench({"list", "tasks"}).out, AllOf(StartsWith("task "), HasSubstr("\nfashion-mnist "),
                                                    HasSubstr("Prec@1 >= 91.5"), HasSubstr("\n0a ")));
  const Json tasks = mlbench({"list", "tasks", "--json"}).json();
  const auto task =
      std::find_if(tasks.begin(), tasks.end(), [](const Json& row) { return row["name"] == "fashion-mnist"; });
  ASSERT_NE(task, tasks.end());
  EXPECT_EQ((*task)["goal"]["light_target"], 85);
  EXPECT_EQ((*task)["hash"].get<std::string>().size(), 64U);
  EXPECT_EQ(tasks[0]["name"], "0a");
  EXPECT_EQ(tasks[0]["goal"], nullptr);
  EXPECT_EQ(tasks[0]["hash"], "b420481a8f41fc59ad2669c4abce0f5682919fa1f54a661c54e0a9c12833a06f");
  expect_error({"run", "r", "2", "--task", "9z"}, AllOf(HasSubstr("unknown task '9z'"), HasSubstr("0a, ")));
  expect_error({"run", "r", "2", "--task", "0a", "--light"}, HasSubstr("task 0a trains nothing"));
  expect_error({"schedule", "plot", "--task", "0a"}, HasSubstr("for 'mlbench run NAME K --task 0a'"));
}

TEST_F(Cli, ListModelsCountsParameters) {
  const auto parameters = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"list", "models", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Json rows = mlbench(arguments).json();
    return rows.size() == 1 ? rows[0]["parameters"].get<int64_t>() : -1;
  };
  EXPECT_EQ(parameters({"--task", "fashion-mnist"}), 3274634);
  EXPECT_EQ(parameters({"--task", "1a", "--rules", "2018", "--variant", "v1-56"}), 855770);
  EXPECT_EQ(parameters({"--task", "1a", "--set", "model.depth=56"}), 855770);
  EXPECT_EQ(parameters({"--task", "1a", "--set", "model.name=resnet18-cifar"}), 11173962);
  EXPECT_EQ(parameters({"--task", "1a", "--set", "model.name=vgg-cifar", "--set", "model.depth=19"}), 20040522);
  EXPECT_EQ(parameters({"--task", "3a"}), 33556078);
  EXPECT_EQ(parameters({"--task", "4a"}), 160671297);
  EXPECT_EQ(parameters({"--task", "4b"}), 210808832);
  EXPECT_THAT(mlbench({"list", "models"}).out, AllOf(HasSubstr("210,808,832"), HasSubstr("v2-56")));
  expect_error({"list", "tasks", "--task", "1a"}, HasSubstr("mlbench list models"));
  expect_error({"list", "models", "--task", "9z"}, HasSubstr("unknown task '9z'"));
}

TEST_F(Cli, ListsOfTheWorkerComeFromItsCatalog) {
  EXPECT_EQ(mlbench({"list", "backends"}).out, "gloo  of mlbench\nnccl  not available: built without CUDA\n");
  EXPECT_THAT(mlbench({"list", "frameworks"}).out,
              StartsWith("torch\ntensorflow  not available: there is no worker program at "));
  EXPECT_THAT(mlbench({"list", "optimizers"}).out,
              HasSubstr("centralized_sgd  sgd   none         centralized  CentralizedSGD another\n"));
  EXPECT_THAT(mlbench({"list", "coders"}).out, HasSubstr("top_k  the largest  Stich et al. 2018"));
  environment_["KUBECONFIG"] = "/no/such/kubeconfig";
  EXPECT_THAT(
      mlbench({"list", "executors"}).out,
      AllOf(testing::StartsWith("local       processes on this host\nmpirun "), HasSubstr("\nslurm"),
            HasSubstr("kubernetes  not available: no Kubernetes is known here: there is no kubeconfig at /no/such")));
  EXPECT_THAT(mlbench({"list", "data"}).out, HasSubstr("60,000 train, 10,000 test"));
  const Json all = mlbench({"list", "--json"}).json();
  EXPECT_EQ(all["backends"][1]["reason"], "built without CUDA");
  EXPECT_EQ(all["executors"][0]["options"], Json({"image"})) << "what can be said to the engine of local runs";
}

// The folder of worker programs of which mlbench-worker is there.
class CliWithPrograms : public Cli {
 protected:
  CliWithPrograms() {
    fs::create_directory(programs());
    fs::create_symlink(FAKE_CLI_WORKER, programs() / "mlbench-worker");
    environment_["MLBENCH_WORKER"] = programs() / "mlbench-worker";
  }

  fs::path programs() const { return folder_.path() / "programs"; }
  fs::path other() const { return programs() / "mlbench-worker-tensorflow"; }
  void add_other() const { fs::create_symlink(FAKE_TENSORFLOW_WORKER, other()); }
  Json tensorflow() const {
    const Json rows = mlbench({"list", "frameworks", "--json"}).json();
    EXPECT_EQ(rows[0]["program"], "mlbench-worker");
    return rows.back();
  }
};

TEST_F(CliWithPrograms, AMissingProgramIsNamedWithTheWayToGetIt) {
  const std::string reason = fmt::format(
      "there is no worker program at {}; build it (-DMLBENCH_TENSORFLOW=ON), install the package "
      "mlbench-worker-tensorflow, or put it beside mlbench-worker",
      other().string());
  const Json row = tensorflow();
  EXPECT_EQ(row["name"], "tensorflow");
  EXPECT_EQ(row["program"], "mlbench-worker-tensorflow");
  EXPECT_EQ(row["available"], false);
  EXPECT_EQ(row["reason"], reason);
  EXPECT_THAT(row["about"].get<std::string>(), StartsWith("TensorFlow's kernels"));
  expect_error({"run", "r", "1", "--task", "fashion-mnist", "--synthetic", "--framework", "tensorflow"},
               HasSubstr(fmt::format("framework 'tensorflow' is not available here: {}; valid: torch", reason)));
  EXPECT_EQ(run({"1"}).code, 0) << "the other frameworks do without it";
  std::ofstream(folder_.path() / "m.safetensors") << "x";
  expect_error({"evaluate", folder_.path() / "m.safetensors", "--task", "fashion-mnist", "--synthetic", "--framework",
                "tensorflow"},
               AllOf(HasSubstr(other().string()), HasSubstr("-DMLBENCH_TENSORFLOW=ON")));

  std::ofstream(other()) << "#!/bin/sh\n";
  EXPECT_THAT(tensorflow()["reason"].get<std::string>(),
              StartsWith(other().string() + " is no program with a build id; build it"));
  fs::remove(other());
  fs::create_symlink(FAKE_CLI_WORKER, other());
  EXPECT_THAT(
      tensorflow()["reason"].get<std::string>(),
      StartsWith("mlbench-worker-tensorflow is of another build: it lists no framework 'tensorflow'; build it"));
}

TEST_F(CliWithPrograms, ARunIsOfTheProgramThatHasItsFramework) {
  EXPECT_EQ(tensorflow()["available"], false);
  add_other();
  EXPECT_EQ(tensorflow()["available"], true) << "no answer is kept of a program that was not there";
  const auto command = [&](const std::string& framework) {
    const Json plans = run({"1", "--dry-run", "--json", "--framework", framework}).json();
    return plans[0]["commands"][0].get<std::string>();
  };
  EXPECT_THAT(command("tensorflow"), HasSubstr(other().string() + " --run-dir "));
  EXPECT_THAT(command("torch"), HasSubstr((programs() / "mlbench-worker").string() + " --run-dir "));

  const Result result = run({"2", "--framework", "tensorflow"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(read_json_file(home() / "runs/r-2/run.json")["framework"], "tensorflow");
  std::vector<std::string> workers;
  for (const Json& finding : mlbench({"doctor", "--json"}).json()) {
    if (finding["check"] == "worker") workers.push_back(finding["message"]);
    if (finding["check"] == "frameworks") {
      EXPECT_EQ(finding["message"], "torch, tensorflow");
    }
  }
  EXPECT_THAT(workers, ElementsAre(StartsWith((programs() / "mlbench-worker").string() + " starts in "),
                                   StartsWith(other().string() + " starts in ")));
}

TEST_F(CliWithPrograms, InAnImageTheProgramIsTheImagesOwn) {
  const exec::FakePodman podman(FAKE_PODMAN);
  add_other();
  const Json plans = run({"1", "--dry-run", "--json", "--framework", "tensorflow", "--image", "here"}).json();
  EXPECT_THAT(plans[0]["commands"][0].get<std::string>(), HasSubstr(" mlbench-worker-tensorflow --run-dir "));
}

TEST_F(Cli, BenchStorageReadsAFolder) {
  const fs::path data = folder_.path() / "objects";
  fs::create_directories(data / "b");
  std::ofstream(data / "a") << std::string(3000, 'a');
  std::ofstream(data / "b" / "c") << std::string(500, 'c');
  const Result result = mlbench({"bench", "storage", data, "--threads", "2", "--range", "1K", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = result.json();
  EXPECT_EQ(json["place"], data.string());
  EXPECT_EQ(json["objects"], 2);
  EXPECT_EQ(json["object_bytes"], 3500);
  EXPECT_EQ(json["reads"], 4);
  EXPECT_EQ(json["bytes"], 3500);
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["endpoint"], nullptr);
  EXPECT_EQ(json["connections"], 2);
  EXPECT_EQ(json["counters"]["bytes"], 3500);
  const Result table = mlbench({"bench", "storage", data, "--range", "object"});
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("2 objects, 0.0035 MB"), HasSubstr("all of it"), HasSubstr("0 hits, 0 misses")));
  if (const std::string missing = record::SchemaValidator::missing(); !missing.empty()) GTEST_SKIP() << missing;
  EXPECT_EQ(record::SchemaValidator("storage.schema.json").complaint(json), "");
}

TEST_F(Cli, BenchStorageSaysWhatIsWrong) {
  expect_error({"bench", "storage"}, HasSubstr("see mlbench bench storage --help"));
  expect_error({"bench", "storage", "/no/such/folder"},
               HasSubstr("expected a folder with objects, or s3://BUCKET/PREFIX"));
  expect_error({"bench", "storage", home(), "--threads", "0"}, HasSubstr("from 1 to 1024"));
  expect_error({"bench", "storage", home(), "--range", "some"}, HasSubstr("--range"));
  expect_error({"bench", "storage", "s3://bucket", "--s3-endpoint", "https://key:hunter2@host"},
               AllOf(HasSubstr("has a name or password in it"), Not(HasSubstr("hunter2"))));
  environment_["AWS_EC2_METADATA_DISABLED"] = "true";
  environment_["AWS_ACCESS_KEY_ID"] = environment_["AWS_SECRET_ACCESS_KEY"] = "";
  environment_["AWS_SHARED_CREDENTIALS_FILE"] = "/no/such/file";
  expect_error({"bench", "storage", "s3://bucket", "--s3-endpoint", "http://127.0.0.1:1"},
               AllOf(HasSubstr("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"), HasSubstr("/no/such/file")));
  const Result help = mlbench({"bench", "storage", "--help"});
  EXPECT_THAT(help.out,
              AllOf(HasSubstr("URL|FOLDER"), HasSubstr("--s3-endpoint URL"), HasSubstr("docs/object-store.md")));
}

TEST_F(Cli, ListsSayThatThereIsNoWorker) {
  environment_["MLBENCH_WORKER"] = "/no/such/worker";
  const Result result = mlbench({"list", "backends", "--json"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.json(), Json::array());
  EXPECT_THAT(result.err, HasSubstr("there is no worker program at /no/such/worker"));
  EXPECT_THAT(mlbench({"list", "tasks"}).out, HasSubstr("fashion-mnist"));
  expect_error({"run", "r", "1", "--task", "fashion-mnist"},
               HasSubstr("there is no worker program at /no/such/worker"));
}

// ---- run ------------------------------------------------------------------------------------------------------------

TEST_F(Cli, RunFollowsEachCountAndPrintsTheTable) {
  const Result result = run({"1", "2"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("run 1 of 2  r-1: fashion-mnist, 1 worker x "), HasSubstr("run 2 of 2  r-2"),
                                HasSubstr("r-2  finished: goal not reached")));
  EXPECT_THAT(result.out, AllOf(HasSubstr("\nr-1  finished  1 x"), HasSubstr("\nr-2  finished  2 x"),
                                HasSubstr("Scaling against r-1 (1 worker)"), HasSubstr("synthetic"),
                                HasSubstr(fmt::format("Results: {}/runs/{{r-1,r-2}}", home().string())),
                                HasSubstr("mlbench download r-2 -o r-2.zip")));
  EXPECT_THAT(result.out, Not(HasSubstr("\r")));
}

TEST_F(Cli, RunPrintsItsRecordsAsJson) {
  const Result result = run({"2", "1", "--repeat", "2", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const Json records = result.json();
  ASSERT_EQ(records.size(), 4U);
  std::vector<std::string> names;
  for (const Json& record : records) {
    names.push_back(record["name"]);
    EXPECT_EQ(record["state"], "finished");
    EXPECT_EQ(record, read_json_file(home() / "runs" / names.back() / "run.json"));
  }
  EXPECT_THAT(names, ElementsAre("r-2", "r-2.2", "r-1", "r-1.2"));
  EXPECT_EQ(records[0]["id"], 1);
  EXPECT_EQ(records[3]["id"], 4);
  EXPECT_EQ(records[1]["seed"], 43);
  EXPECT_EQ(records[0]["threads_per_worker"], records[2]["threads_per_worker"]);
}

// One value per option: all of them are tried where options are planned (plan_test.cpp).
TEST_F(Cli, NumbersBeyondTheirRangesAreRefusedBeforeAnythingStarts) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"9000000000000000000"}, "worker count '9000000000000000000' is not a whole number from 1 to 10000"},
      {{"-c", "70000", "1"}, "--threads-per-worker '70000' is not a number from 0.1 to 1024"},
      {{"--repeat", "1000000000000", "1"}, "--repeat '1000000000000' is not a whole number from 1 to 1000"},
      {{"--comm-timeout", "1e18", "1"}, "--comm-timeout '1e18' is not a time from 0.001s to 24h"},
      {{"--max-time", "1e308h", "1"}, "--max-time '1e308h' is not a time from 0.001s to 8760h"},
      {{"--max-epochs", "1e-300", "1"}, "--max-epochs '1e-300' is not a number from 1e-06"},
      {{"--max-steps", "1e3", "1"}, "--max-steps '1e3' is not a whole number"},
      {{"--set", "batch_size=9000000000000000000", "1"}, "'batch_size' is 9000000000000000000; expected a number"},
      {{"--set", "optimizer.lr=1e308", "1"}, "'optimizer.lr' is 1e+308; expected a number"},
      {{"--repeat", "1000", "1", "2"}, "one request makes at most 1000"},
  };
  for (const auto& [arguments, message] : wrong) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
  }
  EXPECT_FALSE(fs::exists(home() / "runs"));
  expect_error({"schedule", "plot", "--task", "1a", "--workers", "9000000000000000000"}, HasSubstr("--workers '9"));
  expect_error({"compare", "r-1", "--after", "1e308h"}, HasSubstr("--after '1e308h' is not a time"));
}

TEST_F(Cli, HelpSaysTheRanges) {
  const std::string help = mlbench({"run", "--help"}).out;
  for (const char* part : {"from 1 to 1024", "from 0.001s to 24h", "default: 30s", "default: 42", "--explain"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
}

// Specifications may come from users or other programs: 1e308 hours are null in JSON.
TEST_F(Cli, ARunWithNumbersThatNobodyTakesIsShownStoppedAndDeleted) {
  ASSERT_EQ(run({"1"}).code, 0);
  const fs::path folder = home() / "runs/r-1";
  Json spec = read_json_file(folder / "spec.json");
  spec["limits"]["max_time_s"] = nullptr;
  write_json_file(folder / "spec.json", spec);
  Json record = read_json_file(folder / "run.json");
  record["state"] = "queued";
  write_json_file(folder / "run.json", record);
  fs::remove(folder / "progress.json");
  fs::create_directories(folder / "control");
  write_json_file(folder / "control/queue.json", {{"no_wait", false}});
  EXPECT_THAT(mlbench({"status"}).out, HasSubstr("queued"));
  expect_error({"delete", "r-1"}, HasSubstr("mlbench stop r-1"));
  const Result stopped = mlbench({"stop", "r-1"});
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_THAT(mlbench({"status", "r-1"}).out, HasSubstr("stopped"));
  EXPECT_EQ(mlbench({"delete", "r-1"}).code, 0);
  EXPECT_FALSE(fs::exists(folder));
}

TEST_F(Cli, ANameInUseIsAnErrorBeforeAnythingStarts) {
  ASSERT_EQ(run({"2"}).code, 0);
  const Result result = run({"1", "2"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("run 'r-2' exists already"), HasSubstr("mlbench delete r-2")));
  EXPECT_FALSE(fs::exists(home() / "runs/r-1"));
}

TEST_F(Cli, WithoutATerminalNothingIsAsked) {
  expect_error({"run", "r", "1"}, AllOf(HasSubstr("no task: give --task TASK"), HasSubstr("fashion-mnist")));
}

TEST_F(Cli, DryRunStartsNothing) {
  const Result text = run({"2", "--dry-run"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("r-2: fashion-mnist, 2 workers"), HasSubstr("RANK=1"), HasSubstr("--run-dir")));
  const Json plans = run({"1", "2", "--dry-run", "--json"}).json();
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_EQ(plans[1]["spec"]["workers"], 2);
  EXPECT_EQ(plans[1]["commands"].size(), 2U);
  EXPECT_FALSE(fs::exists(home() / "runs/r-2"));
}

TEST_F(Cli, AFailedRunNamesTheCulprit) {
  environment_["FAKE_FAULT"] = "1:5:exit:7";
  environment_["FAKE_CHECKPOINT"] = "2";
  const Result result = run({"1", "2"});
  EXPECT_EQ(result.code, 5) << result.err;
  const std::vector<int64_t> steps = checkpoint_steps(home() / "runs/r-2");
  ASSERT_FALSE(steps.empty());
  EXPECT_THAT(result.err, HasSubstr(fmt::format(": mlbench resume r-2 goes on from step {}\n", steps.back())));
  EXPECT_THAT(result.out, AllOf(HasSubstr("\nr-1  finished"), HasSubstr("\nr-2  failed"), HasSubstr("r-2 failed: "),
                                HasSubstr("rank 1"), HasSubstr("rank 1: 7"), HasSubstr("fake worker, rank 1 of 2")));
  EXPECT_THAT(mlbench({"status", "r-2"}).out, HasSubstr("r-2 failed: "));
}

TEST_F(Cli, MissingDataIsFoundBeforeAnythingStarts) {
  const Result result = mlbench({"run", "r", "1", "--task", "fashion-mnist", "--data", "mnist"});
  if (result.code == 0) GTEST_SKIP() << "missing capability: a machine without MNIST";
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("mlbench data fetch mnist"));
  EXPECT_FALSE(fs::exists(home() / "runs/r-1"));
}

// ---- stopping -------------------------------------------------------------------------------------------------------

TEST_F(Cli, CtrlCStopsKeepsAndStartsNoMore) {
  environment_["FAKE_STEPS"] = "100000";
  ChildProcess command = start({"run", "r", "--task", "fashion-mnist", "--synthetic", "1", "2"});
  ASSERT_TRUE(eventually([&] { return state_of("r-1") == "running"; }));
  interrupt(command);
  EXPECT_EQ(state_of("r-1"), "stopped");
  EXPECT_FALSE(fs::exists(home() / "runs/r-2"));
  EXPECT_THAT(
      read_file(folder_.path() / "output"),
      AllOf(HasSubstr("stopping r-1: what was measured is kept; ranks that train write a checkpoint (Ctrl-C"),
            HasSubstr("not started: r-2"), HasSubstr("\nr-1  stopped: there is no checkpoint to resume from\n")));
}

// The fake ranks stop after one and the same step, as real ones do.
TEST_F(Cli, CtrlCSaysFromWhichStepTheRunGoesOn) {
  environment_["FAKE_STEPS"] = "100000";
  environment_["FAKE_CHECKPOINT"] = "100000";
  environment_["FAKE_TRAINS"] = "1";
  ChildProcess command = start({"run", "r", "--task", "fashion-mnist", "--synthetic", "2"});
  ASSERT_TRUE(eventually([&] { return state_of("r-2") == "running"; }));
  std::this_thread::sleep_for(std::chrono::seconds(1));  // until the ranks have sent heartbeats
  interrupt(command);
  const std::vector<int64_t> steps = checkpoint_steps(home() / "runs/r-2");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_THAT(read_file(folder_.path() / "output"),
              HasSubstr(fmt::format("\nr-2  stopped: mlbench resume r-2 goes on from step {}\n", steps[0])));
  environment_["FAKE_STEPS"] = std::to_string(steps[0] + 2);
  environment_.erase("FAKE_TRAINS");
  const Result resumed = mlbench({"resume", "r-2"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(state_of("r-2"), "finished");
}

// Whenever the interrupt comes, the command ends as stopped, and so does a run that was made.
TEST_F(Cli, CtrlCIsHeardFromTheFirstInstruction) {
  environment_["FAKE_STEPS"] = "100000";
  mlbench({"list", "backends"});  // the catalog is known
  int number = 0;
  for (const int wait_ms : {0, 1, 2, 3, 5, 8, 10, 15, 20, 25, 30, 35, 40, 50, 60, 70, 80, 90, 100, 120, 150, 200}) {
    const std::string name = fmt::format("q{}", ++number);
    ChildProcess command = start({"run", name, "1", "--task", "fashion-mnist", "--synthetic"});
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    kill(command.pid(), SIGINT);
    const auto end = command.wait(kPatience);
    ASSERT_TRUE(end) << "not heard after " << wait_ms << " ms: " << read_file(folder_.path() / "output");
    EXPECT_EQ(end->code, 130) << "after " << wait_ms << " ms: " << read_file(folder_.path() / "output");
    const std::string state = state_of(name + "-1");
    EXPECT_TRUE(state.empty() || state == "stopped") << state << " after " << wait_ms << " ms";
  }
}

// timeout sends its signal to the process, and then to the process's group.
TEST_F(Cli, ASignalToTheProcessAndItsGroupIsOneCtrlC) {
  environment_["FAKE_STEPS"] = "100000";
  ChildProcess command = start({"run", "r", "--task", "fashion-mnist", "--synthetic", "1"});
  ASSERT_TRUE(eventually([&] { return state_of("r-1") == "running"; }));
  kill(command.pid(), SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  interrupt(command);
  EXPECT_EQ(state_of("r-1"), "stopped");
  EXPECT_THAT(read_file(folder_.path() / "output"), testing::Not(HasSubstr("killing")));
}

TEST_F(Cli, ASecondCtrlCKills) {
  environment_["FAKE_STEPS"] = "100000";
  environment_["FAKE_FAULT"] = "0:0:ignore_term";
  ChildProcess command = start({"run", "r", "--task", "fashion-mnist", "--synthetic", "1"});
  ASSERT_TRUE(eventually([&] { return state_of("r-1") == "running"; }));
  kill(command.pid(), SIGINT);
  ASSERT_TRUE(eventually([&] { return read_file(folder_.path() / "output").find("stopping") != std::string::npos; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(600));  // the same request until then
  interrupt(command);
  EXPECT_THAT(state_of("r-1"), testing::AnyOf("failed", "stopped"));
  EXPECT_THAT(read_file(folder_.path() / "output"), HasSubstr("killing r-1"));
}

TEST_F(Cli, AHomeIsTheUsersAloneAndNamedFilesAreNot) {
  const mode_t mask = umask(022);
  ASSERT_EQ(run({"1"}).code, 0);
  fs::permissions(home(), fs::perms(0755));
  EXPECT_EQ(mlbench({"download", "r-1", "-o", folder_ / "r.zip"}).code, 0);
  umask(mask);
  EXPECT_EQ(fs::status(home()).permissions(), fs::perms::owner_all) << "it is closed again";
  EXPECT_EQ(fs::status(folder_ / "r.zip").permissions(), fs::perms(0644));
  for (const auto& entry : fs::recursive_directory_iterator(home())) {
    EXPECT_EQ(entry.status().permissions() & fs::perms(077), fs::perms::none) << entry.path();
  }
}

TEST_F(Cli, AHomeThatCannotBeWrittenCanBeRead) {
  ASSERT_EQ(run({"1"}).code, 0);
  ASSERT_EQ(run({"2"}).code, 0);
  // The run looks as if its supervisor had died long ago.
  Json lost = read_json_file(home() / "runs/r-2/progress.json");
  lost["state"] = "running";
  write_json_file(home() / "runs/r-2/progress.json", lost);
  Json record = read_json_file(home() / "runs/r-2/run.json");
  record["state"] = "running";
  write_json_file(home() / "runs/r-2/run.json", record);
  if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount(home().c_str(), home().c_str(), nullptr, MS_BIND, nullptr) != 0) {
    GTEST_SKIP() << "missing capability: mounting a file system";
  }
  ASSERT_EQ(mount(nullptr, home().c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr), 0);
  const Result status = mlbench({"status"});
  EXPECT_EQ(status.code, 0) << status.err;
  EXPECT_THAT(status.out, AllOf(HasSubstr("finished"), HasSubstr("failed"))) << status.err;
  const std::string zip = folder_ / "r.zip";
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"status", "r-1"},
                                             {"status", "r-2"},
                                             {"logs", "r-1"},
                                             {"logs", "-f", "r-2"},
                                             {"download", "r-1", "-o", zip},
                                             {"compare", "r-1", "r-1"},
                                             {"result", zip},
                                             {"charts", "-o", folder_ / "charts", "--format", "csv"}}) {
    const Result result = mlbench(words);
    EXPECT_THAT(result.code, testing::AnyOf(0, 5)) << words[0] << ": " << result.err;
    EXPECT_THAT(result.err, testing::Not(HasSubstr("Read-only"))) << words[0];
  }
  umount2(home().c_str(), MNT_DETACH);
}

TEST_F(Cli, DetachedRunsAreFollowedAndStopped) {
  environment_["FAKE_STEPS"] = "100000";
  const Result started = run({"1", "--detach"});
  EXPECT_EQ(started.code, 0) << started.err;
  EXPECT_THAT(started.out, AllOf(HasSubstr("started r-1"), HasSubstr("mlbench stop r-1")));
  ASSERT_TRUE(eventually([&] { return state_of("r-1") == "running"; }));
  EXPECT_THAT(mlbench({"status"}).out, HasSubstr("running"));
  expect_error({"delete", "r-1"}, AllOf(HasSubstr("is active"), HasSubstr("mlbench stop r-1")));
  expect_error({"resume", "r-1"}, HasSubstr("mlbench logs -f r-1"));
  const Result stopped = mlbench({"stop", "r-1", "--json"});
  EXPECT_EQ(stopped.json(), Json::array({{{"name", "r-1"}, {"state", "stopped"}}}));
  expect_error({"stop", "r-1"}, HasSubstr("run 'r-1' is not active: it is stopped"));
}

TEST_F(Cli, ASecondRunWaitsForTheCoresAndSaysSo) {
  const auto lock = supervise::take_core_lock(folder_.path() / "cores", 1s);
  ASSERT_TRUE(lock);
  ChildProcess command = start({"run", "r", "--task", "fashion-mnist", "--synthetic", "1"});
  EXPECT_TRUE(eventually([&] {
    return fs::exists(folder_.path() / "output") &&
           read_file(folder_.path() / "output").find("r-1  waits for the cores  ") != std::string::npos;
  }));
  EXPECT_EQ(state_of("r-1"), "queued");
  interrupt(command);
  EXPECT_EQ(state_of("r-1"), "stopped");
}

TEST_F(Cli, NoWaitRunsBesideAnotherAndSaysSo) {
  const auto lock = supervise::take_core_lock(folder_.path() / "cores", 1s);
  ASSERT_TRUE(lock);
  const Result result = run({"1", "--no-wait"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("oversubscribed"));
}

TEST_F(Cli, ASupervisorThatWasKilledIsSettledByTheNextLook) {
  environment_["FAKE_STEPS"] = "100000";
  ASSERT_EQ(run({"1", "--detach"}).code, 0);
  ASSERT_TRUE(eventually([&] { return state_of("r-1") == "running"; }));
  // The holder of the lease: "holder": {"pid": ...}, or whatever shape it has, is supervise's own; /proc tells as well.
  bool killed = false;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::error_code gone;
    if (!fs::exists(entry.path() / "cmdline", gone)) continue;
    std::ifstream file(entry.path() / "cmdline");
    const std::string command((std::istreambuf_iterator<char>(file)), {});
    if (command.find("supervise") == std::string::npos || command.find(home().string()) == std::string::npos) continue;
    kill(std::stoi(entry.path().filename()), SIGKILL);
    killed = true;
  }
  ASSERT_TRUE(killed);
  ASSERT_TRUE(eventually([&] { return mlbench({"status", "r-1", "--json"}).json()["state"] == "failed"; }));
  EXPECT_EQ(mlbench({"status", "r-1", "--json"}).json()["failure"]["kind"], "supervisor_lost");
}

// ---- looking at runs ------------------------------------------------------------------------------------------------

TEST_F(Cli, StatusOfAnEmptyHome) {
  EXPECT_THAT(mlbench({"status"}).out, HasSubstr("start one with: mlbench run"));
  EXPECT_EQ(mlbench({"status", "--json"}).json(), Json::array());
  expect_error({"status", "r-1"}, HasSubstr("no run 'r-1'"));
}

TEST_F(Cli, StatusReadsTheRecordsOfRunsAlone) {
  for (const char* name : {"z", "a"}) ASSERT_EQ(mlbench({"run", name, "1", "--", "true"}).code, 0);
  std::ofstream(home() / "runs" / "a-1" / "spec.json") << "damaged";
  const Json runs = mlbench({"status", "--json"}).json();
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0]["name"], "z-1") << "runs are in the order of their ids";
  EXPECT_EQ(runs[1]["name"], "a-1");
}

TEST_F(Cli, VerbsOnAFinishedRun) {
  ASSERT_EQ(run({"2"}).code, 0);
  EXPECT_THAT(mlbench({"status"}).out, AllOf(StartsWith("id  name  state "), HasSubstr("\n 1  r-2   finished")));
  EXPECT_THAT(mlbench({"status", "r-2"}).out,
              AllOf(StartsWith("r-2: finished, goal not reached"), HasSubstr("backward")));
  EXPECT_EQ(mlbench({"status", "r-2", "--json"}).json()["name"], "r-2");
  EXPECT_EQ(mlbench({"status", "--json"}).json().size(), 1U);
  expect_error({"status", "r-3"}, HasSubstr("there are 1: r-2"));

  expect_error({"note", "r-9"}, HasSubstr("no run 'r-9'"));
  EXPECT_THAT(mlbench({"note", "r-2"}).err, HasSubstr("run 'r-2' has no notes"));
  expect_error({"note", "r-2", "--description", "\x1b[31m"}, HasSubstr("control characters"));
  expect_error({"note", "r-2", "--tag", "a,b"}, HasSubstr("comma"));
  EXPECT_EQ(
      mlbench({"note", "r-2", "--description", "two\nlines", "--expect", "80 %", "--tag", "a", "--tag", "b c"}).out,
      "description  two\n             lines\nexpected     80 %\ntags         a, b c\n");
  EXPECT_EQ(mlbench({"note", "r-2", "--remove-tag", "a", "--tag", "d", "--json"}).json(),
            (Json{{"description", "two\nlines"},
                  {"cluster", ""},
                  {"firewall", ""},
                  {"expected", "80 %"},
                  {"summary", ""},
                  {"next_steps", ""},
                  {"tags", {"b c", "d"}}}));
  EXPECT_EQ(
      mlbench({"note", "r-2", "--cluster", "north", "--firewall", "none", "--summary", "s", "--next-steps", "n"}).out,
      "description  two\n             lines\ncluster      north\nfirewall     none\nexpected     80 %\n"
      "summary      s\nnext steps   n\ntags         b c, d\n");
  mlbench({"note", "r-2", "--cluster", "", "--firewall", "", "--summary", "", "--next-steps", ""});
  expect_error({"note", "r-2", "--remove-tag", "a"}, HasSubstr("has no tag 'a'"));
  EXPECT_THAT(mlbench({"status", "r-2"}).out, HasSubstr("\nexpected     80 %\ntags         b c, d\n"));
  EXPECT_THAT(mlbench({"status", "--search", "LINES"}).out, HasSubstr("  r-2   finished"));
  EXPECT_EQ(mlbench({"status", "-s", "r-", "--json"}).json().size(), 1U);
  EXPECT_THAT(mlbench({"status", "--search", "nothing"}).out, HasSubstr("has 'nothing' in its name, notes or summary"));
  EXPECT_EQ(
      mlbench({"note", "r-2", "--description", "", "--expect", "", "--remove-tag", "d", "--remove-tag", "b c"}).out,
      "");

  EXPECT_THAT(mlbench({"logs", "r-2"}).out,
              AllOf(HasSubstr("==> rank 0, segment 1, stderr <==\n"), HasSubstr("fake worker, rank 1 of 2\n")));
  EXPECT_EQ(mlbench({"logs", "r-2", "--rank", "1"}).out, "fake worker, rank 1 of 2\n");
  EXPECT_THAT(mlbench({"logs", "-f", "r-2"}).out, HasSubstr("rank 1 err | fake worker, rank 1 of 2\n"));
  EXPECT_EQ(mlbench({"logs", "-a", "r-2"}).out,
            "rank 0 err | fake worker, rank 0 of 2\nrank 1 err | fake worker, rank 1 of 2\n");
  EXPECT_EQ(mlbench({"logs", "--all", "r-2", "--json"}).json()[0]["lines"].size(), 2u);
  expect_error({"logs", "r-2", "--all", "--rank", "1"}, HasSubstr("leave out either"));
  EXPECT_EQ(mlbench({"logs", "r-2", "--rank", "1", "--json"}).json()[0]["lines"], Json({"fake worker, rank 1 of 2"}));
  expect_error({"logs", "r-2", "--rank", "2"}, HasSubstr("ranks 0 to 1"));
  expect_error({"logs", "r-2", "-f", "--json"}, HasSubstr("leave out --json"));

  expect_error({"resume", "r-2"}, HasSubstr("a finished run cannot be resumed"));

  const fs::path zip = folder_.path() / "r.zip";
  EXPECT_EQ(mlbench({"download", "r-2", "-o", zip, "--json"}).json()["file"], zip.string());
  std::vector<std::string> members;
  for (const auto& member : report::read_zip(read_file(zip))) members.push_back(member.name);
  EXPECT_THAT(members, AllOf(Contains("run.json"), Contains("result_backprop @ 1.json"),
                             Contains("result_global_cum_agg @ 0.json"), Not(Contains("official_result.txt"))));
  EXPECT_EQ(mlbench({"download", "r-2", "-o", "/no/such/folder/r.zip"}).code, 4);
  expect_error({"download", "r-2", "-o", folder_.path()}, HasSubstr("is a folder"));

  const fs::path logs = folder_.path() / "logs";
  const Json files = mlbench({"download", "r-2", "--tensorboard", "-o", logs, "--json"}).json()["files"];
  ASSERT_EQ(files.size(), 2U);
  EXPECT_THAT(files[1].get<std::string>(), HasSubstr((logs / "rank-1/events.out.tfevents.").string()));
  EXPECT_THAT(read_file(files[1].get<std::string>()), HasSubstr("train_loss"));

  EXPECT_EQ(mlbench({"delete", "r-2", "--dry-run"}).out, fmt::format("would delete {}/runs/r-2\n", home().string()));
  EXPECT_EQ(mlbench({"delete", "r-2", "--json"}).json()[0]["deleted"], true);
  EXPECT_FALSE(fs::exists(home() / "runs/r-2"));
  ASSERT_EQ(run({"2"}).code, 0);
  EXPECT_EQ(mlbench({"status", "r-2", "--json"}).json()["id"], 2) << "ids are never given twice";
}

TEST_F(Cli, TimelinesOfRunsAndOfFiles) {
  const fs::path file = folder_.path() / "out.json";
  // The fake worker records no spans: the run is good, and a diagnostic says that there is no timeline.
  const Result made = run({"1", "2", "--timeline", file});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("no timeline of r-2: run 'r-2' has no timeline"));
  EXPECT_EQ(read_json_file(home() / "runs/r-2/spec.json")["timeline"], true);
  expect_error({"timeline", "summary", "r-2"}, HasSubstr("record one with 'mlbench run NAME K --timeline FILE'"));
  expect_error({"timeline", "export", "r-2", "-o", file}, HasSubstr("has no timeline"));
  EXPECT_FALSE(fs::exists(file));
  expect_error({"timeline", "export", "r-2", "-o", folder_.path()}, HasSubstr("is a folder"));
  expect_error({"timeline", "summary", "r-9"}, HasSubstr("no run 'r-9'"));
  expect_error({"timeline", "summary", file}, HasSubstr("no such file"));

  report::write_two_ranks(home() / "runs/r-2", 10, 20);
  EXPECT_THAT(mlbench({"timeline", "summary", "r-2"}).out,
              AllOf(StartsWith("r-2: 2 ranks"), HasSubstr("verdict: skew"), HasSubstr("its input (batch_load)")));
  const Json exported = mlbench({"timeline", "export", "r-2", "-o", file, "--json"}).json();
  EXPECT_EQ(exported["file"], file.string());
  EXPECT_EQ(exported["bytes"], fs::file_size(file));
  EXPECT_EQ(mlbench({"timeline", "summary", file, "--json"}).json(),
            mlbench({"timeline", "summary", "r-2", "--json"}).json());
  EXPECT_THAT(mlbench({"timeline"}).err, HasSubstr("needs one of export, summary"));
}

TEST_F(Cli, WhereTimelinesGoIsCheckedBeforeAnythingStarts) {
  expect_error({"run", "r", "1", "--task", "fashion-mnist", "--synthetic", "--timeline", folder_ / "no/such/out.json"},
               HasSubstr("there is no folder"));
  expect_error({"run", "r", "1", "--task", "fashion-mnist", "--synthetic", "--timeline", folder_.path()},
               HasSubstr("is a folder: give a file"));
  expect_error({"run", "r", "1", "--timeline", folder_ / "out.json", "--", "/bin/true"}, HasSubstr("option of tasks"));
  environment_["HOROVOD_TIMELINE"] = folder_ / "horovod.json";
  EXPECT_THAT(run({"1", "--dry-run", "--json"}).err, HasSubstr("HOROVOD_TIMELINE is set"));
  const Result both = run({"1", "--dry-run", "--json", "--timeline", folder_ / "out.json"});
  EXPECT_THAT(both.err, HasSubstr("goes before HOROVOD_TIMELINE"));
  EXPECT_EQ(both.json()[0]["spec"]["timeline"], true);
  // HOROVOD_TIMELINE is then meant for the command's own Horovod.
  EXPECT_THAT(mlbench({"run", "own", "1", "--dry-run", "--", "/bin/true"}).err, Not(HasSubstr("HOROVOD_TIMELINE")));
}

TEST_F(Cli, ChartsOfAHomeAndOfAnArchive) {
  ASSERT_EQ(run({"1", "2"}).code, 0);
  const fs::path charts = folder_.path() / "it's charts";
  const Json answer = mlbench({"charts", "-o", charts, "--format", "html,csv", "--json"}).json();
  EXPECT_EQ(answer["studies"][0]["lines"][0]["baseline"], "r-1");
  EXPECT_EQ(answer["studies"][0]["lines"][0]["points"].size(), 2U);
  EXPECT_EQ(answer["worker_per_hour"], 0.2092);
  EXPECT_THAT(read_file(charts / "report.html"), HasSubstr("fashion-mnist"));
  EXPECT_THAT(read_file(charts / "speedup.csv"), StartsWith("workers,"));
  ASSERT_EQ(mlbench({"charts", "-o", charts, "--format", "markdown,latex"}).code, 0);
  EXPECT_THAT(read_file(charts / "tables.md"),
              AllOf(StartsWith("## fashion-mnist"), HasSubstr("\n| line | k | runs |")));
  EXPECT_THAT(read_file(charts / "tables.tex"), HasSubstr("\\caption{fashion-mnist"));

  const fs::path zip = folder_.path() / "r.zip";
  ASSERT_EQ(mlbench({"download", "r-2", "-o", zip}).code, 0);
  const Result of_zip = mlbench({"charts", zip, "-o", charts, "--format", "csv"});
  EXPECT_THAT(of_zip.out, HasSubstr("Baseline of torch, gloo: r-2 (2 workers)"));
  expect_error({"charts", "-f", "nothing"}, HasSubstr("has 'nothing' in its name"));
  expect_error({"charts", "--format", "bmp"}, HasSubstr("unknown format 'bmp'"));
  expect_error({"charts", "--width", "3"}, HasSubstr("unknown width '3'; valid: one, two"));
  expect_error({"charts", "--clock", "sun"}, HasSubstr("unknown clock 'sun'"));
  expect_error({"charts", "--worker", "abacus"}, HasSubstr("unknown price for 'abacus'"));
  expect_error({"charts", "/no/such"}, HasSubstr("no such file or folder"));
}

TEST_F(Cli, ChartsAreDrawnByGnuplot) {
  ASSERT_EQ(run({"1"}).code, 0);
  const fs::path charts = folder_.path() / "charts";
  if (program_exists("gnuplot")) {
    EXPECT_EQ(mlbench({"charts", home() / "runs" / "r-1", "-o", charts, "--format", "png,svg"}).code, 0);
    EXPECT_EQ(mlbench({"charts", home() / "runs" / "r-1", "-o", charts, "--format", "pdf", "--width", "one"}).code, 0);
    EXPECT_THAT(read_file(charts / "total_time.caption.txt"), HasSubstr("Runs: r-1. Machines: "));
    EXPECT_THAT(read_file(charts / "time_for_all_phases.png"), StartsWith("\x89PNG"));
    EXPECT_THAT(read_file(charts / "time_for_all_phases.svg"), HasSubstr("</svg>"));
  }
  environment_["PATH"] = folder_.path();
  expect_error({"charts", "-o", charts}, HasSubstr("apt-get install gnuplot-nox"));
}

TEST_F(Cli, CompareTakesRepeatsAndArchives) {
  const Result made = run({"1", "2", "--repeat", "2"});
  ASSERT_EQ(made.code, 0);
  EXPECT_THAT(made.out, AllOf(HasSubstr(" charts -f r "), HasSubstr(" compare r-1 r-2 ")));
  EXPECT_THAT(mlbench({"status"}).out, AllOf(HasSubstr("r-1 (2 repeats)"), Not(HasSubstr("r-1.2"))));
  EXPECT_THAT(mlbench({"status", "--all"}).out, HasSubstr("  r-1.2  "));
  const Json answer = mlbench({"compare", "r-1", "r-2", "--json"}).json();
  ASSERT_EQ(answer["runs"].size(), 2U);
  EXPECT_EQ(answer["runs"][0]["name"], "r-1");
  EXPECT_EQ(answer["runs"][0]["runs"], 2);
  EXPECT_EQ(answer["runs"][1]["samples_per_s_ratio"]["interval"].size(), 2U);
  EXPECT_THAT(mlbench({"compare", "r-1", "r-2"}).out, HasSubstr("Ratio to r-1"));
  EXPECT_THAT(mlbench({"compare", "r-1", "r-2", "--format", "markdown"}).out, HasSubstr("\n| run | time to goal |"));
  EXPECT_THAT(mlbench({"status", "--format", "latex"}).out, HasSubstr("\n\\begin{tabular}{r"));
  EXPECT_THAT(mlbench({"status", "--format", "csv"}).out, StartsWith("id,name,state,task,workers,"));
  expect_error({"compare", "r-1", "--format", "pdf"},
               HasSubstr("unknown format 'pdf'; valid: text, markdown, latex, csv"));
  expect_error({"status", "--format", "csv", "--json"}, HasSubstr("--json excludes --format"));

  const fs::path zip = folder_.path() / "r.zip";
  ASSERT_EQ(mlbench({"download", "r-1", "-o", zip}).code, 0);
  EXPECT_EQ(mlbench({"compare", "r-1.2", zip, "--json"}).json()["runs"].size(), 2U) << "of two places";
  expect_error({"compare", "r-9"}, HasSubstr("no run 'r-9'"));
  expect_error({"compare", "r-1", "--after", "soon"}, HasSubstr("--after"));
  expect_error({"compare", "r-1", "--vary", "framwork"},
               AllOf(HasSubstr("unknown key of --vary 'framwork'"), HasSubstr("framework"), HasSubstr("hardware")));
  EXPECT_EQ(mlbench({"compare", "--vary", "framework,hardware", "r-1", "r-2"}).code, 0);
  expect_error({"compare", "r-1", "--vary", "goal"}, HasSubstr("unknown key of --vary 'goal'"));
  expect_error({"charts", "--lines", "colour"}, HasSubstr("unknown key of --lines 'colour'"));
}

TEST_F(Cli, WatchTellsWhatIsNewUntilTheEnd) {
  const Result unknown = mlbench({"watch", "r-1"});
  EXPECT_EQ(unknown.code, 2);
  environment_["FAKE_STEPS"] = "100000";
  ASSERT_EQ(run({"1", "--detach"}).code, 0);
  ASSERT_TRUE(eventually([&] { return state_of("r-1") == "running"; }));
  ChildProcess one = start({"watch", "r-1"}, "one.txt"), all = start({"watch", "--json"}, "all.txt");
  const auto text = [&](const char* file) {
    const fs::path path = folder_.path() / file;
    return fs::exists(path) ? read_file(path) : "";
  };
  ASSERT_TRUE(eventually([&] { return text("one.txt").starts_with("r-1  running"); }));
  EXPECT_EQ(mlbench({"stop", "r-1"}).code, 0);
  const auto end = one.wait(kPatience);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 130) << "as the run";
  EXPECT_THAT(text("one.txt"), HasSubstr("\nr-1  stopped"));
  ASSERT_TRUE(eventually([&] { return text("all.txt").find("\"stopped\"") != std::string::npos; }));
  kill(all.pid(), SIGINT);
  const auto left = all.wait(kPatience);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->code, 0);
  std::istringstream lines(text("all.txt"));
  for (std::string line; std::getline(lines, line);) EXPECT_EQ(Json::parse(line)["name"], "r-1");
  EXPECT_EQ(mlbench({"watch", "r-1", "--json"}).json()["state"], "stopped");
}

TEST_F(Cli, StatusEndsAsTodaysScriptsReadIt) {
  const std::string script = R"(mkdir "$MLBENCH_RUN_DIR/metrics"; echo '{"sequence":1,"step":5,"epoch":1,"time":4e9,)"
                             R"("values":{"val_global_loss":0.4321,"val_global_Prec@1":81.5}}')"
                             R"( >> "$MLBENCH_RUN_DIR/metrics/rank-0.jsonl")";
  ASSERT_EQ(mlbench({"run", "s", "1", "--", "/bin/sh", "-c", script}).code, 0);
  EXPECT_THAT(mlbench({"status", "s-1"}).out,
              testing::ContainsRegex("\nCurrent Global Loss: 0.43 \\(2096-10-02T07:06:40.*Z\\)\n"
                                     "Current Global Prec@1: 81.50 \\(2096-10-02T07:06:40.*Z\\)\n$"));
  EXPECT_THAT(mlbench({"status", "s-1", "-m", "F1"}).out, HasSubstr("\nNo Validation Precision Data yet\n"));
}

TEST_F(Cli, ClustersHaveNames) {
  EXPECT_EQ(mlbench({"list-clusters"}).out, "No clusters are currently configured\n");
  EXPECT_EQ(mlbench({"list-clusters", "--json"}).json(), Json::array());
  expect_error({"set-cluster", "lab"}, HasSubstr("Cluster lab not found"));
  expect_error({"set-cluster", "azure", "lab"}, HasSubstr("unknown provider 'azure'"));
  const fs::path token = folder_.path() / "token";
  std::ofstream(token) << std::string(64, 'a') << "\n";
  fs::permissions(token, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(mlbench({"set-cluster", "lab", "-u", "127.0.0.1:1", "--token-file", token}).out, "Ok\n");
  EXPECT_EQ(mlbench({"set-cluster", "other", "-u", "https://other:8", "--token-file", token}).code, 0);
  EXPECT_EQ(mlbench({"list-clusters"}).out, "  lab    http://127.0.0.1:1\n* other  https://other:8\n");
  EXPECT_EQ(mlbench({"get-dashboard-url"}).out, "https://other:8\n");
  expect_error({"set-cluster", "kind", "lab"}, HasSubstr("lab is no cluster of kind"));
  EXPECT_EQ(mlbench({"set-cluster", "lab"}).out, "Ok\n");
  EXPECT_EQ(mlbench({"status"}).code, 3) << "nobody answers there";
  EXPECT_EQ(mlbench({"get-dashboard-url", "-u", "here:1", "--token-file", token}).out, "http://here:1\n");
  EXPECT_EQ(mlbench({"set-cluster", "local"}).out, "Ok\n");
  EXPECT_EQ(mlbench({"status"}).code, 0);
  EXPECT_THAT(mlbench({"get-dashboard-url"}).err, HasSubstr("No Cluster config found"));
  EXPECT_EQ(mlbench({"set-cluster", "lab", "--forget"}).code, 0);
  EXPECT_EQ(mlbench({"list-clusters", "--json"}).json().size(), 1u);
}

// ---- custom runs ----------------------------------------------------------------------------------------------------

TEST_F(Cli, AnyCommandIsARun) {
  const std::string script =
      R"(echo "rank $RANK of $WORLD_SIZE: $*"; mkdir -p "$MLBENCH_RUN_DIR/metrics"; )"
      R"(echo '{"sequence":1,"step":5,"epoch":0,"values":{"CumulativeTrainTimeEpoch":4,"fwd_pass":3,"agg":1}}' )"
      R"(>> "$MLBENCH_RUN_DIR/metrics/rank-$RANK.jsonl"; )"
      R"(echo '{"sequence":2,"step":5,"epoch":1,"values":{"val_global_Prec@1":81},"text":{"TaskResult":"80% Top 1 )"
      R"(Validation Accuracy reached in 4.000 seconds, Compute: 3.0 seconds, Communication: 1.0 seconds"},)"
      R"("goal":{"metric":"Prec@1","split":"test","target":80,"value":81}}' >> "$MLBENCH_RUN_DIR/metrics/rank-$RANK.jsonl")";
  const Result result = mlbench({"run", "c", "1", "2", "--json", "--", "/bin/sh", "-c", script, "x",
                                 "{rank} of {hosts}", "id {run_id}", "$(id)", "--light"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json record = result.json()[1];
  EXPECT_EQ(record["division"], "custom");
  EXPECT_EQ(record["state"], "finished");
  EXPECT_EQ(record["exit_codes"], Json({0, 0}));
  EXPECT_EQ(record["custom"]["command"].size(), 8U);
  EXPECT_EQ(record["goal"]["reached"], true);
  EXPECT_EQ(record["clocks"]["train_s"], 4.0);
  EXPECT_EQ(record["evaluations"][0]["metrics"]["Prec@1"], 81);
  EXPECT_EQ(mlbench({"logs", "c-2", "--rank", "1"}).out, "rank 1 of 2: 1 of 127.0.0.1,127.0.0.1 id 2 $(id) --light\n");
  EXPECT_THAT(mlbench({"status"}).out, HasSubstr("custom"));
  EXPECT_THAT(mlbench({"status", "c-2"}).out, HasSubstr("goal reached (Prec@1 80 on test data): 81.00"));

  const fs::path zip = folder_.path() / "c.zip";
  ASSERT_EQ(mlbench({"download", "c-2", "-o", zip}).code, 0);
  std::map<std::string, std::string> members;
  for (const auto& member : report::read_zip(read_file(zip))) members[member.name] = member.content;
  EXPECT_THAT(members["official_result.txt"], StartsWith("80% Top 1 Validation Accuracy reached in 4.000 seconds"));
  EXPECT_TRUE(members.contains("result_fwd_pass @ 1.json"));
  const Json charts = mlbench({"charts", "-o", folder_.path() / "charts", "--format", "csv", "--json"}).json();
  EXPECT_EQ(charts["studies"][0]["lines"][0]["points"][1]["speed_up"], 1.0);
}

// A shell script that records values as the Python client does, and predicts the label i mod 2 for all but `wrong`
// samples of made files that have these labels.
std::string claiming_script(double claimed, int wrong) {
  return fmt::format(
      R"(mkdir -p "$MLBENCH_RUN_DIR/metrics"; )"
      R"(echo '{{"step":9,"epoch":1,"train_s":2.5,"samples":5000,"values":{{"val_global_Prec@1":{}}}}}' )"
      R"(>> "$MLBENCH_RUN_DIR/metrics/rank-0.jsonl"; )"
      R"(for i in $(seq 0 599); do echo "{{\"index\": $i, \"label\": $(( i < {} ? 1 - i % 2 : i % 2 ))}}"; done )"
      R"(> "$MLBENCH_RUN_DIR/predictions.jsonl"; echo "goal $MLBENCH_GOAL")",
      claimed, wrong);
}

TEST_F(Cli, ACommandIsJudgedByTheTaskThatItDeclares) {
  fs::create_directories(home() / "data/svm");
  for (const auto& [name, rows] : {std::pair("madelon.train", 2000), {"madelon.valid", 600}}) {
    std::ofstream file(home() / "data/svm" / name);
    for (int i = 0; i < rows; ++i) file << (i % 2 == 0 ? "-1" : "+1") << " 1:" << i << "\n";
  }
  const auto run_script = [&](const std::string& name, const std::string& script) {
    return mlbench({"run", name, "1", "--task", "2a", "--data", "madelon", "--goal", "Prec@1>=90", "--json", "--",
                    "/bin/sh", "-c", script});
  };
  const Result honest = run_script("honest", claiming_script(95, 30));
  ASSERT_EQ(honest.code, 0) << honest.err;
  EXPECT_THAT(honest.err, HasSubstr("custom, declares 2a to Prec@1>=90"));
  const Json record = honest.json()[0];
  EXPECT_EQ(record["task"], "2a");
  EXPECT_EQ(record["custom"]["declared"]["goal"], "Prec@1>=90");
  EXPECT_EQ(record["goal"]["reached"], true);
  EXPECT_EQ(record["goal"]["train_s"], 2.5);
  EXPECT_EQ(record["throughput"]["samples_per_s"], 2000);
  EXPECT_THAT(mlbench({"logs", "honest-1"}).out, HasSubstr(R"("metric":"Prec@1")"));

  const Result holds = mlbench({"evaluate", "honest-1"});
  EXPECT_EQ(holds.code, 0) << holds.err;
  EXPECT_EQ(holds.out,
            "honest-1, predictions of 2a: 600 test samples of madelon\n"
            "  Prec@1: claimed 95, computed 95, equal\n"
            "  goal Prec@1>=90: claimed to be reached\n"
            "the claim holds\n");

  ASSERT_EQ(run_script("liar", claiming_script(95, 31)).code, 0);
  const Result lies = mlbench({"evaluate", "liar-1", "--json"});
  EXPECT_EQ(lies.code, 5);
  EXPECT_EQ(lies.json()["holds"], false);
  EXPECT_EQ(lies.json()["claims"][0]["claimed"], 95);
  EXPECT_NEAR(lies.json()["claims"][0]["computed"].get<double>(), 94.8333, 1e-4);
  EXPECT_THAT(mlbench({"evaluate", "liar-1"}).out,
              AllOf(HasSubstr("claimed 95, computed 94.8333, different"), HasSubstr("the claim is wrong")));

  const Result missed = run_script("missed", claiming_script(80, 120));
  EXPECT_EQ(missed.code, 0);
  EXPECT_THAT(missed.json()[0]["notes"], Contains("the declared goal Prec@1>=90 was missed: the best Prec@1 is 80"));
  EXPECT_THAT(mlbench({"status", "missed-1"}).out,
              AllOf(HasSubstr("goal not reached (Prec@1 90 on test data)"), HasSubstr("was missed")));
  EXPECT_THAT(mlbench({"compare", "honest-1", "missed-1"}).out, HasSubstr("the command varies"));
}

TEST_F(Cli, AClaimThatCannotBeCheckedSaysWhy) {
  const auto run_script = [&](const std::string& name, std::vector<std::string> more, const std::string& script) {
    more.insert(more.begin(), {"run", name, "1"});
    more.insert(more.end(), {"--", "/bin/sh", "-c", script});
    EXPECT_EQ(mlbench(more).code, 0);
  };
  run_script("c", {}, "true");
  expect_error({"evaluate", "c-1"}, HasSubstr("run 'c-1' declares no task"));
  run_script("d", {"--task", "2a", "--data", "madelon"}, "true");
  expect_error({"evaluate", "d-1"}, AllOf(HasSubstr("there is no "), HasSubstr("runs/d-1/predictions.jsonl"),
                                          HasSubstr("write_predictions()")));
  expect_error({"evaluate", "d-1", "--task", "2a"}, HasSubstr("--task is what the run's command declares"));
  run_script("e", {"--task", "2a", "--data", "madelon"}, R"(: > "$MLBENCH_RUN_DIR/predictions.jsonl")");
  expect_error({"evaluate", "e-1"}, HasSubstr("run 'e-1' recorded no Prec@1 on test data: there is no claim to check"));
}

TEST_F(Cli, ACustomRunHasHorovodsVariables) {
  const std::string script = R"(echo "$HOROVOD_RANK/$HOROVOD_SIZE $HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE )"
                             R"($HOROVOD_CROSS_RANK/$HOROVOD_CROSS_SIZE $HOROVOD_CONTROLLER $HOROVOD_GLOO_IFACE"; )"
                             R"(test "$HOROVOD_GLOO_RENDEZVOUS_ADDR:$HOROVOD_GLOO_RENDEZVOUS_PORT" = )"
                             R"("$MASTER_ADDR:$MASTER_PORT")";
  const Result result = mlbench({"run", "h", "2", "--env", "HOROVOD_GLOO_IFACE=eth1", "--", "/bin/sh", "-c", script});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(mlbench({"logs", "h-2", "--rank", "1"}).out, "1/2 1/2 0/1 gloo eth1\n");
}

TEST_F(Cli, ACustomCommandThatFailsNamesItsRank) {
  const Result result =
      mlbench({"run", "c", "2", "--json", "--", "/bin/sh", "-c", "[ $RANK = 1 ] && echo broken && exit 7; sleep 60"});
  EXPECT_EQ(result.code, 5);
  const Json record = result.json()[0];
  EXPECT_EQ(record["failure"]["rank"], 1);
  EXPECT_THAT(record["failure"]["message"].get<std::string>(), HasSubstr("exited with code 7"));
  EXPECT_EQ(record["failure"]["log_tail"], Json({"broken"}));
  EXPECT_EQ(record["exit_codes"][1], 7);
  const Result missing = mlbench({"run", "d", "1", "--json", "--", "/no/such/program"});
  EXPECT_EQ(missing.code, 5);
  EXPECT_EQ(missing.json()[0]["failure"]["kind"], "start_failed");
}

TEST_F(Cli, AStartThatFailedDoesNotUseUpItsName) {
  EXPECT_EQ(mlbench({"run", "d", "1", "--", "/no/such/program"}).code, 5);
  const Result again = mlbench({"run", "d", "1", "--", "/bin/true"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("note: the run d-1, whose start failed, is kept as d-1.failed"));
  EXPECT_EQ(state_of("d-1"), "finished");
  EXPECT_EQ(state_of("d-1.failed"), "failed");
  EXPECT_THAT(mlbench({"status", "d-1.failed"}).out, HasSubstr("was named d-1 until another run took that name"));
  expect_error({"run", "d", "1", "--", "/bin/true"}, HasSubstr("run 'd-1' exists already"));
}

// Whoever mistypes a second time is told of that, and not that the name is taken.
TEST_F(Cli, ATakenNameHidesNoOtherMistake) {
  ASSERT_EQ(run({"1"}).code, 0);
  expect_error({"run", "r", "1", "--task", "fashion-mnist", "--data-dir", "/no/such"}, HasSubstr("is not a folder"));
  expect_error({"run", "r", "1", "--task", "2a"}, HasSubstr("data fetch epsilon"));
  expect_error({"run", "r", "1", "--task", "0a", "--interface", "nosuch0"}, HasSubstr("--interface 'nosuch0'"));
  expect_error({"run", "r", "1", "--task", "0a"}, HasSubstr("run 'r-1' exists already"));
}

TEST_F(Cli, TheStreamsOfRanksAreToldApart) {
  ASSERT_EQ(mlbench({"run", "c", "2", "--", "/bin/sh", "-c", "echo said $RANK; echo wrong $RANK >&2"}).code, 0);
  EXPECT_EQ(mlbench({"logs", "c-2"}).out,
            "==> rank 0, segment 1, stdout <==\nsaid 0\n==> rank 0, segment 1, stderr <==\nwrong 0\n"
            "==> rank 1, segment 1, stdout <==\nsaid 1\n==> rank 1, segment 1, stderr <==\nwrong 1\n");
  EXPECT_EQ(mlbench({"logs", "c-2", "--rank", "1", "--stdout"}).out, "said 1\n");
  EXPECT_EQ(mlbench({"logs", "c-2", "--rank", "1", "--stderr"}).out, "wrong 1\n");
  EXPECT_EQ(mlbench({"logs", "-f", "c-2", "--rank", "1"}).out, "said 1\nwrong 1\n");
  EXPECT_EQ(mlbench({"logs", "-f", "c-2", "--rank", "1", "--stderr"}).out, "wrong 1\n");
  EXPECT_EQ(mlbench({"logs", "--all", "c-2"}).out,
            "rank 0 out | said 0\nrank 0 err | wrong 0\nrank 1 out | said 1\nrank 1 err | wrong 1\n");
  EXPECT_EQ(mlbench({"logs", "--all", "c-2", "--stderr"}).out, "rank 0 err | wrong 0\nrank 1 err | wrong 1\n");
  const Json one = mlbench({"logs", "c-2", "--rank", "0", "--json"}).json();
  ASSERT_EQ(one.size(), 2u);
  EXPECT_EQ(one[0]["stream"], "stdout");
  EXPECT_EQ(one[1]["stream"], "stderr");
  EXPECT_EQ(one[1]["lines"], Json({"wrong 0"}));
  EXPECT_EQ(mlbench({"logs", "--all", "c-2", "--stdout", "--json"}).json()[0]["stream"], "stdout");
  expect_error({"logs", "c-2", "--stdout", "--stderr"}, HasSubstr("leave out both"));
  ASSERT_EQ(mlbench({"run", "q", "1", "--", "/bin/sh", "-c", "echo said"}).code, 0);
  EXPECT_THAT(mlbench({"logs", "q-1", "--stderr"}).err, HasSubstr("run 'q-1' has no logs of stderr yet"));
}

TEST_F(Cli, CtrlCStopsACommandAndKeepsWhatItWrote) {
  ChildProcess command = start({"run", "c", "2", "--json", "--", "/bin/sh", "-c", "echo begun; sleep 300"});
  const fs::path log = home() / "runs/c-2/logs/rank-1.seg-1.out";
  ASSERT_TRUE(eventually([&] { return fs::exists(log) && read_file(log) == "begun\n"; }));
  interrupt(command);
  EXPECT_EQ(state_of("c-2"), "stopped");
  EXPECT_EQ(mlbench({"logs", "c-2", "--rank", "0"}).out, "begun\n");
}

TEST_F(Cli, ACommandStartsWhereTheUserIsWithItsVariables) {
  environment_["COLOUR"] = "red";
  const std::string folder = folder_.path();
  const Result result = mlbench({"run", "c", "1", "--work-dir", folder, "--env", "COLOUR", "--env", "SIZE=a b", "--",
                                 "/bin/sh", "-c", "echo $COLOUR $SIZE $PWD"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(mlbench({"logs", "c-1"}).out, "red a b " + folder + "\n");
  const Json spec = read_json_file(home() / "runs/c-1/spec.json");
  EXPECT_EQ(spec["environment"], Json({"COLOUR", "SIZE=a b"})) << "what is only named is not stored";
}

TEST_F(Cli, ASecretIsNamedNotGiven) {
  expect_error({"run", "c", "1", "--env", "MY_TOKEN=hunter2", "--", "true"},
               AllOf(HasSubstr("give --env MY_TOKEN "), HasSubstr("--env MY_TOKEN=@FILE")));
  environment_["MY_TOKEN"] = "hunter2";
  write_file_atomically(folder_ / "key", "hunter3\n");
  const Result result = mlbench(
      {"run", "c", "1", "--detach", "--env", "MY_TOKEN", "--env", "MY_KEY=@" + (folder_ / "key").string(), "--",
       "/bin/sh", "-c", "[ $MY_KEY = hunter3 ] && mkdir -p $MLBENCH_RUN_DIR/checkpoints/step-000000001; sleep 300"});
  ASSERT_EQ(result.code, 0) << result.err;
  ASSERT_TRUE(eventually([&] { return fs::exists(home() / "runs/c-1/checkpoints/step-000000001"); }));
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string command((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_EQ(command.find("hunter2"), std::string::npos) << command;
  }
  EXPECT_EQ(mlbench({"stop", "c-1"}).code, 0);
  const fs::path zip = folder_ / "c.zip";
  ASSERT_EQ(mlbench({"download", "c-1", "-o", zip}).code, 0);
  for (const auto& member : report::read_zip(read_file(zip))) {
    EXPECT_EQ(member.content.find("hunter2"), std::string::npos) << member.name;
  }
  for (const auto& entry : fs::recursive_directory_iterator(home())) {
    if (!entry.is_regular_file()) continue;
    EXPECT_EQ(read_file(entry.path()).find("hunter2"), std::string::npos) << entry.path();
  }
  environment_.erase("MY_TOKEN");
  expect_error({"resume", "c-1"}, AllOf(HasSubstr("--env MY_TOKEN"), HasSubstr("set MY_TOKEN here")));
}

// A job that waits in an engine's queue, without a supervisor, would start some day.
TEST_F(Cli, WhoFindsALostRunWithdrawsItsJob) {
  const fs::path slurm = folder_ / "slurm";
  fs::create_directories(slurm / "bin");
  for (const char* name : {"sbatch", "scancel", "scontrol", "sinfo", "srun"}) {
    fs::create_symlink(FAKE_SLURM, slurm / "bin" / name);
  }
  write_file_atomically(slurm / "plan", "queue 1000000");
  environment_["PATH"] = (slurm / "bin").string() + ":" + environment_variable("PATH").value();
  environment_["FAKE_SLURM"] = slurm;
  ASSERT_EQ(mlbench({"run", "q", "2", "--executor", "slurm", "--detach", "--", "true"}).code, 0);
  const fs::path run_dir = home() / "runs/q-2";
  const auto allocation = [&] { return read_json_file(run_dir / "progress.json")["allocation"]; };
  ASSERT_TRUE(eventually([&] { return fs::exists(run_dir / "progress.json") && allocation().is_object(); }));
  EXPECT_EQ(allocation()["job"], "12");
  kill(supervise::read_lease(run_dir)->holder.pid, SIGKILL);
  EXPECT_EQ(read_file(slurm / "job.12/state"), "PENDING\n");
  ASSERT_TRUE(eventually([&] { return mlbench({"status", "q-2", "--json"}).json()["state"] == "failed"; }));
  EXPECT_EQ(read_file(slurm / "job.12/state"), "CANCELLED\n");
  const Json failure = read_json_file(run_dir / "run.json")["failure"];
  EXPECT_EQ(failure["kind"], "supervisor_lost");
  EXPECT_THAT(failure["message"].get<std::string>(), HasSubstr("; its job 12 of slurm was withdrawn"));
}

// The containers of the run have ended with their ranks.
TEST_F(Cli, OfALostRunInAnImageHereThereIsNothingToWithdraw) {
  const exec::FakePodman podman(FAKE_PODMAN);
  ASSERT_EQ(mlbench({"run", "c", "1", "--image", "here", "--detach", "--", "sleep", "300"}).code, 0);
  const fs::path run_dir = home() / "runs/c-1";
  const auto allocation = [&] { return read_json_file(run_dir / "progress.json")["allocation"]; };
  ASSERT_TRUE(eventually([&] { return fs::exists(run_dir / "progress.json") && allocation().is_object(); }));
  EXPECT_EQ(allocation()["engine"], "podman");
  kill(supervise::read_lease(run_dir)->holder.pid, SIGKILL);
  ASSERT_TRUE(eventually([&] { return mlbench({"status", "c-1", "--json"}).json()["state"] == "failed"; }));
  const Json failure = read_json_file(run_dir / "run.json")["failure"];
  EXPECT_EQ(failure["kind"], "supervisor_lost");
  EXPECT_THAT(failure["message"].get<std::string>(), Not(HasSubstr("withdrawn")));
}

TEST_F(Cli, AManifestForOthersIsAllThatIsPrinted) {
  const Result job = mlbench({"run", "e", "2", "--executor", "kubernetes", "--image", "train:1", "--emit", "job",
                              "--env", "A=b", "--", "train", "{hosts}"});
  const Json list = Json::parse(job.out);
  EXPECT_EQ(list["kind"], "List");
  ASSERT_EQ(list["items"].size(), 2u);
  EXPECT_EQ(list["items"][1]["spec"]["completions"], 2);
  EXPECT_FALSE(fs::exists(home() / "runs/e-2"));
  expect_error({"run", "e", "2", "--emit", "job", "--", "true"}, HasSubstr("give --executor kubernetes"));
  environment_["SECRET"] = "x";
  expect_error({"run", "e", "2", "--executor", "kubernetes", "--image", "train:1", "--emit", "job", "--env", "SECRET",
                "--", "true"},
               HasSubstr("stands in no manifest"));
}

TEST_F(Cli, ACustomRunOnGpusGivesEachRankItsOwn) {
  environment_["CUDA_VISIBLE_DEVICES"] = "2,5";
  const std::vector<std::string> words = {"run", "g",       "2",  "--gpu",
                                          "--",  "/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES"};
  std::vector<std::string> plan = words;
  plan.insert(plan.begin() + 3, "--dry-run");
  EXPECT_THAT(mlbench(plan).out, AllOf(HasSubstr("CUDA_VISIBLE_DEVICES=2 "), HasSubstr("CUDA_VISIBLE_DEVICES=5 ")));
  const Result result = mlbench(words);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(read_file(home() / "runs/g-2/logs/rank-1.seg-1.out"), "5\n");
  const Json record = Json::parse(read_file(home() / "runs/g-2/run.json"));
  EXPECT_EQ(record["requested"]["device"], "cuda");
  EXPECT_EQ(record["placement"][1]["gpu"], 5);
  expect_error({"run", "g", "3", "--gpu", "--", "true"}, HasSubstr("start at most 2 here"));
  environment_["CUDA_VISIBLE_DEVICES"] = "-1";
  expect_error({"run", "g", "1", "--gpu", "--dry-run", "--", "true"}, HasSubstr("this host has no NVIDIA GPU"));
}

TEST_F(Cli, WhatThisHostCannotStartIsRefusedAndADryRunSaysWhy) {
  const std::string why = "--interface 'nosuch0': ranks cannot listen there";
  expect_error({"run", "i", "2", "--task", "0a", "--interface", "nosuch0"}, HasSubstr("i-2 cannot start here: " + why));
  EXPECT_FALSE(fs::exists(home() / "runs/i-2"));
  const Result plan = mlbench({"run", "i", "2", "--task", "0a", "--interface", "nosuch0", "--dry-run"});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.err, HasSubstr("note: i-2 cannot start here: " + why));
  const Json json = mlbench({"run", "i", "2", "--task", "0a", "--interface", "nosuch0", "--dry-run", "--json"}).json();
  EXPECT_THAT(json[0]["obstacle"].get<std::string>(), HasSubstr(why));
  EXPECT_TRUE(mlbench({"run", "i", "2", "--task", "0a", "--dry-run", "--json"}).json()[0]["obstacle"].is_null());
}

TEST_F(Cli, ACustomRunHasNoOptionsOfTasks) {
  for (const char* flag : {"--explain", "--profile", "--synthetic", "--fixed-batch", "--overlap"}) {
    expect_error({"run", "c", "1", flag, "--", "true"}, HasSubstr(std::string(flag) + " is an option of tasks"));
  }
  expect_error({"run", "c", "1", "--light", "--", "true"}, HasSubstr("with --task TASK"));
  expect_error({"run", "c", "1", "--", ""}, HasSubstr("has no program"));
  expect_error({"run", "c", "1", "--"}, HasSubstr("has no program"));
  expect_error({"run", "c", "1", "--image", "x", "--work-dir", "/", "--", "true"}, HasSubstr("that of an image"));
  expect_error({"run", "c", "1", "--env", "NO_SUCH_VARIABLE", "--", "true"}, HasSubstr("no such variable here"));
  expect_error({"run", "c", "1", "--work-dir", "/no/such", "--", "true"}, HasSubstr("not a folder"));
  expect_error({"run", "c", "1", "--task", "fashion-mnist", "--synthetic", "--env", "A=B"},
               HasSubstr("--env is an option of a command"));
  expect_error({"run", "c", "2", "--backend", "mpi", "--", "x", "{rank}"}, HasSubstr("OMPI_COMM_WORLD_RANK"));
  const Result dry = mlbench({"run", "c", "2", "--dry-run", "--", "train", "--rank={rank}", "a b"});
  EXPECT_THAT(dry.out, AllOf(HasSubstr("train --rank=0 'a b'"), HasSubstr("train --rank=1 'a b'")));
  EXPECT_FALSE(fs::exists(home() / "runs/c-2"));
}

TEST_F(Cli, ADetachedResumeThatGoesOnIsNoFailure) {
  environment_["FAKE_FAULT"] = "0:12:exit:3";
  ASSERT_EQ(run({"1", "--checkpoint-every", "10"}).code, 5);
  environment_["FAKE_FAULT"] = "";
  environment_["FAKE_STEPS"] = "100000";
  fs::create_directories(home() / "runs/r-1/checkpoints/step-000000010");
  const Result result = mlbench({"resume", "r-1", "--detach"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("started r-1"));
  EXPECT_EQ(mlbench({"stop", "r-1"}).code, 0);
  EXPECT_EQ(state_of("r-1"), "stopped");
}

TEST_F(Cli, ResumeGoesOnFromACheckpoint) {
  environment_["FAKE_FAULT"] = "0:12:exit:3";
  ASSERT_EQ(run({"1", "--checkpoint-every", "10"}).code, 5);
  environment_["FAKE_FAULT"] = "";
  expect_error({"resume", "r-1"}, AllOf(HasSubstr("no checkpoint to resume from"), HasSubstr("--checkpoint-every")));
  fs::create_directories(home() / "runs/r-1/checkpoints/step-000000010");
  expect_error({"resume", "r-1", "--step", "5"}, HasSubstr("no checkpoint at step 5: there are 10"));
  const Json plan = mlbench({"resume", "r-1", "--dry-run", "--json"}).json();
  EXPECT_THAT(plan[0]["commands"][0].get<std::string>(),
              AllOf(HasSubstr("--segment 2"), HasSubstr("--resume-step 10")));
  const Result result = mlbench({"resume", "r-1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("\nr-1  finished"), HasSubstr("2 segments")));
  EXPECT_THAT(result.err, HasSubstr("from step 10 (segment 2)"));
}

// ---- data, schedule, doctor -----------------------------------------------------------------------------------------

// Four idx files with `count` images, under `folder`.
void write_idx(const fs::path& file, const std::vector<uint32_t>& shape) {
  std::string text = {0, 0, 8, static_cast<char>(shape.size())};
  size_t size = 1;
  for (const uint32_t n : shape) {
    for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(n >> shift);
    size *= n;
  }
  text.append(size, '\0');
  std::ofstream(file, std::ios::binary) << text;
}

TEST_F(Cli, DataVerbs) {
  const fs::path folder = folder_.path() / "data/fashion-mnist";
  fs::create_directories(folder);
  for (const auto& [name, count] : {std::pair("train", 60000U), std::pair("t10k", 10000U)}) {
    write_idx(folder / fmt::format("{}-images-idx3-ubyte", name), {count, 28, 28});
    write_idx(folder / fmt::format("{}-labels-idx1-ubyte", name), {count});
  }
  const std::string data_dir = folder_.path() / "data";
  const Json rows = mlbench({"data", "list", "--data-dir", data_dir, "--json"}).json();
  EXPECT_THAT(rows, Contains(AllOf(testing::Truly([&](const Json& row) {
                return row["name"] == "fashion-mnist" && row["found"] == true && row["folder"] == folder.string();
              }))));
  const Result verified = mlbench({"data", "verify", "fashion-mnist", "--data-dir", data_dir});
  EXPECT_EQ(verified.code, 2) << "these are not the published files";
  EXPECT_THAT(verified.out, HasSubstr("BAD   "));
  const Result prepared = mlbench({"data", "prepare", "fashion-mnist", "--data-dir", data_dir, "--json"});
  EXPECT_EQ(prepared.code, 0) << prepared.err;
  EXPECT_EQ(prepared.json()[0]["official"], false);
  fs::remove(folder / "t10k-labels-idx1-ubyte");
  EXPECT_THAT(mlbench({"data", "list", "--data-dir", data_dir}).out,
              HasSubstr("does not fit: " + folder.string() + " (data folder): no t10k-labels-idx1-ubyte"));
  expect_error({"data", "verify", "nothing"}, HasSubstr("fashion-mnist"));
  expect_error({"data", "list", "--data-dir", "/no/such"}, HasSubstr("is not a folder"));
}

TEST_F(Cli, DataPrepareOfText) {
  const fs::path folder = folder_.path() / "data/wikitext-2";
  fs::create_directories(folder);
  for (const char* name : {"train", "valid", "test"}) {
    std::ofstream(folder / (std::string(name) + ".txt")) << " a <unk> b \n\n\xFF\n";
  }
  const std::string data_dir = folder_.path() / "data";
  const std::vector<std::string> prepare = {"data", "prepare", "wikitext2", "--data-dir", data_dir, "--json"};
  auto dry = prepare;
  dry.emplace_back("--dry-run");
  EXPECT_EQ(mlbench(dry).json()[0]["prepared"], false);
  const Result prepared = mlbench(prepare);
  ASSERT_EQ(prepared.code, 0) << prepared.err;
  EXPECT_THAT(prepared.err, HasSubstr("split 'train' of wikitext2 has 5 tokens, the official one 2088628"));
  const Json row = prepared.json()[0];
  EXPECT_EQ(row["official"], false);
  EXPECT_EQ(row["text"]["vocabulary"], 4);
  EXPECT_EQ(row["text"]["padded_to"], 33278);
  EXPECT_EQ(row["text"]["splits"]["train"]["bad_utf8"], 1);
  EXPECT_EQ(mlbench(dry).json()[0]["prepared"], true);
  EXPECT_THAT(mlbench({"data", "prepare", folder / "train.txt", "--vocabulary", "10"}).out,
              AllOf(HasSubstr("files  unofficial"), HasSubstr("  train: 3 lines, 2 kept, 1 bad_utf8, 5 tokens\n"),
                    HasSubstr("vocabulary of 4, padded to 16")));
  expect_error({"data", "prepare", "wikitext2", folder / "train.txt"}, HasSubstr("one or the other"));
  expect_error({"data", "prepare", folder / "none.txt"}, HasSubstr("is no file"));
}

// Four PNGs of 1 x 1 pixel, of two classes.
void write_images(const fs::path& folder) {
  const std::string png =
      std::string("\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\x3A\x7E\x9B\x55", 33) +
      std::string("\0\0\0\x0AIDAT\x78\x9C\x63\x60\0\0\0\2\0\1\x48\xAF\xA4\x71", 22) +
      std::string("\0\0\0\0IEND\xAE\x42\x60\x82", 12);
  for (const char* name : {"n01/a.png", "n01/b.JPEG", "n02/c.png", "n02/d.png"}) {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << png;
  }
}

TEST_F(Cli, DataShardAndIndex) {
  const fs::path images = folder_.path() / "train", shards = folder_.path() / "shards";
  write_images(images);
  const std::vector<std::string> shard = {"data",     "shard", images, "--format", "tfrecord",
                                          "--shards", "2",     "-o",   shards};
  auto dry = shard;
  dry.emplace_back("--dry-run");
  const std::string what = " 4 samples of 2 classes, 268 B, in 2 shards of format tfrecord: " + shards.string() + "\n";
  EXPECT_EQ(mlbench(dry).out, "would write" + what);
  EXPECT_FALSE(fs::exists(shards));
  EXPECT_EQ(mlbench(shard).out, "wrote" + what);
  EXPECT_TRUE(fs::exists(shards / "train-00001-of-00002"));
  expect_error(shard, HasSubstr("shards: is not empty, expected a new folder or an empty one"));

  EXPECT_EQ(mlbench({"data", "index", shards}).out,
            "format   tfrecord, 2 shards\n"
            "samples  4 of 2 classes (2 labels)\n"
            "images   268 B: smallest 67, median 67, largest 67 bytes\n"
            "kinds    4 PNG (1 named as JPEG)\n"
            "decoded  none (--check decodes all)\n"
            "bad      0\n");
  const Json index = mlbench({"data", "index", images, "--check", "--json"}).json();
  EXPECT_EQ(index["format"], "folder");
  EXPECT_EQ(index["samples"], 4);
  EXPECT_EQ(index["decoded"], true);
  EXPECT_EQ(index["kinds"]["png"], 4);
}

TEST_F(Cli, DataIndexSaysWhatIsBad) {
  const fs::path images = folder_.path() / "train";
  write_images(images);
  std::ofstream(images / "n01/c.jpg") << "GIF89a";
  const Result bad = mlbench({"data", "index", images});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.out, HasSubstr("BAD  train  n01/c.jpg: looks like GIF, expected a JPEG or PNG file\n"));
  EXPECT_THAT(bad.err, HasSubstr("1 bad, at most 0 expected: mend or remove them, or allow them by --max-bad 1"));
  EXPECT_EQ(mlbench({"data", "index", images, "--max-bad", "1"}).code, 0);
  EXPECT_EQ(mlbench({"data", "index", images, "--json"}).json()["problems"][0]["key"], "n01/c.jpg");
  expect_error({"data", "index", "/no/such"}, HasSubstr("/no/such: no such file or folder"));
  expect_error({"data", "shard", images, "--format", "zip", "--shards", "2", "-o", "x"}, HasSubstr("tfrecord"));
  expect_error({"data", "shard", images, "--format", "tar", "--shards", "9", "-o", "x"},
               HasSubstr("--shards 9: expected 1 to 5"));
  EXPECT_FALSE(fs::exists("x"));
}

TEST_F(Cli, HelpOfDataShardAndIndex) {
  const std::string shard = mlbench({"data", "shard", "--help"}).out;
  for (const char* option : {"--format", "--shards", "--output", "--list", "--classes", "--name", "--seed",
                             "--in-order", "--dry-run", "--json"}) {
    EXPECT_THAT(shard, HasSubstr(option));
  }
  const std::string index = mlbench({"data", "index", "--help"}).out;
  for (const char* option : {"--format", "--list", "--classes", "--labels", "--first-label", "--check", "--threads",
                             "--max-bad", "--json"}) {
    EXPECT_THAT(index, HasSubstr(option));
  }
  EXPECT_THAT(index, HasSubstr("Exit code: 2 when more are bad than --max-bad allows."));
}

TEST_F(Cli, SchedulePlot) {
  const Json curves = mlbench({"schedule", "plot", "--task", "fashion-mnist", "--workers", "1", "4", "--json"}).json();
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_EQ(curves[1]["steps_per_epoch"], 150);
  EXPECT_THAT(mlbench({"schedule", "plot", "--task", "fashion-mnist"}).out, StartsWith("workers  epoch"));
  expect_error({"schedule", "plot", "--task", "fashion-mnist", "-o", "x.pdf"}, HasSubstr("valid: .png, .svg"));
  environment_["PATH"] = folder_.path();
  expect_error({"schedule", "plot", "--task", "fashion-mnist", "-o", folder_.path() / "x.svg"},
               HasSubstr("apt-get install gnuplot-nox"));
}

TEST_F(Cli, SchedulePlotWritesImages) {
  if (mlbench({"doctor", "--json"}).out.find("gnuplot 5") == std::string::npos)
    GTEST_SKIP() << "missing capability: gnuplot";
  const fs::path image = folder_.path() / "it's a plot.svg";
  EXPECT_EQ(mlbench({"schedule", "plot", "--task", "fashion-mnist", "--workers", "1", "4", "-o", image}).out,
            image.string() + "\n");
  EXPECT_THAT(read_file(image), AllOf(HasSubstr("<svg"), HasSubstr("4 workers"), HasSubstr("learning rate")));
}

TEST_F(Cli, DoctorReportsEachThing) {
  const Result good = mlbench({"doctor", "--json"});
  std::map<std::string, Json> findings;
  for (const Json& finding : good.json()) findings[finding["check"]] = finding;
  for (const char* check : {"home", "disk", "worker", "frameworks", "backends", "guard", "cores", "core lock", "energy",
                            "gnuplot", "mpi", "executors", "memory", "network", "NUMA", "GPUs", "clock"}) {
    EXPECT_TRUE(findings.contains(check)) << check;
    EXPECT_TRUE(findings[check]["host"].is_null()) << check;
  }
  EXPECT_THAT(findings["executors"]["message"].get<std::string>(), StartsWith("local"));
  EXPECT_EQ(findings["worker"]["verdict"], "ok");
  EXPECT_EQ(findings["guard"]["verdict"], "ok");
  EXPECT_EQ(findings["core lock"]["verdict"], "ok");
  EXPECT_THAT(findings["backends"]["message"].get<std::string>(),
              HasSubstr("not available: nccl (built without CUDA)"));

  // Only an mpirun that starts processes is one.
  fs::create_directory(folder_.path() / "bin");
  std::ofstream(folder_.path() / "bin/mpirun") << "#!/bin/sh\necho no orted >&2; exit 3\n";
  fs::permissions(folder_.path() / "bin/mpirun", fs::perms::owner_all);
  environment_["PATH"] =
      (folder_.path() / "bin").string() + ":" + environment_variable("PATH").value_or("/usr/bin:/bin");
  EXPECT_THAT(mlbench({"doctor"}).out, HasSubstr("warn  mpi         mpirun ends with code 3: no orted\n"));

  const auto lock = supervise::take_core_lock(folder_.path() / "cores", 1s);
  environment_["MLBENCH_WORKER"] = "/no/such/worker";
  const Result bad = mlbench({"doctor"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.out, AllOf(HasSubstr("fail  worker"), HasSubstr("warn  core lock"), HasSubstr("-DMLBENCH_WORKER=ON"),
                             Not(HasSubstr("\x1b["))));
}

TEST_F(Cli, DoctorAndRunSayWhereBfloat16IsSlower) {
  const std::string slower =
      "bfloat16 is slower than float32 on this processor: convolutions of framework torch have "
      "0.60 (0.50 to 0.70) times the rate";
  std::vector<Json> findings;
  for (const Json& finding : mlbench({"doctor", "--json"}).json()) {
    if (finding["check"] == "precision" && finding["message"].get<std::string>().find(" torch ") != std::string::npos) {
      findings.push_back(finding);
    }
  }
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0]["verdict"], "warn");
  EXPECT_EQ(findings[0]["message"], slower);
  EXPECT_EQ(findings[0]["advice"], "train in float32: type --set precision=float32");
  EXPECT_EQ(findings[1]["verdict"], "ok");
  EXPECT_THAT(findings[1]["message"].get<std::string>(), HasSubstr("products of framework torch have 2.00"));

  const Result asked = run({"1", "--set", "precision=bf16", "--dry-run"});
  EXPECT_THAT(asked.err, HasSubstr("note: " + slower + "; type --set precision=float32 instead\n"));
  EXPECT_THAT(run({"1", "--dry-run"}).err, Not(HasSubstr("bfloat16")));
}

TEST_F(Cli, DoctorAsksTheHostsThatAreNamed) {
  const Result wrong = mlbench({"doctor", "-H", "localhost:2", "--json"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.out, HasSubstr("executors that take it: mpirun"));
  if (!program_exists("mpirun")) GTEST_SKIP() << "missing capability: mpirun";
  const Result good = mlbench({"doctor", "--executor", "mpirun", "-H", "localhost:2", "--json"});
  std::set<std::string> told;
  for (const Json& finding : good.json()) {
    if (finding["host"] == "localhost") told.insert(finding["check"]);
  }
  EXPECT_THAT(told, testing::UnorderedElementsAre("memory", "network", "NUMA", "GPUs", "clock")) << good.err;
  EXPECT_FALSE(fs::exists(home() / "runs/doctor-1")) << "what is asked leaves no run";
  const Result none = mlbench({"doctor", "--executor", "mpirun", "-H", "no-such-host.invalid"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.out, AllOf(HasSubstr("fail  hosts"), HasSubstr("no-such-host.invalid")));
}

// ---- result, evaluate -----------------------------------------------------------------------------------------------

TEST_F(Cli, ResultDerivesWhatTheRunRecorded) {
  ASSERT_EQ(run({"2"}).code, 0);
  const fs::path zip = folder_.path() / "r.zip";
  ASSERT_EQ(mlbench({"download", "r-2", "-o", zip}).code, 0);
  const Result text = mlbench({"result", zip});
  EXPECT_EQ(text.code, 0) << text.out << text.err;
  EXPECT_THAT(text.out,
              AllOf(StartsWith("r-2: task fashion-mnist, goal Prec@1 >= 91.5, 2 workers (archive of mlbench)\n"
                               "no result of MLBench's: the goal was not reached\n"),
                    HasSubstr("\nwhat the archive claims is what its events give\n")));
  EXPECT_EQ(mlbench({"note", "r-2", "--tag", "kept"}).code, 0);
  ASSERT_EQ(mlbench({"download", "r-2", "-o", zip}).code, 0);
  EXPECT_THAT(mlbench({"result", zip}).out, HasSubstr("\ntags         kept\n"));
  const Json json = mlbench({"result", zip, "--json"}).json();
  EXPECT_EQ(json["run_notes"]["tags"], Json({"kept"}));
  EXPECT_EQ(json["file"], zip.string());
  EXPECT_EQ(json["differences"], Json::array());
  EXPECT_EQ(json["seconds"]["train"], read_json_file(home() / "runs/r-2/run.json")["clocks"]["train_s"]);

  auto members = report::read_zip(read_file(zip));
  for (report::ZipMember& member : members) {
    if (member.name != "run.json") continue;
    Json record = Json::parse(member.content);
    record["clocks"]["train_s"] = 0.25;
    member.content = record.dump();
  }
  const fs::path forged = folder_.path() / "forged.zip";
  std::ofstream(forged, std::ios::binary) << report::make_zip(members, 0);
  const Result caught = mlbench({"result", forged});
  EXPECT_EQ(caught.code, 2);
  EXPECT_THAT(caught.out, HasSubstr("  run.json clocks.train_s\n    claimed  0.25\n    derived  "));
  EXPECT_EQ(mlbench({"result", forged, "--json"}).json()["differences"].size(), 1U);
}

TEST_F(Cli, ResultRefusesWhatIsNoArchive) {
  expect_error({"result", "/no/such.zip"}, HasSubstr("/no/such.zip is no file"));
  expect_error({"result", folder_.path()}, HasSubstr("is no file"));
  const fs::path file = folder_.path() / "x.zip";
  std::ofstream(file) << "text";
  expect_error({"result", file}, AllOf(HasSubstr(file.string()), HasSubstr("not a readable zip archive")));
  std::ofstream(file, std::ios::binary) << report::make_zip({{"notes.txt", "hello"}}, 0);
  expect_error({"result", file}, HasSubstr("no 'result_CumulativeTrainTimeEpoch @ 0.json'"));
}

TEST_F(Cli, EvaluatePredictions) {
  // The made test set has label i mod 10 at place i; the last `wrong` predictions miss.
  const fs::path file = folder_.path() / "p.jsonl";
  const auto predict = [&](int wrong, const char* form) {
    std::ofstream out(file);
    for (int i = 9999; i >= 0; --i) {
      out << fmt::format(fmt::runtime(form), i, (i % 10 + (i >= 10000 - wrong ? 1 : 0)) % 10) << "\n";
    }
  };
  const std::vector<std::string> command = {"evaluate", file, "--task", "fashion-mnist", "--synthetic"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), command.begin(), command.end());
    return more;
  };
  predict(850, R"({{"index": {}, "label": {}}})");
  const Result text = mlbench(command);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out,
            "predictions of fashion-mnist: 10,000 test samples of fashion-mnist, synthetic\n"
            "  Prec@1  91.50\n"
            "  loss    -\n"
            "  goal    Prec@1 >= 91.5 reached, light goal >= 85 reached\n"
            "note: loss is unknown: predictions do not tell the loss of a model\n");
  const Json json = mlbench(with({"--json"})).json();
  EXPECT_EQ(json["kind"], "predictions");
  EXPECT_EQ(json["metrics"]["Prec@1"], 91.5);
  EXPECT_TRUE(json["metrics"]["loss"].is_null());
  EXPECT_EQ(json["goal"]["reached"], true);
  EXPECT_EQ(json["data"]["synthetic"], true);
  EXPECT_EQ(json["task_hash"].get<std::string>().size(), 64U);

  predict(851, R"({{"index": {}, "label": {}}})");
  EXPECT_THAT(mlbench(command).out, HasSubstr("  Prec@1  91.49\n"));
  EXPECT_EQ(mlbench(with({"--json"})).json()["goal"]["reached"], false);
  EXPECT_EQ(mlbench(with({"--json"})).json()["goal"]["light_reached"], true);

  predict(0, R"({{"index": {}, "label": 1{}}})");
  expect_error(command, AllOf(HasSubstr("p.jsonl:1: label 19 is none of the 10 classes: 0 to 9")));
  std::ofstream(file) << "{\"index\": 0, \"label\": 0}\n";
  expect_error(command, HasSubstr("9999 of the split's 10000 samples have no prediction: 1, 2, 3, 4, 5, ..."));
  expect_error({"evaluate", file}, AllOf(HasSubstr("no task: give --task TASK"), HasSubstr("fashion-mnist")));
  expect_error(
      {"evaluate", file, "--task", "2a", "--data", "epsilon-sample", "--synthetic", "--set",
       "model.name=linear_regression", "--set", "loss=mean_squared_error", "--set", R"(evaluation.metrics=["loss"])",
       "--set", "goal.metric=loss", "--set", "goal.higher_is_better=false", "--set", "goal.light_target=89"},
      HasSubstr("'loss' is \"mean_squared_error\"; expected a checkpoint or weights"));
  expect_error({"evaluate", folder_.path() / "none", "--task", "fashion-mnist"}, HasSubstr("there is no "));
}

TEST_F(Cli, EvaluateTranslations) {
  const fs::path sentences = fs::path(environment_variable("MLBENCH_TEST_SOURCE_DIR").value()) / "tests/sacrebleu";
  const std::string system = sentences / "system.txt", other = sentences / "other.txt";
  const std::string reference = sentences / "reference.txt", second = sentences / "second_reference.txt";
  const auto version = mlbench({"--version", "--json"}).json()["version"].get<std::string>();

  const Result text = mlbench({"evaluate", "--translations", system, "--references", reference});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out, "translations: 40 sentences, 1 reference each\n" + system +
                          "\n"
                          "  BLEU   75.89  91.1/80.9/73.9/68.8 (BP = 0.970 ratio = 0.970 hyp_len = 426 ref_len = 439)\n"
                          "  chrF2  85.38\n"
                          "signatures\n"
                          "  BLEU   nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:mlbench-" +
                          version +
                          "\n"
                          "  chrF2  nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:mlbench-" +
                          version + "\n");

  const std::vector<std::string> both = {
      "evaluate",    "--translations", other,       "--translations", system,       "--references",
      reference,     second,           "--metrics", "bleu",           "--tokenize", "intl",
      "--lowercase", "--smooth",       "floor=0.2", "--resamples",    "200"};
  const Result compared = mlbench(both);
  EXPECT_EQ(compared.code, 0) << compared.err;
  EXPECT_THAT(
      compared.out,
      AllOf(StartsWith("translations: 40 sentences, 2 references each\n" + other + "\n  BLEU  "),
            HasSubstr("\n  less " + other + ": paired bootstrap, 200 resamples, seed 12345, 95 % interval\n  BLEU  +"),
            HasSubstr("]  p = 0."), HasSubstr("|case:lc|eff:no|tok:intl|smooth:floor[0.20]|version:mlbench-")));
  std::vector<std::string> as_json = both;
  as_json.emplace_back("--json");
  const Json json = mlbench(as_json).json();
  EXPECT_EQ(json["kind"], "translations");
  EXPECT_EQ(json["sentences"], 40);
  EXPECT_EQ(json["references"], Json({reference, second}));
  EXPECT_EQ(json["bootstrap"]["baseline"], other);
  EXPECT_EQ(json["bootstrap"]["resamples"], 200);
  ASSERT_EQ(json["systems"].size(), 2U);
  EXPECT_EQ(json["systems"][1]["path"], system);
  const Json& score = json["systems"][1]["scores"][0];
  EXPECT_EQ(score["name"], "BLEU");
  EXPECT_EQ(score["correct"].size(), 4U);
  const Json& difference = score["difference"];
  EXPECT_LT(difference["low"].get<double>(), difference["value"].get<double>());
  EXPECT_LT(difference["value"].get<double>(), difference["high"].get<double>());
  EXPECT_FALSE(json["systems"][0]["scores"][0].contains("difference"));
}

TEST_F(Cli, EvaluateTranslationsExplainsWhatIsWrong) {
  const std::string two = folder_.path() / "two", three = folder_.path() / "three";
  std::ofstream(two) << "a\nb\n";
  std::ofstream(three) << "a\nb\nc\n";
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"evaluate", "--translations", two});
    return more;
  };
  expect_error(with({"--references", three}), HasSubstr("two has 2 lines, "));
  expect_error(with({}), HasSubstr("give --references FILE"));
  expect_error(with({"--references", two, "--task", "fashion-mnist"}),
               HasSubstr("--task is for models and predictions"));
  expect_error(
      with({"--references", two, "--metrics", "blue"}),
      AllOf(HasSubstr("unknown metric 'blue'"), HasSubstr("did you mean 'bleu'?"), HasSubstr("bleu, chrf, chrf++")));
  expect_error(with({"--references", two, "--tokenize", "13b"}), HasSubstr("unknown tokenizer '13b'"));
  expect_error(with({"--references", two, "--smooth", "add"}), HasSubstr("unknown smoothing 'add'"));
  expect_error(with({"--references", two, "--resamples", "10"}), HasSubstr("from 100 to 1000000"));
  expect_error({"evaluate", "--references", two}, HasSubstr("--references is for translations: give --translations"));
  expect_error({"evaluate", two, "--task", "fashion-mnist", "--tokenize", "none"},
               HasSubstr("--tokenize is for translations"));
  expect_error({"evaluate"}, HasSubstr("there is nothing to evaluate"));
  std::ofstream(three) << "a\n\xE4\n";
  expect_error({"evaluate", "--translations", three, "--references", two},
               HasSubstr("three:2: byte 1 of the line, 0xe4"));
  EXPECT_EQ(mlbench({"evaluate", "--translations", folder_.path() / "none", "--references", two}).code, 4);
}

TEST_F(Cli, EvaluateNeedsACheckpoint) {
  ASSERT_EQ(run({"1"}).code, 0);
  fs::create_directories(home() / "runs/r-1/checkpoints/step-000000010");
  expect_error({"evaluate", home() / "runs/r-1", "--task", "fashion-mnist"},
               AllOf(HasSubstr("is no checkpoint"), HasSubstr("runs/r-1/checkpoints/step-000000010")));
  std::ofstream(folder_.path() / "m.safetensors") << "x";
  expect_error({"evaluate", folder_.path() / "m.safetensors", "--task", "fashion-mnist", "--average", "2"},
               HasSubstr("--average 2 is for a run or one of its checkpoints"));
  expect_error({"evaluate", home() / "runs/r-1", "--average", "0"}, HasSubstr("--average"));
  environment_["MLBENCH_WORKER"] = "/no/such/worker";
  expect_error({"evaluate", folder_.path() / "m.safetensors", "--task", "fashion-mnist", "--synthetic"},
               HasSubstr("there is no worker program at /no/such/worker"));
}

// ---- on a terminal --------------------------------------------------------------------------------------------------

// Runs mlbench on a pseudo-terminal, typing each answer after its question.
Result on_terminal(const std::map<std::string, std::string>& environment, std::vector<std::string> arguments,
                   const std::vector<std::pair<std::string, std::string>>& answers) {
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  Result result;
  size_t answered = 0, searched = 0;
  for (char buffer[4096];;) {
    const ssize_t n = read(terminal, buffer, sizeof buffer);
    if (n <= 0) break;
    result.out.append(buffer, static_cast<size_t>(n));
    if (answered < answers.size()) {
      const size_t found = result.out.find(answers[answered].first, searched);
      if (found == std::string::npos) continue;
      searched = found + answers[answered].first.size();
      const std::string line = answers[answered++].second + "\n";
      EXPECT_EQ(write(terminal, line.data(), line.size()), std::ssize(line));
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  close(terminal);
  result.code = WEXITSTATUS(status);
  return result;
}

TEST_F(Cli, OnATerminalItAsksAndRemembers) {
  const std::vector<std::string> command = {program(), "run", "t", "1", "--synthetic"};
  const Result first = on_terminal(environment_, command, {{"Benchmark [", "fashion-mnist"}, {"Backend [", "0"}});
  EXPECT_EQ(first.code, 0) << first.out;
  EXPECT_THAT(first.out,
              AllOf(HasSubstr("Benchmark:\r\n  0  "), HasSubstr("  fashion-mnist  CNN on"),
                    HasSubstr("Backend:\r\n  0  gloo"), HasSubstr("\r\x1b[Kt-1  "), HasSubstr("t-1  finished")));
  const Result second = on_terminal(environment_, {program(), "run", "u", "1", "--synthetic"},
                                    {{"Benchmark [fashion-mnist]:", ""}, {"Backend [gloo]:", ""}});
  EXPECT_EQ(second.code, 0) << second.out;
}

// The view follows the width of the terminal: columns go and come back, the names of runs stay.
TEST_F(Cli, WatchIsAsWideAsTheTerminalAlsoWhenThatChanges) {
  ASSERT_EQ(run({"1"}).code, 0);
  winsize size{.ws_row = 24, .ws_col = 44, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    for (const auto& [name, value] : environment_) setenv(name.c_str(), value.c_str(), 1);
    execl(program().c_str(), "mlbench", "watch", nullptr);
    _exit(127);
  }
  fcntl(terminal, F_SETFL, O_NONBLOCK);
  std::string shown;
  const auto comes = [&](const std::string& text) {
    return eventually([&] {
      char buffer[4096];
      for (ssize_t n = 0; (n = read(terminal, buffer, sizeof buffer)) > 0;)
        shown.append(buffer, static_cast<size_t>(n));
      return shown.find(text) != std::string::npos;
    });
  };
  EXPECT_TRUE(comes("  left out at a width of 44: ")) << shown;
  EXPECT_THAT(shown, AllOf(HasSubstr("r-1  finished"), Not(HasSubstr("throughput"))));
  shown.clear();
  size.ws_col = 160;
  ioctl(terminal, TIOCSWINSZ, &size);
  EXPECT_TRUE(comes("throughput")) << shown;
  shown.clear();
  size.ws_col = 30;
  ioctl(terminal, TIOCSWINSZ, &size);
  EXPECT_TRUE(comes("\x1b[J")) << shown;
  shown.clear();
  EXPECT_TRUE(comes("\x1b[J"));
  std::istringstream lines(shown);
  size_t checked = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.find("\x1b[K");
    if (end == std::string::npos) continue;  // the sequence that clears what is below
    EXPECT_LE(end, 30 + 3U) << line;
    ++checked;
  }
  EXPECT_GT(checked, 1U) << shown;
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  close(terminal);
}

TEST_F(Cli, OnATerminalItAsksForACommandToo) {
  const std::string typed = "sh -c 'echo rank $RANK over {backend}'";
  const Result first = on_terminal(environment_, {program(), "run", "c", "2"},
                                   {{"Benchmark [", "custom"},
                                    {"Image (- for none) [-]: ", ""},
                                    {"Command: ", "sh -c 'open"},
                                    {"Command: ", typed},
                                    {"Backend [", "custom"},
                                    {"Name of the back end: ", "a b"},
                                    {"Name of the back end: ", "own-net"},
                                    {"Run on all nodes [yes]: ", ""}});
  EXPECT_EQ(first.code, 0) << first.out;
  EXPECT_EQ(mlbench({"logs", "c-2", "--rank", "1"}).out, "rank 1 over own-net\n");
  EXPECT_EQ(Json::parse(read_file(home() / "runs/c-2/run.json"))["backend"], "own-net");

  const auto again = [&](const char* workers, const char* all_nodes) {
    return on_terminal(environment_, {program(), "run", "d", workers},
                       {{"Benchmark [custom]: ", ""},
                        {"Image (- for none) [-]: ", ""},
                        {"Command [" + typed + "]: ", ""},
                        {"Backend [custom]: ", ""},
                        {"Name of the back end [own-net]: ", ""},
                        {"Run on all nodes [yes]: ", all_nodes}});
  };
  const Result refused = again("2", "no");
  EXPECT_EQ(refused.code, 2) << refused.out;
  EXPECT_THAT(refused.out, HasSubstr("a command is started for each worker"));
  const Result alone = again("1", "no");
  EXPECT_EQ(alone.code, 0) << alone.out;
  EXPECT_EQ(mlbench({"logs", "d-1"}).out, "rank 0 over own-net\n");
  const exec::FakePodman podman(FAKE_PODMAN);
  const Result imaged = on_terminal(
      environment_, {program(), "run", "i", "1", "--dry-run"},
      {{"Benchmark [", ""}, {"Image (- for none) [", "lab/train:1"}, {"Command [", ""}, {"Backend [", "gloo"}});
  EXPECT_EQ(imaged.code, 0) << imaged.out;
  EXPECT_THAT(imaged.out, AllOf(HasSubstr("lab/train:1 direct sh -c "), HasSubstr("gloo")));
  EXPECT_EQ(fs::status(home() / "last-answers.json").permissions() & fs::perms(077), fs::perms::none);
}

TEST_F(Cli, TablesAreAsWideAsTheTerminalUnlessAskedOtherwise) {
  ASSERT_EQ(run({"1"}).code, 0);
  EXPECT_THAT(on_terminal(environment_, {program(), "status"}, {}).out, HasSubstr("left out at a width of 80: "));
  EXPECT_THAT(on_terminal(environment_, {program(), "status", "--wide"}, {}).out,
              AllOf(HasSubstr("created"), Not(HasSubstr("left out"))));
  EXPECT_THAT(mlbench({"status"}).out, AllOf(HasSubstr("created"), Not(HasSubstr("left out"))));
}

TEST_F(Cli, LogsMoveNoTerminal) {
  const std::string hostile = "\x1b]0;title\x07 \x1b[2J\ta tab";
  ASSERT_EQ(mlbench({"run", "c", "1", "--", "printf", hostile + "\\n"}).code, 0);
  EXPECT_EQ(mlbench({"logs", "c-1"}).out, hostile + "\n");
  EXPECT_EQ(on_terminal(environment_, {program(), "logs", "c-1"}, {}).out, "\\x1b]0;title\\x07 \\x1b[2J\ta tab\r\n");
}

TEST_F(Cli, NoColorMeansNone) {
  const auto doctor = [&] { return on_terminal(environment_, {program(), "doctor"}, {}).out; };
  EXPECT_THAT(doctor(), HasSubstr("\x1b[32mok"));
  environment_["NO_COLOR"] = "1";
  EXPECT_THAT(doctor(), Not(HasSubstr("\x1b[")));
}

TEST_F(Cli, DecodingIsMeasured) {
  // A grey PNG of one pixel, and a file that is none.
  constexpr std::string_view kPixel(
      "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x8\0\0\0\0\x3a\x7e\x9b\x55\0\0\0\nIDAT\x78\x9c\x63\x68\0\0\0\x82\0"
      "\x81\x77\xcd\x72\xb6\0\0\0\0IEND\xae\x42\x60\x82",
      67);
  const fs::path images = folder_.path() / "images";
  fs::create_directory(images);
  std::ofstream(images / "a.png", std::ios::binary) << kPixel;
  std::ofstream(images / "b.JPEG") << "no image";
  const std::vector<std::string> command = {"bench", "decode", images, "--seconds", "20ms", "--rounds", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), command.begin(), command.end());
    return more;
  };
  const Result text = mlbench(with({"--threads", "2"}));
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("1 image of 2 (0.0 MB): decoding alone\n"), HasSubstr(", with 2 threads on "),
                              HasSubstr("per second of processor ")));
  EXPECT_THAT(text.err, AllOf(HasSubstr("left out, as 1 image did not decode: b.JPEG"), HasSubstr("JPEG")));
  for (const char* crop : {"train", "evaluation"}) {
    const Json json = mlbench(with({"--crop", crop, "--json"})).json();
    EXPECT_EQ(json["crop"], crop);
    EXPECT_EQ(json["images"], 1);
    EXPECT_EQ(json["images_found"], 2);
    EXPECT_EQ(json["refused"].size(), 1U);
    EXPECT_EQ(json["threads"], 1);
    EXPECT_EQ(json["samples_per_s"].size(), 2U);
    EXPECT_GT(json["median_samples_per_s"], 0);
    EXPECT_EQ(json["median_samples_per_s_and_thread"], json["median_samples_per_s"]);
    EXPECT_GT(json["median_samples_per_cpu_s"], 0);
  }
  EXPECT_EQ(mlbench(with({"--crop", "train", "--difference", "--json"})).json()["largest"], 0) << "only JPEGs shrink";

  expect_error(with({"--crop", "test"}), HasSubstr("unknown --crop 'test'"));
  expect_error(with({"--scaled"}), HasSubstr("--scaled is of crops"));
  expect_error(with({"--threads", "0"}), HasSubstr("--threads '0' is not a whole number from 1 to 1024"));
  expect_error({"bench", "decode", folder_.path() / "none"}, HasSubstr("none: no such file or folder"));
  fs::remove(images / "a.png");
  expect_error(command, HasSubstr("images: no image decodes: b.JPEG"));
}

// ---- with the real worker -------------------------------------------------------------------------------------------

TEST_F(Cli, AnOperationThatIsNoneIsRefused) {
  expect_error({"bench", "collectives", "all_reduse", "-k", "2"}, HasSubstr("did you mean 'all_reduce'?"));
}

TEST_F(CliWithWorker, CollectivesAreMeasuredVerifiedAndCompared) {
  const std::string file = folder_.path() / "result.json";
  const Result table = mlbench({"bench", "collectives", "all_reduce", "barrier", "-k", "2", "-b", "8", "-e", "4K", "-f",
                                "8", "-n", "10", "--name", "first", "-J", file});
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("minBytes 8 maxBytes 4096 step: 8(factor)"), HasSubstr("float     sum"),
                               HasSubstr("# Out of bounds values : 0 OK")));
  const Json written = read_json_file(file);
  ASSERT_EQ(written["results"].size(), 5U) << "8, 64, 512 and 4096 bytes, and the barrier";
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(written["results"][i]["out_of_place"]["nwrong"], 0);
    EXPECT_EQ(written["results"][i]["in_place"]["nwrong"], 0);
    EXPECT_TRUE(written["results"][i]["in_place"]["iterations"].contains("p95")) << "asked for or not";
  }

  // The run that keeps the result is named and listed, has a kind of its own, and has no goal that it could miss.
  const Json record = read_json_file(home() / "runs/first-2/run.json");
  EXPECT_EQ(record["state"], "finished");
  EXPECT_EQ(record["division"], "own");
  EXPECT_EQ(record["goal"], nullptr);
  EXPECT_EQ(record["stop_reason"], "done");
  EXPECT_EQ(record["collectives"]["results"].size(), 5U);
  EXPECT_THAT(mlbench({"status"}).out, HasSubstr("first-2"));

  const Result again = mlbench({"bench", "collectives", "all_reduce", "-k", "2", "-b", "8", "-e", "4K", "-f", "8", "-n",
                                "10", "--name", "first", "--compare", file, "--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json()[0]["comparison"]["rows"].size(), 8U) << "four sizes in two forms";
  EXPECT_TRUE(fs::exists(home() / "runs/first-2.2"));
}

// The document and the table say where the ranks were and what they were told, as the record does.
TEST_F(CliWithWorker, AResultSaysWhereAndHowItWasMeasured) {
  const Json backends = mlbench({"list", "backends", "--json"}).json();
  const bool mpi = program_exists("mpirun") && std::ranges::any_of(backends, [](const Json& row) {
                     return row.value("name", "") == "mpi" && row.value("available", false);
                   });
  environment_["OMPI_MCA_coll_tuned_priority"] = "40";
  environment_["NOT_OF_MPI"] = "x";
  const std::vector<std::string> words = {"bench", "collectives", "barrier",           "-k", "2", "-n",
                                          "3",     "--backend",   mpi ? "mpi" : "gloo"};
  std::vector<std::string> with_json = words;
  with_json.emplace_back("--json");
  const Result result = mlbench(with_json);
  ASSERT_EQ(result.code, 0) << result.err;
  const Json document = result.json()[0];
  EXPECT_EQ(document["args"].size(), with_json.size() + 1);
  EXPECT_EQ(document["args"].back(), "--json");
  ASSERT_EQ(document["devices"].size(), 2U);
  for (const Json& device : document["devices"]) {
    EXPECT_EQ(device["hostname"], host_name());
    EXPECT_EQ(device["device_info"], "cpu");
  }
  EXPECT_EQ(document["config"]["ngpus"], 0);
  EXPECT_EQ(document["nccl_version"], nullptr);
  const auto variables = document["env"].get<std::vector<std::string>>();
  EXPECT_THAT(variables, Not(Contains(HasSubstr("NOT_OF_MPI"))));
  if (mpi) {
    EXPECT_THAT(variables, Contains("OMPI_MCA_coll_tuned_priority=40"));
  } else {
    EXPECT_THAT(variables, testing::IsEmpty());
  }

  const Result table = mlbench(words);
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out,
              HasSubstr(fmt::format("# Using devices\n#  Rank  0 Group  0 on {:>10} device cpu\n", host_name())));
}

// ---- of benchmarks of collectives, with fake ranks ------------------------------------------------------------------

TEST_F(Cli, WrongResultsEndWithAnExitCodeOfTheirOwn) {
  environment_["FAKE_STEPS"] = "3";
  const auto measure = [&](const std::string& name) {
    return mlbench({"bench", "collectives", "all_reduce", "-k", "2", "--name", name});
  };
  const Result right = measure("right");
  EXPECT_EQ(right.code, 0) << right.err;
  EXPECT_THAT(right.out, HasSubstr("# Out of bounds values : 0 OK"));

  environment_["FAKE_FAULT"] = "0:1:wrong:7";
  const auto failed = static_cast<int>(ExitCode::kRunFailed);
  const Result wrong = measure("wrong");
  EXPECT_EQ(wrong.code, failed) << wrong.err;
  EXPECT_THAT(wrong.out, AllOf(HasSubstr("# Out of bounds values : 1 FAILED"), HasSubstr("wrong results")));
  EXPECT_THAT(wrong.err, HasSubstr("wrong-2  finished, 3 rows, 1 GB/s, 1 wrong"));
  EXPECT_EQ(mlbench({"run", "task", "2", "--task", "0a"}).code, failed);
  EXPECT_EQ(mlbench({"watch", "task-2"}).code, failed);
  environment_.erase("FAKE_FAULT");
  EXPECT_EQ(mlbench({"run", "well", "2", "--task", "0a"}).code, 0);
}

TEST_F(Cli, ADryRunOfABenchmarkChecksAllAndWritesNothing) {
  const fs::path file = folder_.path() / "result.json";
  const std::vector<std::string> words = {"bench", "collectives", "all_reduce", "-k",          "2,4",
                                          "-e",    "64",          "-J",         file.string(), "--dry-run"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  const Result text = mlbench(words);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(StartsWith("collectives-2: collectives, 2 workers x 1 thread, gloo, own"),
                              HasSubstr("\ncollectives-4: collectives, 4 workers"), HasSubstr("\n  rank 3    ")));
  const Json plan = mlbench(with({"--json"})).json();
  ASSERT_EQ(plan.size(), 2U);
  EXPECT_EQ(plan[1]["name"], "collectives-4");
  EXPECT_EQ(plan[1]["commands"].size(), 4U);
  EXPECT_EQ(plan[1]["spec"]["task"]["canonical"]["collectives"]["sizes"]["end_bytes"], 64);
  EXPECT_FALSE(fs::exists(file)) << "-J";
  EXPECT_FALSE(fs::exists(home() / "runs/collectives-2"));

  const Result missing = mlbench(with({"--compare", (folder_.path() / "none.json").string()}));
  EXPECT_NE(missing.code, 0) << "what is to be compared with is looked at";
  EXPECT_THAT(missing.err, HasSubstr("none.json"));
  write_json_file(file, Json::object());
  expect_error(with({"--compare", file}), HasSubstr("it is no result of 'mlbench bench collectives'"));
  expect_error(with({"--csv", "--json"}), HasSubstr("--json and --csv are both what standard output is to be"));
}

// -J writes a list for several numbers of ranks, and --compare takes the one with as many ranks.
TEST_F(Cli, ResultsOfSeveralNumbersOfRanksAreCompared) {
  environment_["FAKE_STEPS"] = "3";
  const std::string file = folder_.path() / "result.json";
  const Result first = mlbench({"bench", "collectives", "all_reduce", "-k", "2,3", "-J", file});
  ASSERT_EQ(first.code, 0) << first.err;
  ASSERT_EQ(read_json_file(file).size(), 2U);
  const Json again = mlbench({"bench", "collectives", "all_reduce", "-k", "3,2,1", "--compare", file, "--json"}).json();
  ASSERT_EQ(again.size(), 3U);
  EXPECT_EQ(again[0]["comparison"]["other"], "collectives-3");
  EXPECT_EQ(again[0]["comparison"]["rows"].size(), 3U);
  EXPECT_EQ(again[1]["comparison"]["other"], "collectives-2");
  EXPECT_EQ(again[2]["comparison"]["not_comparable"], "not comparable: ranks (1, 2) differ");

  // Starts are runs of one benchmark, in one file or in several.
  const Json repeated = mlbench({"bench", "collectives", "all_reduce", "-k", "2", "--repeat", "2", "--compare", file,
                                 "--compare", home() / "runs/collectives-2.2/run.json", "--json"})
                            .json();
  ASSERT_EQ(repeated.size(), 2U);
  EXPECT_EQ(repeated[0]["comparison"]["starts"], 2);
  EXPECT_EQ(repeated[0]["comparison"]["other_starts"], 2);
  EXPECT_NE(repeated[0]["comparison"]["rows"][0]["verdict"], "needs starts");
  EXPECT_FALSE(repeated[1].contains("comparison")) << "of both together";

  const std::string record = home() / "runs/collectives-3/run.json";
  const Result text = mlbench({"bench", "collectives", "all_reduce", "-k", "3", "--compare", record});
  EXPECT_THAT(text.out, HasSubstr("collectives-3.3 against collectives-3: ratio of the medians")) << text.err;
}

TEST_F(Cli, BuffersOnGpusNeedABackEndThatTakesThem) {
  const std::vector<std::string> words = {"bench", "collectives", "all_reduce", "-k", "2", "--gpu"};
  expect_error(words,
               HasSubstr("--gpu: backend 'gloo' takes buffers of the host alone; with buffers on GPUs: none here"));
  EXPECT_THAT(mlbench({"bench", "collectives", "--help"}).out, HasSubstr("--gpu"));
}

TEST_F(Cli, PercentilesAreATableOfTheirOwn) {
  environment_["FAKE_STEPS"] = "2";
  EXPECT_THAT(mlbench({"bench", "collectives", "all_reduce", "-k", "2", "--percentiles"}).out, HasSubstr("p95"));
}

// The lines of data in a table.
size_t rows_in(const std::string& text) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find("     float     sum ", at)) != std::string::npos; ++at) ++count;
  return count;
}

// However a benchmark ends, what was measured by then is on the screen, in the record, and in the file.
TEST_F(CliWithWorker, RowsComeAsTheyAreMeasuredAndNoneIsLost) {
  for (const std::string name : {"stopped", "killed"}) {
    SCOPED_TRACE(name);
    const std::string run = name + "-2";
    const fs::path output = folder_.path() / (name + ".txt"), file = folder_.path() / (name + ".json");
    ProcessOptions options;
    options.arguments = {program(), "bench",  "collectives", "all_reduce",          "-k", "2",  "-n",
                         "1000000", "--name", name,          "--max-time-per-size", "1s", "-J", file};
    options.environment = environment_;
    options.output = output;
    ChildProcess command = ChildProcess::start(options);
    ASSERT_TRUE(eventually([&] { return fs::exists(output) && rows_in(read_file(output)) >= 2; }));
    EXPECT_EQ(state_of(run), "running");
    EXPECT_GE(rows_in(mlbench({"status", run}).out), 2U);
    if (name == "killed") {
      const auto lease = supervise::read_lease(home() / "runs" / run);
      ASSERT_TRUE(lease && lease->ranks.size() == 2);
      kill(lease->ranks[1].pid, SIGKILL);
    } else {
      kill(command.pid(), SIGINT);
    }
    const auto end = command.wait(kPatience);
    ASSERT_TRUE(end);
    EXPECT_EQ(end->code, name == "killed" ? static_cast<int>(ExitCode::kRunFailed) : 130) << read_file(output);
    const Json record = read_json_file(home() / "runs" / run / "run.json");
    EXPECT_EQ(record["state"], name == "killed" ? "failed" : "stopped");
    const size_t rows = record["collectives"]["results"].size();
    EXPECT_GE(rows, 2U);
    EXPECT_EQ(rows_in(read_file(output)), rows) << read_file(output);
    EXPECT_EQ(rows_in(mlbench({"watch", run}).out), rows);
    const Json written = read_json_file(file);
    EXPECT_EQ(written["results"].size(), rows);
    EXPECT_EQ(written["errors"].size(), 1U) << written["errors"];
    EXPECT_THAT(mlbench({"status"}).out, HasSubstr(fmt::format("{} rows, ", rows)));
  }
}

TEST_F(CliWithWorker, RowsAsCommaSeparatedValues) {
  const Result csv =
      mlbench({"bench", "collectives", "broadcast", "-k", "2", "-e", "16", "-n", "5", "--csv", "--form", "in_place"});
  ASSERT_EQ(csv.code, 0) << csv.err;
  EXPECT_THAT(csv.out,
              AllOf(StartsWith("operation,cycle,size,"), HasSubstr("\nbroadcast,1,8,2,float,none,0,cpu,in_place"),
                    HasSubstr("\nbroadcast,1,16,4,float,none,0,cpu,in_place")));
  EXPECT_EQ(std::ranges::count(csv.out, '\n'), 3);
}

TEST_F(Cli, Task0aIsARunLikeOthers) {
  const Json plan = mlbench({"run", "r", "2", "3", "--task", "0a", "--dry-run", "--json"}).json();
  ASSERT_EQ(plan.size(), 2U);
  EXPECT_EQ(plan[0]["spec"]["division"], "closed");
  EXPECT_EQ(plan[0]["spec"]["task"]["hash"], "b420481a8f41fc59ad2669c4abce0f5682919fa1f54a661c54e0a9c12833a06f");
  EXPECT_EQ(plan[1]["spec"]["division"], "open") << "3 is no official number of workers";
  const Json& measured = plan[0]["spec"]["task"]["canonical"]["collectives"];
  EXPECT_EQ(measured["counts"].size(), 80U);
  EXPECT_EQ(measured["counts"].back(), 100'000'000);
  EXPECT_EQ(measured["iterations"], 100);
}

TEST_F(CliWithWorker, TheRealWorkerTrainsAndIsReported) {
  const Result result =
      run({"1", "2", "--data", "made-images", "--threads-per-worker", "1", "--max-steps", "4", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err,
              testing::ContainsRegex("\nr-2  finished: goal not reached: Prec@1 [0-9.]+ was measured because "
                                     "--max-steps ended the run\n"));
  const Json records = result.json();
  ASSERT_EQ(records.size(), 2U);
  for (const Json& record : records) {
    EXPECT_EQ(record["evaluations"].size(), 1U);
    EXPECT_EQ(record["weights_sha256"].get<std::string>().size(), 64U);
    EXPECT_EQ(record["parameters"], 3274634);
    EXPECT_EQ(record["data"]["synthetic"], true);
  }
  EXPECT_GT(records[1]["steps_s"]["agg"], 0);
  EXPECT_EQ(mlbench({"download", "r-2", "-o", folder_.path() / "r.zip"}).code, 0);
  std::vector<std::string> members;
  for (const auto& member : report::read_zip(read_file(folder_.path() / "r.zip"))) members.push_back(member.name);
  EXPECT_THAT(members, AllOf(Contains("result_val_global_Prec@1 @ 0.json"), Contains("result_val_global_loss @ 0.json"),
                             Contains("result_train_loss @ 1.json")));
}

TEST_F(CliWithWorker, EvaluatingACheckpointGivesWhatItsRunRecorded) {
  const Result trained = run(
      {"1", "4", "--data", "made-images", "--threads-per-worker", "1", "--max-steps", "2", "--seed", "5", "--json"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  for (const Json& record : trained.json()) {
    const std::string name = record["name"];
    const fs::path checkpoint = home() / "runs" / name / "checkpoints/step-000000002";
    const Result result = mlbench({"evaluate", checkpoint, "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    const Json json = result.json();
    EXPECT_EQ(json["kind"], "checkpoint");
    EXPECT_EQ(json["metrics"], record["evaluations"].back()["metrics"]) << name;
    EXPECT_EQ(json["weights_sha256"], record["weights_sha256"]);
    EXPECT_EQ(json["data"], record["data"]);
    EXPECT_EQ(json["step"], 2);
    EXPECT_EQ(json["notes"], Json::array());
  }
  // The checkpoint is evaluated away from its run, by the task alone.
  const fs::path moved = folder_.path() / "moved";
  fs::copy(home() / "runs/r-4/checkpoints/step-000000002", moved, fs::copy_options::recursive);
  const auto evaluate = [&](const fs::path& what, std::vector<std::string> more) {
    more.insert(more.begin(), {"evaluate", what, "--task", "fashion-mnist", "--data", "made-images", "--synthetic"});
    return mlbench(more);
  };
  EXPECT_EQ(evaluate(moved, {"--json"}).json()["metrics"], trained.json()[1]["evaluations"].back()["metrics"]);
  const Json one = trained.json()[0];
  const fs::path model = home() / "runs/r-1/checkpoints/step-000000002/model.safetensors";
  const Result weights = evaluate(model, {"--threads-per-worker", "1", "--json"});
  ASSERT_EQ(weights.code, 0) << weights.err;
  EXPECT_EQ(weights.json()["kind"], "weights");
  EXPECT_EQ(weights.json()["metrics"], one["evaluations"].back()["metrics"]);
  EXPECT_EQ(weights.json()["weights_sha256"], one["weights_sha256"]);
  EXPECT_THAT(weights.json()["notes"].dump(), HasSubstr("not used: "));

  // The mean of one checkpoint is that one; of a run it is the newest.
  const Result average = mlbench({"evaluate", "r-1", "--average", "1", "--json"});
  ASSERT_EQ(average.code, 0) << average.err;
  EXPECT_EQ(average.json()["weights_sha256"], one["weights_sha256"]);
  expect_error({"evaluate", home() / "runs/r-1", "--average", "5"},
               HasSubstr("5 checkpoints are to be averaged; up to "));

  expect_error({"evaluate", home() / "runs/r-1/checkpoints/step-000000002", "--set", "model.dropout=0"},
               HasSubstr("--set is a choice of a task"));
  std::ofstream(moved / "model.safetensors", std::ios::app) << "x";
  expect_error({"evaluate", moved, "--task", "fashion-mnist", "--synthetic"}, HasSubstr("damaged"));
  std::ofstream(folder_.path() / "m.safetensors") << std::string("\x02\0\0\0\0\0\0\0{}", 10);
  expect_error({"evaluate", folder_.path() / "m.safetensors", "--task", "fashion-mnist", "--synthetic"},
               AllOf(HasSubstr("does not fit task fashion-mnist"), HasSubstr("tensors are not there: conv1.")));

  ASSERT_EQ(mlbench({"download", "r-4", "-o", folder_.path() / "r.zip"}).code, 0);
  const Result archive = mlbench({"result", folder_.path() / "r.zip"});
  EXPECT_EQ(archive.code, 0) << archive.out << archive.err;
}

TEST_F(CliWithWorker, EvaluatesTheMeanOfTheLastCheckpoints) {
  const Result trained = run({"1", "--data", "made-images", "--threads-per-worker", "1", "--max-steps", "3",
                              "--checkpoint-every", "1", "--json"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Json mean = mlbench({"evaluate", "r-1", "--average", "2", "--json"}).json();
  EXPECT_EQ(mean["path"], (home() / "runs/r-1/checkpoints/step-000000003").string());
  EXPECT_EQ(mean["notes"], Json::array({"the mean of the checkpoints of steps 2, 3"}));
  EXPECT_EQ(mean["step"], 3);
  EXPECT_NE(mean["weights_sha256"], trained.json()[0]["weights_sha256"]);
  const fs::path second = home() / "runs/r-1/checkpoints/step-000000002";
  const Json before = mlbench({"evaluate", second, "--average", "2", "--json"}).json();
  EXPECT_EQ(before["notes"], Json::array({"the mean of the checkpoints of steps 1, 2"}));
  EXPECT_NE(before["weights_sha256"], mean["weights_sha256"]);
  EXPECT_TRUE(mean["metrics"]["loss"].is_number());
}

// ---- sweep ----------------------------------------------------------------------------------------------------------

class SweepCli : public Cli {
 protected:
  Result sweep(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"sweep",
                                          "s",
                                          "--task",
                                          "mnist",
                                          "--synthetic",
                                          "--local",
                                          "--intra-op",
                                          "1",
                                          "--procs-per-node",
                                          "1,2",
                                          "-o",
                                          folder_.path() / "out",
                                          "--format",
                                          "csv,markdown,json,html"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return mlbench(arguments);
  }
  size_t runs() const {
    const fs::path folder = home() / "runs";
    if (!fs::exists(folder)) return 0;
    size_t runs = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
      runs += entry.path().filename().string().starts_with('.') ? 0 : 1;
    }
    return runs;
  }
};

TEST_F(SweepCli, ComputesStepsAndRunsNothing) {
  const Json rows = sweep({"--steps-only", "--json"}).json();
  EXPECT_EQ(rows[0]["workers"], 1);
  EXPECT_EQ(rows[0]["steps"], 24'000);
  EXPECT_EQ(rows.size(), 8U) << "of 1, 2, 4 and 8 nodes with 1 and 2 processes";
  EXPECT_THAT(sweep({"--steps-only", "--nodes", "1"}).out, AllOf(StartsWith("Steps\n"), HasSubstr(" 24,000\n")));
  EXPECT_EQ(runs(), 0U);
}

TEST_F(SweepCli, WrongWordsAreRefusedBeforeAnythingRuns) {
  const auto refused = [&](const std::vector<std::string>& more, const testing::Matcher<std::string>& message) {
    const Result result = sweep(more);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, message);
  };
  refused({"--nodes", "0"}, HasSubstr("--nodes '0' is not a whole number from 1"));
  refused({"--nodes", "2,2"}, HasSubstr("--nodes has 2 twice"));
  refused({"--nodes", "4000"}, HasSubstr("workers: a host of"));
  refused({"--lr-scaling", "maybe"}, HasSubstr("unknown value of --lr-scaling 'maybe'"));
  refused({"--inter-op", "2"}, HasSubstr("--inter-op-threads 2: framework 'torch'"));  // the fake one has no such pool
  refused({"--format", "gif"}, HasSubstr("unknown format 'gif'"));
  expect_error({"sweep"}, HasSubstr("give --task TASK"));
  expect_error({"sweep", "--task", "0a"}, HasSubstr("trains nothing"));
  EXPECT_EQ(runs(), 0U);
}

TEST_F(SweepCli, DryRunPrintsThePlan) {
  const Result text = sweep({"--nodes", "1,2", "--dry-run"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("2 runs to find the best setting"), HasSubstr("s.p2t1i1-2: mnist, 2 workers"),
                    HasSubstr("if that is the best setting"), HasSubstr("s.n2.p1t1i1.lr1-2"), HasSubstr("RANK=1")));
  const Json plan = sweep({"--nodes", "1,2", "--dry-run", "--json"}).json();
  EXPECT_EQ(plan["best_is_known"], false);
  EXPECT_EQ(plan["settings"].size(), 2U);
  EXPECT_EQ(plan["nodes"].size(), 3U) << "one worker is scaled by one";
  EXPECT_EQ(runs(), 0U);
}

TEST_F(SweepCli, FinishedRunsAreKept) {
  const Result first = sweep({"--nodes", "1,2", "--json"});
  ASSERT_EQ(first.code, 0) << first.err;
  const Json made = first.json();
  EXPECT_EQ(made["settings"].size(), 2U);
  ASSERT_EQ(made["nodes"].size(), 4U);
  for (const Json& point : made["nodes"]) EXPECT_EQ(point["state"], "finished") << point;
  EXPECT_EQ(made["nodes"][0]["procs_per_node"], made["best"]["procs_per_node"]);
  EXPECT_EQ(made["nodes"][0]["efficiency"], 1.0);
  EXPECT_THAT(made["nodes"][2]["labels"], Contains("ranks on one host"));
  EXPECT_THAT(made["files"], testing::SizeIs(4));
  EXPECT_THAT(read_file(folder_.path() / "out/sweep.md"), HasSubstr("## Over nodes"));
  EXPECT_THAT(read_file(folder_.path() / "out/report.html"), HasSubstr("Scaling of mnist"));

  const size_t before = runs();
  const Result again = sweep({"--nodes", "1,2", "--json"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("s.p1t1i1-1 is kept"));
  EXPECT_EQ(runs(), before);
  EXPECT_EQ(again.json()["nodes"], made["nodes"]);

  const std::string lost = made["nodes"][2]["runs"][0];
  ASSERT_EQ(mlbench({"delete", lost}).code, 0);
  EXPECT_EQ(sweep({"--nodes", "1,2", "--json"}).json()["nodes"][2]["runs"][0], lost) << "made again";
  EXPECT_EQ(runs(), before);
  EXPECT_EQ(sweep({"--nodes", "1,2", "--probe-steps", "7"}).code, 0);
  EXPECT_EQ(state_of("s.p1t1i1-1.2"), "finished") << "other steps are another run";
}

TEST_F(SweepCli, AFailedSettingEndsNothingAndIsTriedAgain) {
  environment_["FAKE_FAULT"] = "1:3:exit:7";  // rank 1 fails in every run that has one
  const Result result = sweep({"--nodes", "1", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.json()["settings"][1]["state"], "failed");
  EXPECT_EQ(result.json()["best"]["procs_per_node"], 1);
  EXPECT_EQ(sweep({"--nodes", "1,2", "--lr-scaling", "on"}).code, 5) << "over nodes nothing may be missing";
  environment_.erase("FAKE_FAULT");
  const Json healed = sweep({"--nodes", "1", "--json"}).json();
  EXPECT_EQ(healed["settings"][1]["state"], "finished");
  EXPECT_EQ(healed["settings"][0]["runs"], Json::array({"s.p1t1i1-1"}));
}

// ---- study ----------------------------------------------------------------------------------------------------------

class StudyCli : public SweepCli {
 protected:
  Result study(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"study",
                                          "ddl",
                                          "d",
                                          "--task=mnist",
                                          "--max-steps=5",
                                          "--workers=1,2",
                                          "--local",
                                          "--threads-per-worker=1",
                                          "-o",
                                          folder_.path() / "out",
                                          "--format=csv,markdown,json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return mlbench(arguments);
  }
};

TEST_F(StudyCli, WrongWordsAreRefusedBeforeAnythingRuns) {
  const auto refused = [&](const std::vector<std::string>& more, const testing::Matcher<std::string>& message) {
    const Result result = study(more);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, message);
  };
  refused({"--note", "colour=red"}, HasSubstr("unknown name of --note 'colour'"));
  refused({"--note", "cluster"}, HasSubstr("expected cluster=TEXT"));
  refused({"--network", "real", "--network", "real"}, HasSubstr("--network has 'real' twice"));
  refused({"--network", "fast"}, HasSubstr("fast"));
  refused({"--network", "links=0"}, HasSubstr("--links"));
  refused({"--network", "host_network"}, HasSubstr("--host-network"));
  refused({"--input", folder_.path() / "none"}, HasSubstr("is not a folder"));
  refused({"--variants", "b32"}, HasSubstr("b32"));
  refused({"--format", "html"}, HasSubstr("unknown format 'html'"));
  EXPECT_EQ(runs(), 0U);
}

TEST_F(StudyCli, DryRunListsEachRunOnce) {
  const Json plan = study({"--network", "real", "--network", "bandwidth=1Gbit", "--dry-run", "--json"}).json();
  std::vector<std::string> names;
  for (const Json& run : plan["runs"]) names.push_back(run["name"]);
  EXPECT_THAT(names, testing::IsSupersetOf(
                         {"d.synthetic.real-1", "d.synthetic.real-2", "d.compute.t1-1", "d.exchange.real.t1-2"}));
  EXPECT_THAT(names, testing::SizeIs(7)) << "both networks share the run that computes alone";
  EXPECT_EQ(plan["runs_without_estimate"], 5);
  EXPECT_THAT(study({"--dry-run"}).out, HasSubstr("4 runs, at least 0.0 minutes; of 3 runs no time is known"));
  EXPECT_EQ(runs(), 0U);
}

// The proposals of document 004, beside each other: each network has its own exchange, and its own base for efficiency.
TEST_F(StudyCli, NetworksDifferInConnectionsAndBuffers) {
  const std::vector<std::string> networks = {"--network", "real", "--network", "links=2,socket_buffer=1M"};
  std::vector<std::string> words = networks;
  words.insert(words.end(), {"--dry-run", "--json"});
  EXPECT_THAT(study(words).json()["runs"], testing::SizeIs(7)) << "both share the run that computes alone";
  words = networks;
  words.emplace_back("--json");
  const Result made = study(words);
  ASSERT_EQ(made.code, 0) << made.err;
  const Json rows = made.json()["rows"];
  ASSERT_EQ(rows.size(), 4U);
  for (const Json& row : rows) EXPECT_TRUE(row["efficiency"].is_number()) << row;
  EXPECT_EQ(rows[0]["efficiency"], 1.0);
  EXPECT_EQ(rows[2]["efficiency"], 1.0) << "of its own network";
  EXPECT_EQ(rows[3]["network"], "links=2,socket_buffer=1M");
  const auto communication = [&](const Json& row) {
    return read_json_file(home() / "runs" / row["runs"][0].get<std::string>() / "run.json")["communication"];
  };
  EXPECT_EQ(communication(rows[1])["links"], 1);
  EXPECT_EQ(communication(rows[3])["links"], 2);
  EXPECT_EQ(communication(rows[3])["socket_buffer_bytes"], 1 << 20);
}

TEST_F(StudyCli, FinishedRunsAreKeptAndTheFormHasTheNotes) {
  const Result first = study({"--note", "cluster=blue", "--json"});
  ASSERT_EQ(first.code, 0) << first.err;
  const Json made = first.json();
  ASSERT_EQ(made["rows"].size(), 2U);
  for (const Json& row : made["rows"]) EXPECT_EQ(row["state"], "finished") << row;
  EXPECT_EQ(made["rows"][0]["efficiency"], 1.0);
  EXPECT_EQ(made["rows"][0]["exchange_alone_s"], 0.0);
  EXPECT_TRUE(made["rows"][1]["exchange_alone_s"].is_number());
  EXPECT_TRUE(made["rows"][1]["waiting_steps"].is_number());
  EXPECT_EQ(made["experiment"]["name of the cluster"], "blue");
  EXPECT_THAT(made["files"], testing::SizeIs(3));
  EXPECT_THAT(read_file(folder_.path() / "out/ddl.md"), HasSubstr("## Synthetic data"));

  EXPECT_EQ(runs(), 4U);
  const Result again = study({"--json"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("d.compute.t1-1 is kept"));
  EXPECT_EQ(again.json()["rows"], made["rows"]);
  EXPECT_EQ(runs(), 4U);
  EXPECT_THAT(study({"--dry-run"}).out, StartsWith("0 runs"));
}

TEST_F(CliWithWorker, TheOfficialResultOfARealRunIsDerivedExactly) {
  // The made set is learnt within a few steps: the first evaluation meets the goal.
  const Result trained = run({"1", "--light", "--set", "evaluation.every_samples=3000", "--json"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  ASSERT_EQ(trained.json()[0]["goal"]["reached"], true) << trained.out;
  const fs::path zip = folder_.path() / "r.zip";
  ASSERT_EQ(mlbench({"download", "r-1", "-o", zip}).code, 0);
  const Result result = mlbench({"result", zip, "--json"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_EQ(result.json()["official_result"], result.json()["claimed"]);
  EXPECT_EQ(result.json()["seconds"]["train"], trained.json()[0]["goal"]["train_s"]);
  EXPECT_THAT(mlbench({"result", zip}).out, HasSubstr("\n85% Top 1 Validation Accuracy reached in "));
}

}  // namespace
}  // namespace mlbench::cli
