#include "mlbench/plan/plan.h"

#include <gmock/gmock.h>

#include <chrono>
#include <fstream>

#include "mlbench/base/build_info.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/gpus.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/processor.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/plan/engine.h"
#include "mlbench/record/bfloat16_speed.h"
#include "mlbench/spec/declaration.h"

namespace mlbench::plan {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::ThrowsMessage;

class Plan : public testing::Test {
 protected:
  Plan() {
    facts_.home = folder_.path();
    facts_.cores = 8;
    facts_.catalog = Json::parse(R"({
      "frameworks": [{"name": "torch", "available": true, "inter_op": true}, {"name": "null", "available": true}],
      "backends": [{"name": "gloo", "available": true}, {"name": "nccl", "available": false, "reason": "no GPU"}]})");
    options_.name = "r";
    options_.workers = {"1", "2", "4"};
    options_.task = "fashion-mnist";
    options_.synthetic = true;  // tests must not need the data
  }

  std::string error() {
    try {
      plan_runs(options_, facts_);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }

  TemporaryFolder folder_;
  PlanFacts facts_;
  RunOptions options_;
};

TEST_F(Plan, DecodingThreadsAreTheWorkersChoiceOrTheUsers) {
  options_.task = "1b-resnet50";
  EXPECT_EQ(plan_runs(options_, facts_).front().decoding_threads, 0);
  EXPECT_EQ(plan_runs(options_, facts_).front().max_bad, 0);
  options_.decoding_threads = "3";
  EXPECT_EQ(plan_runs(options_, facts_).front().decoding_threads, 3);
  options_.max_bad = "7";
  EXPECT_EQ(plan_runs(options_, facts_).front().max_bad, 7);
  options_.decoding_threads = "0";
  EXPECT_THAT(error(), HasSubstr("--decoding-threads"));
}

TEST_F(Plan, OptionsOfImagesAreRefusedWhereNothingIsDecoded) {
  options_.max_bad = "7";
  EXPECT_EQ(error(), "--max-bad 7: data set 'fashion-mnist' has no images that are decoded; leave it out");
  options_.task = "2a";
  EXPECT_THAT(error(), HasSubstr("--max-bad 7: data set 'epsilon'"));
  options_.max_bad.clear();
  options_.decoding_threads = "3";
  EXPECT_THAT(error(), HasSubstr("--decoding-threads 3: data set 'epsilon'"));
}

TEST_F(Plan, InterOpThreadsAreOfAFrameworkThatHasThem) {
  EXPECT_EQ(plan_runs(options_, facts_).front().inter_op_threads, 1);
  options_.inter_op_threads = "2";
  EXPECT_EQ(plan_runs(options_, facts_).front().inter_op_threads, 2);
  options_.framework = "null";
  EXPECT_THAT(error(), AllOf(HasSubstr("--inter-op-threads 2: framework 'null'"), HasSubstr("--framework torch")));
  options_.inter_op_threads = "1";
  EXPECT_EQ(plan_runs(options_, facts_).front().framework, "null");
}

TEST_F(Plan, WhatThisHostCannotStartIsRefusedBeforeARunExists) {
  std::vector<spec::RunSpec> runs = plan_runs(options_, facts_);
  EXPECT_EQ(obstacle_to(runs[1]), "");
  refuse_impossible(runs);
  runs[1].communication.network_interface = "nosuch0";
  EXPECT_THAT(obstacle_to(runs[1]), HasSubstr("--interface 'nosuch0'"));
  EXPECT_THAT([&] { refuse_impossible(runs); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("r-2 cannot start here: --interface 'nosuch0': "),
                                             HasSubstr("('mlbench doctor' says what this host has)"))));
}

TEST_F(Plan, AnAlgorithmThatIsNotThereIsRefusedBeforeDataArePrepared) {
  options_.overrides = {"optimizer.name=sdg"};
  EXPECT_THAT(error(), HasSubstr("unknown optimizer 'sdg'"));
  options_.overrides = {"optimizer.rule=larz"};
  EXPECT_EQ(error(), "no error") << "a worker that lists no rules";
  facts_.catalog["rules"] = {{{"name", "lars"}}, {{"name", "sgd"}}};
  EXPECT_EQ(error(), "unknown rule 'larz': did you mean 'lars'? valid: lars, sgd");
  facts_.catalog["coders"] = {{{"name", "none"}}, {{"name", "top_k"}}};
  options_.overrides = {"optimizer.compression=topk"};
  EXPECT_THAT(error(), HasSubstr("unknown compression 'topk': did you mean 'top_k'?"));
  facts_.catalog["patterns"] = {{{"name", "centralized"}}};
  options_.overrides = {"optimizer.pattern=gossip"};
  EXPECT_THAT(error(), HasSubstr("unknown pattern 'gossip'"));
  options_.overrides = {"optimizer.pattern=powerSGD_hook"};
  EXPECT_THAT(error(), HasSubstr("expected --set optimizer.compression=powerSGD_hook"));
  options_.overrides = {"optimizer.compression=allreduce_hook"};
  EXPECT_EQ(error(), "no error") << "a name elsewhere of 'none'";
  options_.overrides = {"optimizer.compression=top_k"};
  EXPECT_EQ(error(), "no error");
}

TEST_F(Plan, AnOptionThatTheAlgorithmLacksIsRefusedBeforeDataArePrepared) {
  const auto row = [](const char* name, const std::vector<std::string>& options) {
    Json listed = Json::array();
    for (const std::string& option : options) listed.push_back({{"name", option}});
    return Json{{"name", name}, {"options", std::move(listed)}};
  };
  options_.overrides = {"optimizer.compression=top_k", "optimizer.sahre=0.1"};
  facts_.catalog["rules"] = Json::array({row("sgd", {"momentum", "dampening", "nesterov", "weight_decay"})});
  facts_.catalog["coders"] = Json::array({row("none", {}), row("top_k", {"share"})});
  facts_.catalog["patterns"] = Json::array({row("centralized", {"by_layer", "bucket_mb", "overlap"})});
  EXPECT_EQ(error(), "no error") << "a worker that lists no options of steps";
  facts_.catalog["step_options"] = row("", {"clip_norm"})["options"];
  EXPECT_THAT(error(), HasSubstr("has no option 'sahre': did you mean 'share'? valid: rule, momentum, "));
  options_.overrides[1] = "optimizer.share=0.1";
  EXPECT_EQ(error(), "no error");
  options_.overrides[0] = "optimizer.compression=none";
  EXPECT_THAT(error(), HasSubstr("has no option 'share'"));
}

TEST_F(Plan, WhatAFrameworkHasNotIsRefusedBeforeDataArePrepared) {
  Json& rows = facts_.catalog["frameworks"];
  rows[0].update({{"profile", false}, {"precisions", {"float32", "bf16"}}, {"devices", {"cpu", "cuda"}}});
  rows[1].update({{"profile", true}, {"precisions", {"float32"}}, {"devices", {"cpu"}}});
  options_.framework = "null";
  options_.gpu = true;
  EXPECT_EQ(error(), "framework 'null' has no device 'cuda'; valid: cpu");
  options_.gpu = false;
  options_.overrides = {"precision=bf16"};
  EXPECT_EQ(error(), "framework 'null' has no precision 'bf16'; valid: float32");
  options_.framework = "torch";
  EXPECT_EQ(error(), "no error");
  options_.profile = true;
  EXPECT_EQ(error(), "--profile: framework 'torch' cannot tell its operations apart; give --framework null");
  options_.profile = false;
  options_.explain = true;
  EXPECT_THAT(error(), HasSubstr("--explain: framework 'torch'"));
}

TEST_F(Plan, ConvolutionsAreThoseOfTheFrameworkAndCloseNoRun) {
  const spec::RunSpec usual = plan_runs(options_, facts_).front();
  EXPECT_EQ(usual.convolution, "auto");
  options_.convolution = "winograd";
  EXPECT_EQ(error(), "--convolution winograd: framework 'torch' has no such convolutions; valid: auto; none here can");
  facts_.catalog["frameworks"].push_back(
      {{"name", "native"}, {"available", true}, {"convolutions", {"auto", "direct", "winograd"}}});
  EXPECT_EQ(error(),
            "--convolution winograd: framework 'torch' has no such convolutions; valid: auto; give --framework native");
  options_.framework = "native";
  const spec::RunSpec run = plan_runs(options_, facts_).front();
  EXPECT_EQ(run.convolution, "winograd");
  EXPECT_EQ(run.asked.at("convolution"), "winograd") << "the same request makes the same run";
  EXPECT_EQ(run.task.hash, usual.task.hash);
  EXPECT_EQ(run.division, "closed");
  options_.convolution = "winogard";
  EXPECT_EQ(error(), "unknown --convolution 'winogard': did you mean 'winograd'? valid: auto, direct, winograd");
  options_.convolution = "auto";
  options_.framework = "torch";
  EXPECT_EQ(error(), "no error");
}

TEST_F(Plan, AFrameworkIsRefusedTheModelsOfWhichItLacksALayer) {
  facts_.catalog["frameworks"].push_back({{"name", "tensorflow"},
                                          {"available", true},
                                          {"layers", {"conv2d", "relu", "max_pool2d", "flatten", "linear", "dropout"}},
                                          {"tasks", {"fashion-mnist", "mnist"}}});
  options_.framework = "tensorflow";
  EXPECT_EQ(error(), "no error");
  options_.task = "4a";
  EXPECT_EQ(error(),
            "framework 'tensorflow' has no layer 'transpose', which model 'gnmt' of task '4a' has; it trains "
            "fashion-mnist, mnist; for this task give --framework torch or null");
  options_.task = "1a";
  EXPECT_THAT(error(), HasSubstr("has no layer 'batch_norm2d', which model 'resnet-cifar' of task '1a' has"));
  options_.framework = "torch";
  EXPECT_EQ(error(), "no error");
}

TEST_F(Plan, ATaskHasAFrameworkOfItsOwnWhereThatWorks) {
  options_.task = "1a-tf";
  EXPECT_EQ(error(), "task '1a-tf': unknown framework 'tensorflow'; valid: torch, null") << "as if misspelt";
  Json row = {{"name", "tensorflow"}, {"available", false}, {"reason", "it was built without TensorFlow"}};
  facts_.catalog["frameworks"].push_back(row);
  const spec::RunSpec without = plan_runs(options_, facts_).front();
  EXPECT_EQ(without.framework, "torch");
  EXPECT_THAT(plan_warnings({without}, 8), ElementsAre(HasSubstr("1a-tf names framework tensorflow, and the runs take "
                                                                 "torch")));
  options_.framework = "tensorflow";
  EXPECT_EQ(error(),
            "framework 'tensorflow' is not available here: it was built without TensorFlow; valid: torch, null");
  options_.framework.clear();
  facts_.catalog["frameworks"].back()["available"] = true;
  const spec::RunSpec with = plan_runs(options_, facts_).front();
  EXPECT_EQ(with.framework, "tensorflow");
  EXPECT_THAT(plan_warnings({with}, 8), IsEmpty());
  EXPECT_EQ(with.task.hash, without.task.hash);
  EXPECT_EQ(with.division, "closed");
  options_.framework = "null";
  EXPECT_EQ(plan_runs(options_, facts_).front().framework, "null");
  options_.overrides = {"framework=torch"};
  EXPECT_EQ(error(),
            "--set framework=torch: 'framework' identifies the task and cannot be set; choose with --framework");
  options_.overrides.clear();
  options_.framework.clear();
  options_.task = "1a";
  EXPECT_EQ(plan_runs(options_, facts_).front().framework, "torch");
}

TEST_F(Plan, AFrameworkIsRefusedSparseRowsThatItDoesNotTake) {
  options_.task = "2a";
  options_.data = "a9a";
  EXPECT_EQ(error(), "framework 'torch' takes no sparse rows, which data set 'a9a' has; none here can");
  facts_.catalog["frameworks"].push_back({{"name", "native"}, {"available", true}, {"sparse_rows", true}});
  EXPECT_EQ(error(), "framework 'torch' takes no sparse rows, which data set 'a9a' has; give --framework native");
  options_.framework = "native";
  const spec::RunSpec run = plan_runs(options_, facts_).front();
  EXPECT_EQ(run.task.task.data.sample_shape, std::vector<int64_t>{123});
  EXPECT_EQ(run.division, "open");
  options_.framework = "torch";
  facts_.catalog["frameworks"][0]["sparse_rows"] = true;
  EXPECT_EQ(error(), "no error");
  options_.gpu = true;
  EXPECT_EQ(error(), "--gpu: data set 'a9a' has sparse rows, which frameworks multiply on the CPU; leave it out");
  options_.gpu = false;
  facts_.catalog["frameworks"][0].erase("sparse_rows");
  options_.data = "madelon";
  EXPECT_EQ(error(), "no error");
}

TEST_F(Plan, AFrameworkWithoutADecoderIsRefusedTasksThatMeasureTranslations) {
  facts_.catalog["frameworks"][1]["decodes"] = false;
  options_.framework = "null";
  options_.task = "4a";
  EXPECT_EQ(error(), "no error") << "made data are not translated";
  options_.synthetic = false;
  EXPECT_EQ(error(), "framework 'null' writes no translations, which task '4a' measures; give --framework torch");
  options_.task = "3a";
  EXPECT_THAT(error(), Not(HasSubstr("translations")));
}

TEST_F(Plan, NamesThreadsAndSeeds) {
  options_.repeat = "2";
  const auto runs = plan_runs(options_, facts_);
  std::vector<std::string> names;
  for (const auto& run : runs) {
    names.push_back(run.name);
    EXPECT_EQ(run.threads_per_worker, 2) << "constant over the worker counts: 8 cores / 4 workers";
    EXPECT_EQ(run.seed, 42U + static_cast<uint64_t>(run.repeat) - 1);
    EXPECT_FALSE(run.oversubscribed);
    EXPECT_EQ(run.division, "closed");
    EXPECT_EQ(run.framework, "torch");
    EXPECT_EQ(run.backend, "gloo");
    EXPECT_EQ(run.data_name, "fashion-mnist");
    EXPECT_EQ(run.cache_dir, (folder_.path() / "cache").string());
    EXPECT_EQ(run.data_dirs.back(), (folder_.path() / "data").string());
  }
  EXPECT_THAT(names, ElementsAre("r-1", "r-1.2", "r-2", "r-2.2", "r-4", "r-4.2"));
}

TEST_F(Plan, MoreThreadsThanCoresIsOversubscribed) {
  facts_.cores = 2;
  const auto runs = plan_runs(options_, facts_);
  EXPECT_EQ(runs[0].threads_per_worker, 1);
  EXPECT_FALSE(runs[1].oversubscribed);
  EXPECT_TRUE(runs[2].oversubscribed);
  EXPECT_THAT(plan_warnings(runs, 2), ElementsAre(HasSubstr("4 workers x 1 threads on 2 cores: oversubscribed")));
}

TEST_F(Plan, RunsThatShareTheirHostHaveCoresOfTheirOwn) {
  options_.share_host = true;
  auto runs = plan_runs(options_, facts_);
  for (const auto& run : runs) {
    EXPECT_TRUE(run.share_host);
    EXPECT_EQ(run.threads_per_worker, 1) << "not all cores of the host";
  }
  EXPECT_THAT(plan_warnings(runs, 8), ElementsAre(HasSubstr("their times stand in no table")));
  options_.threads_per_worker = "2";
  EXPECT_EQ(plan_runs(options_, facts_).front().threads_per_worker, 2);
  options_.threads_per_worker = "3";
  EXPECT_EQ(error(),
            "--share-host: 4 workers with 3 threads each need 12 cores of their own, and this host has 8: give less "
            "workers or threads (-c), or leave it out");
  options_.threads_per_worker.clear();
  options_.gpu = true;
  EXPECT_THAT(error(), HasSubstr("--share-host: a run with --gpu has the GPUs of its host to itself"));
  options_.gpu = false;
  options_.executor = "mpirun";
  options_.engine["hosts"] = "h1:4";
  EXPECT_THAT(error(), HasSubstr("--share-host: the cores of other hosts are not ours"));
  options_.executor = "kubernetes";
  options_.engine.erase("hosts");
  options_.engine["image"] = "worker:1";
  EXPECT_TRUE(plan_runs(options_, facts_).front().share_host) << "its pods say so to the scheduler";
  options_.engine.erase("image");
  options_.executor = "slurm";
  options_.engine.erase("hosts");
  EXPECT_TRUE(plan_runs(options_, facts_).front().share_host) << "Slurm gives each its cores";
  options_ = {};
  options_.name = "r";
  options_.workers = {"2"};
  options_.task = "0a";
  options_.share_host = true;
  EXPECT_THAT(error(), HasSubstr("--share-host: what a benchmark of collectives measures is time"));
}

TEST_F(Plan, ARunIsRequeuedFromACheckpoint) {
  options_.engine["requeue"] = "2";
  EXPECT_THAT(error(), HasSubstr("--requeue: the executor 'local' starts ranks on this host alone"));
  options_.executor = "mpirun";
  options_.engine["hosts"] = "h1:4";
  EXPECT_THAT(error(), HasSubstr("--requeue goes on from the last checkpoint"));
  options_.checkpoint_every = "epoch";
  EXPECT_EQ(plan_runs(options_, facts_).front().engine["requeue"], 2);
  options_.engine["requeue"] = "0";
  EXPECT_THAT(error(), HasSubstr("from 1 to 100"));
}

TEST_F(Plan, InAnImageACommandStartsWhereTheImageSays) {
  const std::string path = environment_variable("PATH").value_or("");
  write_file_atomically(folder_ / "podman", "#!/bin/sh\n");
  std::filesystem::permissions(folder_ / "podman", std::filesystem::perms::owner_all);
  setenv("PATH", (folder_.path().string() + ":" + path).c_str(), 1);
  options_ = {};
  options_.name = "c";
  options_.workers = {"2"};
  options_.command = {"python3", "train.py"};
  options_.engine["image"] = "team/image:1";
  const spec::RunSpec run = plan_runs(options_, facts_).front();
  EXPECT_EQ(run.engine["image"], "team/image:1");
  EXPECT_EQ(spec::command_of(run)->work_dir, "");
  options_.work_dir = "/";
  EXPECT_THAT(error(), HasSubstr("work_dir '/' cannot be that of an image"));
  options_.work_dir = "relative";
  EXPECT_THAT(error(), HasSubstr("no absolute path"));
  options_.work_dir.clear();
  options_.backend = "mpi";
  EXPECT_EQ(error(), "no error");
  setenv("PATH", folder_.path().c_str(), 1);
  std::filesystem::rename(folder_ / "podman", folder_ / "docker");
  EXPECT_THAT(error(), HasSubstr("--image with --backend mpi: docker gives ranks no variables"));
  setenv("PATH", path.c_str(), 1);
}

TEST_F(Plan, WhatAnExecutorDoesNotTakeIsRefused) {
  options_.engine["hosts"] = "h1:2";
  EXPECT_THAT(error(), HasSubstr("--hosts: the executor 'local' starts ranks on this host alone; executors that take "
                                 "it: "));
  options_.engine.erase("hosts");
  options_.engine["scratch"] = "here";
  EXPECT_EQ(error(), "--scratch 'here' is no absolute path");
}

TEST_F(Plan, HostsBearTheirOwnRanks) {
  options_.executor = "mpirun";
  options_.workers = {"2", "8"};
  EXPECT_THAT(error(), HasSubstr("-H h1:2,h2:2"));
  options_.engine["hosts"] = "h1:4,h2:4";
  auto runs = plan_runs(options_, facts_);
  EXPECT_EQ(runs[1].threads_per_worker, 2) << "8 cores / 4 workers on each";
  EXPECT_FALSE(runs[1].oversubscribed);
  EXPECT_EQ(runs[1].executor, "mpirun");
  EXPECT_EQ(runs[1].engine["hosts"], "h1:4,h2:4");
  options_.threads_per_worker = "3";
  runs = plan_runs(options_, facts_);
  EXPECT_FALSE(runs[0].oversubscribed);
  EXPECT_TRUE(runs[1].oversubscribed);
  options_.engine["hosts"] = "h1:128,h2:128";
  options_.workers = {"200"};
  options_.engine["ranks_per_host"] = "129";
  EXPECT_EQ(error(), "129 workers: a host of 8 cores starts at most 128");
  options_.engine["ranks_per_host"] = "100";
  EXPECT_EQ(error(), "no error");
  options_.workers = {"201"};
  EXPECT_THAT(error(), HasSubstr("201 ranks need 201 slots"));
  options_.engine["ssh_config"] = (folder_ / "none").string();
  EXPECT_THAT(error(), HasSubstr("is no file"));
}

TEST_F(Plan, SlurmDecidesHowManyRanksAHostBears) {
  options_.executor = "slurm";
  options_.workers = {"1", "1000"};
  options_.engine["slurm"] = {"partition=short"};
  const auto runs = plan_runs(options_, facts_);
  EXPECT_EQ(runs[1].threads_per_worker, 1);
  EXPECT_FALSE(runs[1].oversubscribed);
  EXPECT_EQ(runs[1].engine["slurm"], Json({"partition=short"}));
  options_.engine["slurm"] = {"ntasks=4"};
  EXPECT_THAT(error(), HasSubstr("--slurm-option ntasks"));
}

TEST_F(Plan, RanksInImagesSeeTheirFiles) {
  options_.executor = "kubernetes";
  options_.synthetic = false;  // the pods find out whether the data are there
  EXPECT_THAT(error(), HasSubstr("--image REF"));
  options_.engine["image"] = "worker:1";
  options_.engine["memory"] = "4Gi";
  auto run = plan_runs(options_, facts_).front();
  EXPECT_THAT(run.data_dirs, ElementsAre("/datasets"));
  EXPECT_EQ(run.cache_dir, "/scratch/cache");
  EXPECT_EQ(run.engine["image"], "worker:1");
  EXPECT_EQ(run.engine["memory"], "4Gi");
  EXPECT_EQ(run.threads_per_worker, 1);
  options_.data_dir = "/only/in/the/pods";
  EXPECT_THAT(plan_runs(options_, facts_).front().data_dirs, ElementsAre("/only/in/the/pods", "/datasets"));
  options_.data_dir.clear();
  options_.engine["memory"] = "much";
  EXPECT_THAT(error(), HasSubstr("--memory 'much'"));
  options_.engine.erase("memory");
  options_.task.clear();
  options_.command = {"true"};
  EXPECT_EQ(spec::command_of(plan_runs(options_, facts_).front())->work_dir, "") << "the image's own";
  options_.work_dir = "/only/in/the/image";
  EXPECT_EQ(spec::command_of(plan_runs(options_, facts_).front())->work_dir, "/only/in/the/image");
  options_.backend = "mpi";
  EXPECT_EQ(plan_runs(options_, facts_).front().backend, "mpi");
}

TEST_F(Plan, AFractionOfACpuIsALimitWithWholeThreads) {
  options_.threads_per_worker = "2.5";
  EXPECT_THAT(error(), AllOf(HasSubstr("the executor 'local' limits CPUs of containers alone"),
                             HasSubstr("give a whole number, an --image")));
  options_.executor = "kubernetes";
  options_.engine["image"] = "worker:1";
  auto run = plan_runs(options_, facts_).front();
  EXPECT_EQ(run.threads_per_worker, 2);
  EXPECT_EQ(run.cpus, 2.5);
  options_.task.clear();
  options_.synthetic = false;
  options_.command = {"true"};
  options_.threads_per_worker = "0.5";
  run = plan_runs(options_, facts_).front();
  EXPECT_EQ(run.threads_per_worker, 1);
  EXPECT_EQ(run.cpus, 0.5);
  options_.executor = "local";
  options_.workers = {"3", "4"};
  options_.threads_per_worker = "2.5";
  const auto runs = plan_runs(options_, facts_);
  EXPECT_FALSE(runs[0].oversubscribed);
  EXPECT_TRUE(runs[1].oversubscribed) << "10 of 8 cores";
  EXPECT_THAT(plan_warnings(runs, 8),
              ElementsAre(HasSubstr("4 workers x 2 threads with 2.5 CPUs on 8 cores: oversubscribed")));
  options_.share_host = true;
  EXPECT_EQ(
      error(),
      "--share-host: 4 workers with 2 threads with 2.5 CPUs each need 10 cores of their own, and this host has 8: "
      "give less workers or threads (-c), or leave it out");
}

TEST_F(Plan, OptionsBecomeLimitsAndPolicies) {
  options_.light = true;
  options_.max_steps = "100";
  options_.max_epochs = "1.5";
  options_.max_time = "2m";
  options_.checkpoint_every = "epoch";
  options_.comm_timeout = "5";
  options_.seed = "7";
  options_.threads_per_worker = "3";
  const auto run = plan_runs(options_, facts_).front();
  EXPECT_TRUE(run.limits.light);
  EXPECT_EQ(run.limits.max_steps, 100);
  EXPECT_EQ(run.limits.max_epochs, 1.5);
  EXPECT_EQ(run.limits.max_time_s, 120);
  EXPECT_TRUE(run.checkpoint.every_epoch);
  EXPECT_EQ(run.comm_timeout_s, 5);
  EXPECT_EQ(run.seed, 7U);
  EXPECT_EQ(run.threads_per_worker, 3);
  EXPECT_EQ(run.division, "closed") << "limits never open a run";
}

TEST_F(Plan, TheOfficialTimeIsTheTasks) {
  options_.max_time = "official";
  EXPECT_EQ(error(), "--max-time official: task 'fashion-mnist' names no time; give one, as in --max-time 2h");
  options_.task = "2a";
  EXPECT_EQ(error(), "--max-time official: task '2a', rules 2021 names no time; give one, as in --max-time 2h");
  options_.rules = "2018";
  options_.to_the_end = true;
  const auto run = plan_runs(options_, facts_).front();
  EXPECT_EQ(run.limits.max_time_s, 7200);
  EXPECT_TRUE(run.limits.to_the_end);
  EXPECT_EQ(run.division, "closed");
  options_.variant = "train-goal";
  EXPECT_EQ(plan_runs(options_, facts_).front().division, "closed");
}

TEST_F(Plan, ProfileSaysMoreThanExplain) {
  EXPECT_EQ(plan_runs(options_, facts_).front().profile, "off");
  options_.explain = true;
  EXPECT_EQ(plan_runs(options_, facts_).front().profile, "explain");
  options_.profile = true;
  EXPECT_EQ(plan_runs(options_, facts_).front().profile, "time");
}

TEST_F(Plan, BenchmarksOfCollectives) {
  options_ = RunOptions();
  options_.name = "c";
  options_.workers = {"2", "3"};
  options_.task = "0a";
  auto runs = plan_runs(options_, facts_);
  EXPECT_EQ(runs[0].task.task.name, "0a");
  EXPECT_EQ(runs[0].division, "closed");
  EXPECT_EQ(runs[1].division, "open");
  EXPECT_EQ(runs[0].threads_per_worker, 1);
  EXPECT_EQ(*spec::collectives_of(runs[0]), spec::task_0a());

  options_.task.clear();
  options_.collectives = {{"operations", {"broadcast"}}, {"sizes", {{"end_bytes", 64}}}, {"root", 1}};
  options_.comm_timeout = "7s";
  runs = plan_runs(options_, facts_);
  EXPECT_EQ(runs[0].division, "own");
  EXPECT_EQ(runs[0].comm_timeout_s, 7);
  spec::CollectivesSpec expected;
  expected.operations = {spec::Collective::kBroadcast};
  expected.sizes.end_bytes = 64;
  expected.root = 1;
  EXPECT_EQ(*spec::collectives_of(runs[0]), expected);
  options_.collectives["root"] = 2;
  EXPECT_THAT(error(), HasSubstr("expected a rank from 0 to 1"));
  options_.collectives["rot"] = 2;
  EXPECT_THAT(error(), HasSubstr("collectives: unknown key 'rot': did you mean 'root'?"));
}

TEST_F(Plan, TheNextFreeNamesAreTaken) {
  options_.workers = {"2"};
  options_.next_repeat = true;
  options_.repeat = "2";
  std::filesystem::create_directories(folder_.path() / "runs/r-2");
  std::filesystem::create_directories(folder_.path() / "runs/r-2.3");
  const auto runs = plan_runs(options_, facts_);
  EXPECT_EQ(runs[0].name, "r-2.2");
  EXPECT_EQ(runs[1].name, "r-2.4");
  EXPECT_EQ(runs[1].seed, 43U);
}

TEST_F(Plan, DivisionsOpenAndThroughput) {
  options_.overrides = {"optimizer.lr=0.1"};
  EXPECT_EQ(plan_runs(options_, facts_).front().division, "open");
  options_.overrides.clear();
  options_.workers = {"3"};
  const auto runs = plan_runs(options_, facts_);
  EXPECT_EQ(runs.front().division, "open");
  EXPECT_THAT(plan_warnings(runs, 8), ElementsAre(HasSubstr("3 workers: not an official count of fashion-mnist")));
  options_.fixed_batch = true;
  options_.max_steps = "10";
  EXPECT_EQ(plan_runs(options_, facts_).front().division, "throughput");
  options_.max_steps = "";
  EXPECT_THAT(error(), HasSubstr("--max-steps, --max-epochs or --max-time"));
  options_.max_steps = "10";
  options_.checkpoint_every = "5";
  EXPECT_THAT(error(), HasSubstr("keeps no weights: leave out --checkpoint-every"));
  options_.checkpoint_every = "";
  options_.to_the_end = true;
  EXPECT_THAT(error(), HasSubstr("has no goal: leave out --to-the-end"));
}

TEST_F(Plan, AnEmulatedStepMeasuresThroughputAndSaysSo) {
  options_.compute = "emulated=150ms";
  const auto runs = plan_runs(options_, facts_);
  EXPECT_EQ(runs.front().emulated_step_s, 0.15);
  EXPECT_EQ(runs.front().division, "throughput");
  EXPECT_EQ(runs.front().asked.at("compute"), "emulated=150ms") << "the same request makes the same run";
  EXPECT_THAT(plan_warnings(runs, 8), ElementsAre("steps are emulated (--compute): nothing is learnt or evaluated, "
                                                  "and no goal is reached"));
  options_.light = true;
  EXPECT_EQ(error(), "--compute measures throughput and has no goal: leave out --light");
  options_.light = false;
  options_.compute = "150ms";
  EXPECT_THAT(error(), HasSubstr("--compute '150ms' is not 'emulated=STEP'"));
}

TEST_F(Plan, ACopyWithAnotherTargetIsOnesOwn) {
  options_.task = "fashion-mnist.toml";
  for (const spec::TaskSource& source : spec::embedded_tasks()) {
    if (source.name == "fashion-mnist.toml") options_.task_text = source.text;
  }
  EXPECT_EQ(plan_runs(options_, facts_).front().division, "closed");
  options_.task_text.replace(options_.task_text.find("target = 91.5"), 13, "target = 86");
  const auto runs = plan_runs(options_, facts_);
  EXPECT_EQ(runs.front().division, "own");
  EXPECT_THAT(plan_warnings(runs, 8),
              ElementsAre(AllOf(HasSubstr("fashion-mnist, task hash "), HasSubstr("so the runs are of division own"))));
}

TEST_F(Plan, UnknownMetricsAreRefusedBeforeAnythingIsPrepared) {
  options_.overrides = {R"(evaluation.metrics=["Prec@1", "Prec@2"])"};
  EXPECT_THAT(error(), testing::StartsWith("unknown metric 'Prec@2': did you mean 'Prec@1' or 'Prec@5'? valid: loss, "
                                           "Prec@1, Prec@5, F1-Score, Dice Coefficient"));
}

TEST_F(Plan, AnotherDataSetOfTheSameShapeStaysClosed) {
  options_.data = "mnist";
  const auto run = plan_runs(options_, facts_).front();
  EXPECT_EQ(run.data_name, "mnist");
  EXPECT_EQ(run.division, "closed");
  EXPECT_THAT(run.overrides, IsEmpty());
}

TEST_F(Plan, DataOfAnotherDimensionOpenTheRun) {
  options_.task = "2a";
  options_.data = "epsilon-sample";
  EXPECT_EQ(plan_runs(options_, facts_)[0].division, "closed");
  options_.data = "madelon";
  const auto run = plan_runs(options_, facts_)[0];
  EXPECT_EQ(run.division, "open");
  EXPECT_EQ(run.task.task.data.sample_shape, std::vector<int64_t>{500});
  EXPECT_EQ(run.task.task.data.name, "epsilon") << "what the task is about stays in the record";
}

TEST_F(Plan, DataOfAnotherShapeAreCutWhereTheTaskCuts) {
  options_.data = "cifar-100";
  options_.overrides = {"data.train_transform=[\"crop_flip\"]", "data.eval_transform=[\"center_crop\"]"};
  const auto shape = [&] { return plan_runs(options_, facts_)[0].task.task.data.sample_shape; };
  EXPECT_EQ(shape(), (std::vector<int64_t>{3, 32, 32})) << "images of one channel cannot be cut out of these";
  options_.overrides.emplace_back("data.sample_shape=[3, 28, 28]");
  EXPECT_EQ(shape(), (std::vector<int64_t>{3, 28, 28}));
}

TEST_F(Plan, DataOfOtherClassesAndAnotherModelOpenTheRun) {
  options_.task = "1a";
  options_.data = "cifar-100";
  options_.overrides = {"model.name=vgg-cifar", "model.depth=19"};
  const auto run = plan_runs(options_, facts_)[0];
  EXPECT_EQ(run.division, "open");
  EXPECT_EQ(run.data_name, "cifar-100");
  EXPECT_EQ(run.task.task.data.classes, 100);
  EXPECT_EQ(run.task.task.model.name, "vgg-cifar");
  EXPECT_EQ(run.task.task.model.options, Json({{"depth", 19}})) << "without the options of the task's model";
}

TEST_F(Plan, WrongChoicesListTheValidOnes) {
  options_.backend = "nccl";
  EXPECT_THAT(error(), AllOf(HasSubstr("backend 'nccl' is not available here: no GPU"), HasSubstr("valid: gloo")));
  options_.backend = "mpi";
  EXPECT_THAT(error(), AllOf(HasSubstr("unknown backend 'mpi'"), HasSubstr("valid: gloo"),
                             HasSubstr("not available: nccl: no GPU")));
  options_.backend = "";
  options_.framework = "torhc";
  EXPECT_THAT(error(), AllOf(HasSubstr("did you mean 'torch'?"), HasSubstr("valid: torch, null")));
  options_.framework = "";
  options_.executor = "slurn";
  EXPECT_THAT(error(), HasSubstr("unknown executor 'slurn': did you mean 'slurm'? valid: local"));
  options_.executor = "local";
  options_.data = "celeba";
  EXPECT_THAT(error(), HasSubstr("fashion-mnist"));
  options_.data = "";
  options_.task = "fashoin-mnist";
  EXPECT_THAT(error(), HasSubstr("fashion-mnist"));
  options_.task = "";
  EXPECT_THAT(error(), AllOf(HasSubstr("no task: give --task TASK"), HasSubstr("fashion-mnist")));
}

TEST_F(Plan, WrongNumbersSayWhatIsExpected) {
  options_.workers = {"two"};
  EXPECT_THAT(error(), HasSubstr("worker count 'two' is not a whole number from 1 to 10000"));
  options_.workers = {"0"};
  EXPECT_THAT(error(), HasSubstr("worker count '0'"));
  options_.workers = {"2", "2"};
  EXPECT_THAT(error(), HasSubstr("--repeat"));
  options_.workers = {"1"};
  options_.max_time = "soon";
  EXPECT_THAT(error(), HasSubstr("--max-time 'soon' is not a time"));
  options_.max_time = "";
  options_.checkpoint_every = "often";
  EXPECT_THAT(error(),
              HasSubstr("--checkpoint-every 'often' is neither a number of steps from 1 to 1000000000000 nor 'epoch'"));
  options_.checkpoint_every = "";
  options_.seed = "-1";
  EXPECT_THAT(error(), HasSubstr("--seed '-1'"));
  options_.seed = "";
  options_.max_epochs = "0";
  EXPECT_THAT(error(), HasSubstr("--max-epochs '0'"));
  options_.max_epochs = "";
  options_.name = "a b";
  EXPECT_THAT(error(), HasSubstr("run name 'a b' is not valid"));
  options_.name = "r";
  options_.data_dir = "/no/such/folder";
  EXPECT_THAT(error(), HasSubstr("--data-dir '/no/such/folder' is not a folder"));
  EXPECT_EQ(data_dirs("s3://bucket/data", "/home").front(), "s3://bucket/data") << "no path of this machine";
}

// No value outside of its range is planned, whether it comes over REST or from the command line.
TEST_F(Plan, NoNumberBeyondItsRangeIsPlanned) {
  options_.task = "1b-resnet50";  // whose images are decoded
  facts_.catalog["backends"][0]["tunables"] = {"links", "socket_buffer", "interface"};
  const Json good = spec::to_json(options_);
  const auto planned = [&](const Json& request) -> std::string {
    try {
      for (const spec::RunSpec& run : plan_runs(spec::run_options_from_json(request, catalog::run_options()), facts_)) {
        EXPECT_EQ(spec::run_spec_from_json(Json::parse(spec::to_json(run).dump())), run) << request;
      }
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  ASSERT_EQ(planned(good), "");
  for (const spec::RunOption& option : catalog::run_options()) {
    const bool list = option.kind == spec::OptionKind::kCounts;
    const bool number = option.range.most > 0 && option.kind != spec::OptionKind::kTexts;
    if (!number) continue;
    const std::string name(option.name);
    for (const Json& value : {Json(option.range.least / 2), Json(-option.range.most), Json(option.range.most * 1.001),
                              Json(1e308), Json(1e18), Json(int64_t{9'000'000'000'000'000'000}), Json("1e308h"),
                              Json("nan"), Json("inf"), Json("abc"), Json(" "), Json(true)}) {
      Json request = good;
      request[name] = list ? Json::array({value}) : value;
      EXPECT_THAT(planned(request), testing::Not("")) << request;
    }
    for (const double end : {option.range.least, option.range.most}) {
      const bool real = option.kind == spec::OptionKind::kReal || option.kind == spec::OptionKind::kCpus ||
                        option.kind == spec::OptionKind::kDuration;
      const Json value = real ? Json(end) : Json(static_cast<int64_t>(end));
      Json request = good;
      request["workers"] = {1};
      if (option.name == "ranks_per_host") request["executor"] = "slurm";
      if (option.kind == spec::OptionKind::kCpus) {
        request["executor"] = "kubernetes";
        request["image"] = "worker:1";
      }
      if (option.name == "requeue") {
        request["executor"] = "slurm";
        request["checkpoint_every"] = "10";
      }
      request[name] = list ? Json::array({value}) : value;
      const std::string answer = planned(request);
      if (answer.empty()) continue;
      EXPECT_THAT(answer, HasSubstr("a host of 8 cores starts at most")) << request;
    }
  }
}

TEST_F(Plan, AHostBearsSoManyRanksAndThreads) {
  options_.workers = {"128"};
  EXPECT_EQ(plan_runs(options_, facts_).size(), 1U);
  options_.workers = {"1", "129"};
  EXPECT_EQ(error(), "129 workers: a host of 8 cores starts at most 128");
  options_.workers = {"1", "2"};
  options_.threads_per_worker = "512";
  EXPECT_EQ(plan_runs(options_, facts_).size(), 2U);
  options_.threads_per_worker = "513";
  EXPECT_EQ(error(), "2 workers with 513 threads each are 1026 threads; a host of 8 cores starts at most 1024");
  options_.threads_per_worker.clear();
  facts_.cores = 5000;  // more than one worker may have
  options_.workers = {"1"};
  EXPECT_EQ(plan_runs(options_, facts_).front().threads_per_worker, 1024);
  EXPECT_EQ(most_ranks(64), 1024);
  EXPECT_EQ(most_threads(64), 4096);
}

// The limit of time is generous: it is against work that grows with the square of a list.
TEST_F(Plan, TheLargestRequestIsPlannedSoon) {
  options_.workers = {"1"};
  options_.repeat = "1000";
  options_.overrides.assign(1000, "epochs=1");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(plan_runs(options_, facts_).size(), 1000U);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST_F(Plan, OptionsOfTasksAndOfCommandsAreRefusedWithTheOther) {
  options_.environment = {"A=1"};
  EXPECT_EQ(error(), "--env is an option of a command: give one behind --");
  options_ = {};
  options_.name = "c";
  options_.workers = {"1"};
  options_.command = {"/bin/true"};
  options_.work_dir = folder_.path();
  EXPECT_EQ(error(), "no error");
  for (bool RunOptions::*flag : {&RunOptions::explain, &RunOptions::profile, &RunOptions::light, &RunOptions::synthetic,
                                 &RunOptions::fixed_batch, &RunOptions::overlap, &RunOptions::timeline}) {
    options_.*flag = true;
    EXPECT_THAT(error(),
                flag == &RunOptions::light
                    ? HasSubstr("--light belongs to a task: say which one the command trains, with --task TASK")
                    : HasSubstr("is an option of tasks: give it to your command, behind --"));
    options_.*flag = false;
  }
}

TEST_F(Plan, ACommandDeclaresWhatItTrains) {
  options_.synthetic = false;
  options_.command = {"/bin/true"};
  options_.work_dir = folder_.path();
  options_.workers = {"3"};
  options_.light = true;
  spec::RunSpec run = plan_runs(options_, facts_).front();
  EXPECT_TRUE(spec::declares_task(run));
  EXPECT_EQ(run.division, "custom");
  EXPECT_EQ(run.framework, "custom");
  EXPECT_EQ(run.task.task.name, "fashion-mnist");
  EXPECT_EQ(run.task.hash, spec::find_task("fashion-mnist", "", "", {}).hash);
  EXPECT_EQ(run.data_name, "fashion-mnist");
  EXPECT_TRUE(run.limits.light);
  EXPECT_THAT(plan_warnings({run}, facts_.cores), IsEmpty()) << "any number of workers is the command's own";

  options_.light = false;
  options_.goal = "loss<=0.3";
  options_.data = "mnist";
  run = plan_runs(options_, facts_).front();
  EXPECT_EQ(run.data_name, "mnist");
  EXPECT_EQ(run.task.task.goal.metric, "loss");
  EXPECT_EQ(run.task.task.goal.target, 0.3);
  EXPECT_EQ(spec::run_spec_from_json(spec::to_json(run)), run);
  const spec::RunSpec again = plan_runs(spec::run_options_from_json(run.asked, catalog::run_options()), facts_).front();
  EXPECT_EQ(again.task, run.task);

  options_.data = "mnisd";
  EXPECT_THAT(error(), HasSubstr("did you mean 'mnist'?"));
  options_.data.clear();
  options_.task = "0a";
  EXPECT_THAT(error(), HasSubstr("task 0a measures all-reduce and trains nothing"));
}

TEST_F(Plan, AGoalOfOnesOwnOpensTheRun) {
  options_.workers = {"1"};
  EXPECT_EQ(plan_runs(options_, facts_).front().division, "closed");
  options_.goal = "Prec@1>=80";
  const spec::RunSpec run = plan_runs(options_, facts_).front();
  EXPECT_EQ(run.division, "open");
  EXPECT_EQ(spec::to_json(run)["task"]["canonical"]["goal"]["target"], 80);
  EXPECT_EQ(run.asked["goal"], "Prec@1>=80");
  EXPECT_EQ(plan_frozen_task(options_).task.goal.target, 80);

  options_.light = true;
  EXPECT_EQ(error(), "--goal and --light name a target each: leave out one");
  options_.light = false;
  options_.overrides = {"goal.target=90"};
  EXPECT_EQ(error(),
            "--goal is short for --set goal.target=80, and --set goal.target=90 was given, too: leave out one");
  options_.overrides.clear();
  options_.goal = "Prec@1<=80";
  EXPECT_THAT(error(), AllOf(HasSubstr("of Prec@1 the higher value is better"), HasSubstr("'loss<=VALUE'")));
  options_.goal = "Prec@1>=80";
  options_.fixed_batch = true;
  options_.max_steps = "1";
  EXPECT_EQ(error(), "--fixed-batch measures throughput and has no goal: leave out --goal");
}

TEST_F(Plan, ACommandMayHaveGpus) {
  options_ = {};
  options_.name = "c";
  options_.workers = {"1", "2"};
  options_.command = {"/bin/true"};
  options_.work_dir = folder_.path();
  options_.gpu = true;
  setenv(kVisibleGpus, "0,1", 1);
  EXPECT_EQ(plan_runs(options_, facts_).back().device, "cuda");
  setenv(kVisibleGpus, "0", 1);
  EXPECT_THAT(error(), HasSubstr("start at most 1 here"));
  setenv(kVisibleGpus, "", 1);
  EXPECT_THAT(error(), HasSubstr("this host has no NVIDIA GPU"));
  options_.environment = {"CUDA_VISIBLE_DEVICES=5"};
  EXPECT_EQ(error(), "no error") << "the user says what ranks see";
  options_.environment.clear();
  options_.executor = "kubernetes";
  options_.engine["image"] = "theirs:1";
  options_.work_dir.clear();
  EXPECT_EQ(plan_runs(options_, facts_).back().device, "cuda") << "its engine says what its nodes have";
  unsetenv(kVisibleGpus);
}

TEST_F(Plan, WhatWasAskedMakesTheSameRunAgain) {
  const auto expect_again = [&] {
    for (const spec::RunSpec& run : plan_runs(options_, facts_)) {
      SCOPED_TRACE(run.asked.dump());
      spec::RunSpec again = plan_runs(spec::run_options_from_json(run.asked, catalog::run_options()), facts_).front();
      again.name = run.name;
      again.repeat = run.repeat;
      EXPECT_EQ(again, run);
    }
  };
  facts_.cores = 4;
  options_.workers = {"1", "2"};  // threads are the fair share of the larger count
  options_.repeat = "2";
  options_.max_time = "90s";
  options_.overlap = options_.light = true;
  expect_again();
  for (const spec::TaskSource& source : spec::embedded_tasks()) {
    if (source.name == "fashion-mnist.toml") write_file_atomically(folder_ / "mine.toml", source.text);
  }
  options_.task = folder_ / "mine.toml";
  expect_again();
}

TEST_F(Plan, OverlapIsAnOverrideThatLeavesARunClosed) {
  options_.overlap = true;
  const spec::RunSpec run = plan_runs(options_, facts_).front();
  EXPECT_EQ(run.overrides, (std::vector<spec::Override>{{"optimizer.overlap", "true"}}));
  EXPECT_EQ(run.task.task.optimizer.options["overlap"], true);
  EXPECT_FALSE(run.task.open);
  options_.overrides = {"optimizer.overlap=false"};
  EXPECT_THAT(error(), HasSubstr("--set optimizer.overlap=false was given, too: leave out one"));
}

TEST_F(Plan, ATimelineLeavesTheTaskAsItIs) {
  const spec::RunSpec plain = plan_runs(options_, facts_).front();
  EXPECT_FALSE(plain.timeline);
  options_.timeline = true;
  const spec::RunSpec run = plan_runs(options_, facts_).front();
  EXPECT_TRUE(run.timeline);
  EXPECT_EQ(run.task.hash, plain.task.hash);
  EXPECT_EQ(run.division, plain.division);
  options_.task = "0a";
  options_.synthetic = false;
  options_.workers = {"2"};
  EXPECT_TRUE(plan_runs(options_, facts_).front().timeline);
}

TEST_F(Plan, HowRanksCommunicateIsCheckedAgainstTheBackEnd) {
  options_.algorithm = "ring";
  EXPECT_EQ(error(), "--algorithm: the back end gloo has no all_reduce 'ring'; valid: auto");
  facts_.catalog["backends"][0].update({{"algorithms", {"auto", "ring"}}, {"tunables", {"links", "socket_buffer"}}});
  options_.links = "2";
  options_.socket_buffer = "64K";
  options_.check_collectives = true;
  const spec::RunSpec run = plan_runs(options_, facts_).front();
  EXPECT_EQ(run.communication,
            (spec::Communication{.check = true, .algorithm = "ring", .links = 2, .socket_buffer_bytes = 65536}));
  EXPECT_EQ(run.division, "closed");
  options_.network_interface = "eth0";
  EXPECT_EQ(error(), "--interface: the back end gloo has no such setting; valid: links, socket_buffer");
}

TEST_F(Plan, BuffersOnGpusNeedABackEndThatTakesThem) {
  options_.task = "0a";
  options_.synthetic = false;
  options_.workers = {"2"};
  options_.gpu = true;
  EXPECT_EQ(error(), "--gpu: backend 'gloo' takes buffers of the host alone; with buffers on GPUs: none here");
  facts_.catalog["backends"][1] = {{"name", "nccl"}, {"available", true}, {"devices", {"cpu", "cuda"}}};
  EXPECT_THAT(error(), HasSubstr("with buffers on GPUs: nccl"));
  options_.backend = "nccl";
  EXPECT_EQ(plan_runs(options_, facts_).front().device, "cuda");
  options_.wire_dtype = "float16";
  EXPECT_EQ(error(), "--wire-dtype works on buffers of the host, and --gpu puts them on GPUs");
}

TEST_F(Plan, Bfloat16IsWarnedOfWhereItIsSlower) {
  options_.workers = {"1"};
  options_.overrides = {"precision=bf16"};
  const std::vector<spec::RunSpec> runs = plan_runs(options_, facts_);
  record::Bfloat16Speed speed{.work = "convolutions", .verdict = "slower", .ratio = 0.6, .low = 0.5, .high = 0.7};
  const auto warned = [&] { return plan_warnings(runs, 8, speed); };
  EXPECT_THAT(warned(), ElementsAre(AllOf(HasSubstr("bfloat16 is slower"), HasSubstr("0.60 (0.50 to 0.70)"),
                                          HasSubstr("--set precision=float32"))));
  speed.verdict = "undecided";
  EXPECT_THAT(warned(), IsEmpty());
  speed = record::bfloat16_speed_not_known("convolutions", "the reason");
  EXPECT_THAT(warned(), ElementsAre(HasSubstr("is not known: the reason")));
}

TEST_F(Plan, TheSpeedOfBfloat16IsThatOfTheRanksHost) {
  options_.workers = {"1"};
  const auto speed = [&](const std::filesystem::path& worker) {
    return bfloat16_speed_of(plan_runs(options_, facts_), worker, facts_.home);
  };
  EXPECT_EQ(speed("/no/worker"), std::nullopt) << "float32";
  options_.overrides = {"precision=bf16"};
  EXPECT_EQ(speed("/no/worker").value().verdict, "not known");
  EXPECT_THAT(speed("/no/worker").value().reason, HasSubstr("/no/worker"));
  if (processor_kind().empty()) GTEST_SKIP() << "missing capability: /proc/cpuinfo with the processor's model";

  const record::Bfloat16Place place{facts_.home / "cache", build_info().build_id, "torch"};
  record::keep_bfloat16_speed(place, {.work = "convolutions", .verdict = "slower", .ratio = 0.6});
  record::keep_bfloat16_speed(place, {.work = "products", .verdict = "faster", .ratio = 2});
  EXPECT_EQ(speed(program_path()).value().verdict, "slower") << "of the program with this build";
  options_.task = "2a";
  EXPECT_EQ(speed(program_path()).value().verdict, "faster") << "a model without convolutions";

  std::vector<spec::RunSpec> elsewhere = plan_runs(options_, facts_);
  elsewhere.front().executor = "mpirun";
  EXPECT_THAT(bfloat16_speed_of(elsewhere, program_path(), facts_.home).value().reason, HasSubstr("on other hosts"));
}

TEST_F(Plan, AMadeNetworkOrAnotherTypeOnTheWireOpensARun) {
  options_.netem = "latency=1ms;0>3:latency=2ms";
  EXPECT_THAT(error(), HasSubstr("0>3, but with 1 workers"));
  options_.netem = "latency=1ms";
  options_.wire_dtype = "bfloat16";
  const auto runs = plan_runs(options_, facts_);
  EXPECT_EQ(runs.front().division, "open");
  EXPECT_THAT(plan_warnings(runs, 8), ElementsAre(HasSubstr("float32 travels as bfloat16"), HasSubstr("synthetic")));
  options_.task = "0a";
  options_.synthetic = false;
  options_.workers = {"2"};
  const auto benchmark = plan_runs(options_, facts_);
  EXPECT_EQ(benchmark.back().communication, runs.back().communication);
  EXPECT_EQ(benchmark.back().division, "open");
  options_.algorithm = "ring";
  EXPECT_THAT(error(), HasSubstr("--netem with --algorithm"));
}

TEST_F(Plan, ATaskMayBeAFile) {
  std::ofstream(folder_.path() / "mine.toml") << "name = \"mine\"\n";
  options_.task = folder_.path() / "mine.toml";
  EXPECT_THAT(error(), HasSubstr("mine.toml"));
  options_.rules = "2021";
  EXPECT_THAT(error(), HasSubstr("--rules"));
}

}  // namespace
}  // namespace mlbench::plan
