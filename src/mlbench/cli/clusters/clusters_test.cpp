// Tests of the built program with the test's own programs in PATH, which keep the words that they were called with; and
// tests of the parts behind it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/cli/clusters/config.h"
#include "mlbench/cli/clusters/defaults.h"
#include "mlbench/cli/clusters/host_check.h"
#include "mlbench/cli/clusters/port_forward.h"
#include "mlbench/cli/clusters/provider.h"
#include "mlbench/home/owner.h"

namespace mlbench::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr auto kPatience = 60s;
const std::string kToken(48, 't');

struct Result {
  int code = 0;
  std::string out, err;
};

class ClusterVerbs : public testing::Test {
 protected:
  ClusterVerbs() {
    fs::create_directories(bin());
    fs::create_directories(chart());
    std::ofstream(chart() / "Chart.yaml") << "name: mlbench\n";
    environment_ = {{"MLBENCH_HOME", home().string()},
                    {"PATH", bin().string() + ":/usr/bin:/bin"},
                    {"CALLS", (folder_ / "calls").string()},
                    {"TOKEN", kToken},
                    {"MLBENCH_WORKER_IMAGE", "lab.example/mlbench-worker:7"},
                    {"KUBECONFIG", ""}};
    for (const char* name : {"gcloud", "eksctl", "aws", "kind", "docker", "helm", "sinfo", "scontrol"}) fake(name, "");
    fake("kubectl", "case \" $* \" in *' get secret '*) printf %s \"$TOKEN\";; *current-context*) echo lab;; esac");
  }

  void TearDown() override {
    for (const auto& [name, cluster] : read_clusters(home()).known) {
      if (cluster.home.empty()) continue;
      if (const auto master = home::find_master(cluster.home)) kill(master->pid, SIGKILL);
    }
  }

  fs::path home() const { return folder_ / "home"; }
  fs::path bin() const { return folder_ / "bin"; }
  fs::path chart() const { return folder_ / "chart"; }

  // Makes a program that keeps its words, one call per line with blanks between [words], and then does `body`.
  void fake(const std::string& name, const std::string& body) const {
    std::ofstream(bin() / name) << "#!/bin/sh\n{ printf '" << name
                                << R"('; for word in "$@"; do printf ' [%s]' "$word"; done; )"
                                << "printf '%s\\n' \"${KUBECONFIG:+ KUBECONFIG=$KUBECONFIG}\"; } >> \"$CALLS\"\n"
                                << body << "\n";
    fs::permissions(bin() / name, fs::perms::owner_all);
  }

  std::vector<std::string> calls() const {
    std::ifstream file(folder_ / "calls");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
      for (const auto& [path, name] : {std::pair(home(), "HOME"), std::pair(chart(), "CHART")}) {
        for (size_t at = 0; (at = line.find(path.string())) != std::string::npos;) {
          line.replace(at, path.string().size(), name);
        }
      }
      lines.push_back(line);
    }
    return lines;
  }

  Result mlbench(std::vector<std::string> words) const {
    words.insert(words.begin(), environment_variable("MLBENCH_TEST_MLBENCH").value());
    ProcessOptions options;
    options.arguments = std::move(words);
    options.environment = environment_;
    const ProcessOutput output = run_process(options, kPatience);
    return {output.end.code, output.standard_output, output.standard_error};
  }

  Result create(const std::string& provider, std::vector<std::string> words) const {
    words.insert(words.begin(), {"create-cluster", provider});
    if (provider != "slurm" && provider != "hosts") words.insert(words.end(), {"--chart", chart().string()});
    return mlbench(words);
  }

  std::string without_paths(std::string text) const {
    for (const auto& [path, name] : {std::pair(home(), "HOME"), std::pair(chart(), "CHART")}) {
      for (size_t at = 0; (at = text.find(path.string())) != std::string::npos;) {
        text.replace(at, path.string().size(), name);
      }
    }
    return text;
  }

  TemporaryFolder folder_;
  std::map<std::string, std::string> environment_;
};

std::string chart_calls(const std::string& name, const std::string& helm, const std::string& kubectl,
                        const std::string& limits) {
  return fmt::format(
      "helm [upgrade] [--install] [{0}] [CHART] {1} [--namespace] [mlbench] [--create-namespace] {3} [--wait] "
      "[--timeout] [10m]\nkubectl {2} [--namespace] [mlbench] [get] [secret] [{0}-token] [-o] "
      "[go-template={{{{.data.token|base64decode}}}}]",
      name, helm, kubectl, limits);
}

std::string limits(int workers, int cpus, int gpus, const std::string& repository = "lab.example/mlbench-worker",
                   const std::string& tag = "7") {
  return fmt::format(
      "[--set] [limits.workers={}] [--set] [limits.cpu={}] [--set] [limits.gpu={}] "
      "[--set] [master.image.repository={}] [--set-string] [master.image.tag={}] "
      "[--set] [worker.image.repository={}] [--set-string] [worker.image.tag={}]",
      workers, cpus, gpus, repository, tag, repository, tag);
}

std::string kubeconfig(const std::string& name) {
  return fmt::format("[--kubeconfig] [HOME/clusters/{}/kubeconfig]", name);
}

std::string lines_of(const std::vector<std::string>& lines) {
  std::ostringstream text;
  for (const std::string& line : lines) text << line << "\n";
  return text.str();
}

struct ProviderCase {
  std::string provider;
  std::vector<std::string> words;
  std::string name;
  std::string calls;
};

TEST_F(ClusterVerbs, EveryProviderCallsItsToolsWithExactlyTheseWords) {
  const std::string gcloud_file = " KUBECONFIG=HOME/clusters/my-cluster-3/kubeconfig";
  const ProviderCase cases[] = {
      {"gcloud",
       {"3", "my-cluster"},
       "my-cluster-3",
       "gcloud [container] [clusters] [create] [my-cluster-3] [--zone] [europe-west1-b] [--quiet] [--num-nodes] [3] "
       "[--machine-type] [n1-standard-4] [--disk-size] [50]" +
           gcloud_file +
           "\ngcloud [container] [clusters] [get-credentials] [my-cluster-3] [--zone] [europe-west1-b] [--quiet]" +
           gcloud_file + "\n" +
           chart_calls("my-cluster-3", kubeconfig("my-cluster-3"), kubeconfig("my-cluster-3"), limits(2, 3, 0))},
      {"gcloud",
       {"-z",
        "europe-west2-b",
        "-p",
        "lab",
        "-k",
        "1.33",
        "-t",
        "n1-standard-8",
        "-d",
        "80",
        "-c",
        "8",
        "-g",
        "2",
        "-e",
        "--image",
        "10.0.0.1:5000/a/worker@sha256:00ff",
        "-v",
        "store.size=5Gi",
        "-v",
        "note=a b;c",
        "5",
        "big"},
       "big-5",
       "gcloud [container] [clusters] [create] [big-5] [--zone] [europe-west2-b] [--project] [lab] [--quiet] "
       "[--num-nodes] [5] [--machine-type] [n1-standard-8] [--disk-size] [80] [--cluster-version] [1.33] "
       "[--accelerator] [type=nvidia-tesla-t4,count=2,gpu-driver-version=default] [--spot] "
       "KUBECONFIG=HOME/clusters/big-5/kubeconfig\n"
       "gcloud [container] [clusters] [get-credentials] [big-5] [--zone] [europe-west2-b] [--project] [lab] [--quiet] "
       "KUBECONFIG=HOME/clusters/big-5/kubeconfig\n" +
           chart_calls("big-5", kubeconfig("big-5"), kubeconfig("big-5"),
                       limits(4, 7, 2, "10.0.0.1:5000/a/worker@sha256", "00ff") +
                           " [--set] [store.size=5Gi] [--set] [note=a b;c]")},
      {"aws",
       {"3", "my-cluster", "-z", "eu-west-1"},
       "my-cluster-3",
       "eksctl [create] [cluster] [--name] [my-cluster-3] [--nodes] [3] [--node-type] [t2.medium] " +
           kubeconfig("my-cluster-3") +
           " [--region] [eu-west-1]\neksctl [create] [addon] [--name] [aws-ebs-csi-driver] [--cluster] [my-cluster-3] "
           "[--region] [eu-west-1]\n" +
           chart_calls("my-cluster-3", kubeconfig("my-cluster-3"), kubeconfig("my-cluster-3"), limits(2, 1, 0))},
      {"kind",
       {"3", "my-cluster", "-k", "1.34.0"},
       "my-cluster-3",
       "docker [image] [inspect] [lab.example/mlbench-worker:7]\n"
       "docker [pull] [lab.example/mlbench-worker:7]\n"
       "kind [create] [cluster] [--name] [my-cluster-3] [--config] [HOME/clusters/my-cluster-3/kind.json] " +
           kubeconfig("my-cluster-3") +
           " [--wait] [5m] [--image] [kindest/node:v1.34.0]\n"
           "docker [start] [kind-registry]\n"
           "docker [run] [--detach] [--restart] [always] [--network] [kind] [--publish] [127.0.0.1:5000:5000] [--env] "
           "[REGISTRY_HTTP_ADDR=:5000] [--name] [kind-registry] [registry:2]\n"
           "docker [tag] [lab.example/mlbench-worker:7] [localhost:5000/mlbench-worker:7]\n"
           "docker [push] [localhost:5000/mlbench-worker:7]\n" +
           chart_calls("my-cluster-3", kubeconfig("my-cluster-3"), kubeconfig("my-cluster-3"),
                       limits(2, 1, 0, "localhost:5000/mlbench-worker"))},
      {"kubernetes",
       {"3", "my-cluster", "--context", "lab one"},
       "my-cluster-3",
       chart_calls("my-cluster-3", "[--kube-context] [lab one]", "[--context] [lab one]", limits(2, 3, 0))},
      {"slurm", {"lab", "-p", "gpu", "--slurm-option", "account=x"}, "lab", "scontrol [show] [partition] [gpu]"},
  };
  fake("docker", "case $1 in start|image) exit 1;; esac");
  for (const ProviderCase& one : cases) {
    fs::remove_all(home());
    fs::remove(folder_ / "calls");
    const Result result = create(one.provider, one.words);
    ASSERT_EQ(result.code, 0) << one.provider << ": " << result.err;
    EXPECT_THAT(result.out, StartsWith("MLBench successfully deployed\n"));
    EXPECT_EQ(lines_of(calls()), one.calls + "\n") << one.provider;
    const Clusters clusters = read_clusters(home());
    EXPECT_EQ(clusters.current, one.name);
    ASSERT_TRUE(clusters.known.contains(one.name));
    const Cluster& cluster = clusters.known.at(one.name);
    EXPECT_FALSE(cluster.incomplete);
    if (cluster.release.empty()) continue;
    EXPECT_EQ(read_file(cluster.token_file), kToken);
    struct stat info {};
    ASSERT_EQ(stat(cluster.token_file.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
  }
}

std::string words_about(const std::vector<std::string>& calls, const std::string& word) {
  for (const std::string& call : calls) {
    if (call.find(word) != std::string::npos) return call;
  }
  return "";
}

TEST_F(ClusterVerbs, NodesOfACloudAreGivenAnImageThatTheyReach) {
  environment_["MLBENCH_WORKER_IMAGE"] = "";
  for (const char* provider : {"gcloud", "aws", "kubernetes"}) {
    std::vector<std::string> words = {"3", "lab"};
    if (provider == std::string("kubernetes")) words.insert(words.end(), {"--context", "lab"});
    const Result none = create(provider, words);
    EXPECT_EQ(none.code, 2) << provider;
    EXPECT_THAT(none.err, AllOf(HasSubstr("which image"), HasSubstr("MLBENCH_WORKER_IMAGE"), HasSubstr("build.sh")));
  }
  for (const char* image : {"localhost/mlbench-worker:1", "localhost:5000/mlbench-worker"}) {
    EXPECT_THAT(create("gcloud", {"3", "lab", "--image", image}).err, HasSubstr("no node of gcloud finds it"));
  }
  for (const char* image : {"a b", "x,y=z", "-x", "x:", ":1", "lab.example/", "lab.example/x:{a}"}) {
    const Result result = create("gcloud", {"3", "lab", std::string("--image=") + image});
    EXPECT_EQ(result.code, 2) << image;
    EXPECT_THAT(result.err, HasSubstr("expected an image as in")) << image;
  }
  EXPECT_THAT(calls(), IsEmpty());

  const Result by_values = create("gcloud", {"3", "lab", "-v", "master.image.repository=lab.example/m", "-v",
                                             "worker.image.repository=lab.example/w"});
  EXPECT_EQ(by_values.code, 0) << by_values.err;
  EXPECT_THAT(words_about(calls(), "helm"),
              AllOf(HasSubstr("[--set] [limits.gpu=0] [--set] [master.image.repository=lab.example/m] [--set] "
                              "[worker.image.repository=lab.example/w] [--wait]")));
}

TEST_F(ClusterVerbs, KindHasTheImageThatWasBuiltHere) {
  environment_["MLBENCH_WORKER_IMAGE"] = "";
  ASSERT_EQ(create("kind", {"2", "lab", "-p", "5001"}).code, 0);
  EXPECT_EQ(calls().front(), "docker [image] [inspect] [localhost/mlbench-worker:latest]");
  EXPECT_EQ(words_about(calls(), "[tag]"),
            "docker [tag] [localhost/mlbench-worker:latest] [localhost:5001/mlbench-worker:latest]");
  EXPECT_EQ(words_about(calls(), "[push]"), "docker [push] [localhost:5001/mlbench-worker:latest]");
  EXPECT_THAT(words_about(calls(), "helm"), HasSubstr("[--set] [worker.image.repository=localhost:5001/mlbench-worker] "
                                                      "[--set-string] [worker.image.tag=latest]"));

  fs::remove(folder_ / "calls");
  fake("docker", "case $1 in image|pull) echo 'not there' >&2; exit 1;; esac");
  const Result missing = create("kind", {"2", "other"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("build.sh --engine docker worker"), HasSubstr("nothing was made")));
  EXPECT_EQ(words_about(calls(), "kind [create]"), "");
}

TEST_F(ClusterVerbs, AClusterIsOfItsProvider) {
  ASSERT_EQ(create("slurm", {"lab", "-p", "gpu"}).code, 0);
  EXPECT_EQ(mlbench({"set-cluster", "local", "local"}).code, 0);
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"set-cluster", "gcloud", "lab"}, {"set-cluster", "gcloud", "local"}, {"set-cluster", "local", "lab"}}) {
    const Result result = mlbench(words);
    EXPECT_EQ(result.code, 2) << testing::PrintToString(words);
    EXPECT_THAT(result.err, HasSubstr("no cluster of " + words[1])) << testing::PrintToString(words);
    EXPECT_EQ(read_clusters(home()).current, "");
  }
  EXPECT_EQ(mlbench({"set-cluster", "slurm", "lab"}).code, 0);
  EXPECT_EQ(read_clusters(home()).current, "lab");
}

// A real master, with the verbs of real runs against it; the test's own programs take no part.
TEST_F(ClusterVerbs, AClusterOfThisMachineIsAMasterWithAHomeOfItsOwn) {
  const Result made = mlbench({"create-cluster", "local", "2", "lab"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, StartsWith("MLBench successfully deployed\n"));
  const Cluster cluster = read_clusters(home()).known.at("lab-2");
  EXPECT_EQ(cluster.provider, "local");
  EXPECT_EQ(cluster.nodes, 2);
  EXPECT_EQ(cluster.home, home() / "clusters/lab-2/home");
  const auto first = home::find_master(cluster.home);
  ASSERT_TRUE(first);
  EXPECT_EQ(mlbench({"list-clusters"}).out, "* lab-2  local, 2 nodes\n");
  const Result url = mlbench({"get-dashboard-url"});
  EXPECT_EQ(url.code, 0) << url.err;
  EXPECT_THAT(url.out, HasSubstr(first->url));
  EXPECT_EQ(mlbench({"status"}).code, 0) << "it is asked";

  // The master was ended, for instance by a restart of the machine; choosing the cluster starts it.
  ASSERT_EQ(kill(first->pid, SIGKILL), 0);
  for (int i = 0; i < 600 && home::find_master(cluster.home); ++i) std::this_thread::sleep_for(50ms);
  ASSERT_EQ(mlbench({"set-cluster", "local", "lab-2"}).code, 0);
  const auto second = home::find_master(cluster.home);
  ASSERT_TRUE(second);
  EXPECT_NE(second->pid, first->pid);

  const Result gone = mlbench({"delete-cluster", "local", "lab-2", "--yes"});
  EXPECT_EQ(gone.code, 0) << gone.err;
  EXPECT_EQ(gone.out, "deleted lab-2\n");
  EXPECT_FALSE(home::find_master(cluster.home));
  EXPECT_FALSE(fs::exists(home() / "clusters/lab-2"));
  EXPECT_EQ(mlbench({"delete-cluster", "local", "lab-2"}).out,
            "no cluster lab-2 of local is known: nothing to delete\n");
}

TEST_F(ClusterVerbs, ADryRunReadsAsAnOperatorTypes) {
  const Result result = create("kind", {"2", "lab", "--dry-run"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(calls(), IsEmpty());
  EXPECT_FALSE(fs::exists(home() / "clusters.toml"));
  const std::string out = without_paths(result.out);
  EXPECT_THAT(out, StartsWith("docker image inspect lab.example/mlbench-worker:7 >/dev/null 2>&1 || docker pull "
                              "lab.example/mlbench-worker:7\nprintf '%s\\n' "
                              "'[host.\"http://kind-registry:5000\"]' > "));
  EXPECT_THAT(out, HasSubstr("\nkind create cluster --name lab-2 --config HOME/clusters/lab-2/kind.json --kubeconfig "
                             "HOME/clusters/lab-2/kubeconfig --wait 5m\n"
                             "docker start kind-registry >/dev/null 2>&1 || docker run --detach --restart always "
                             "--network kind --publish 127.0.0.1:5000:5000 --env "));
  EXPECT_THAT(out, HasSubstr("\ndocker tag lab.example/mlbench-worker:7 localhost:5000/mlbench-worker:7\n"
                             "docker push localhost:5000/mlbench-worker:7\n"
                             "helm upgrade --install lab-2 CHART --kubeconfig HOME/clusters/lab-2/kubeconfig "
                             "--namespace mlbench --create-namespace --set limits.workers=1"));
  const Json json = Json::parse(create("gcloud", {"2", "lab", "--dry-run", "--json"}).out);
  EXPECT_EQ(json.at("name"), "lab-2");
  EXPECT_EQ(json.at("commands").size(), 4u);
  EXPECT_THAT(json.at("commands")[0].get<std::string>(),
              AllOf(StartsWith("KUBECONFIG="), HasSubstr("gcloud container clusters create lab-2 ")));
}

TEST_F(ClusterVerbs, KindNodesAreOneControlPlaneAndWorkers) {
  ASSERT_EQ(create("kind", {"3", "lab"}).code, 0);
  const Json config = Json::parse(read_file(home() / "clusters/lab-3/kind.json"));
  ASSERT_EQ(config.at("nodes").size(), 3u);
  EXPECT_EQ(config["nodes"][0]["role"], "control-plane");
  EXPECT_EQ(config["nodes"][2]["role"], "worker");
  EXPECT_EQ(read_file(home() / "clusters/lab-3/certs.d/localhost:5000/hosts.toml"),
            "[host.\"http://kind-registry:5000\"]\n");
}

TEST_F(ClusterVerbs, AFailureSaysWhatWasMadeAndWhatRemovesIt) {
  const char* const failing[] = {"create", "get-credentials"};
  for (const char* verb : failing) {
    fs::remove_all(home());
    fake("gcloud", fmt::format("echo 'quota of zone' >&2; test \"$3\" != {}", verb));
    const Result result = create("gcloud", {"3", "lab"});
    EXPECT_EQ(result.code, 3) << verb;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, AllOf(HasSubstr("quota of zone"), HasSubstr("ended with 1"), HasSubstr("not done: "),
                                  HasSubstr("until: mlbench delete-cluster gcloud lab-3")));
    EXPECT_TRUE(read_clusters(home()).known.at("lab-3").incomplete);
    EXPECT_EQ(read_clusters(home()).current, "");
    EXPECT_THAT(create("gcloud", {"3", "lab"}).err, HasSubstr("known already"));
  }
  fake("gcloud", "test \"$3\" != list || echo lab-3");
  EXPECT_EQ(mlbench({"delete-cluster", "gcloud", "lab-3"}).code, 0);
  fake("helm", "exit 1");
  const Result chart_fails = create("gcloud", {"3", "lab"});
  EXPECT_EQ(chart_fails.code, 3);
  EXPECT_THAT(chart_fails.err,
              AllOf(HasSubstr("step 3 of 4, the chart"), HasSubstr("done: the cluster, its credentials"),
                    HasSubstr("not done: the master's token")));
}

TEST_F(ClusterVerbs, WhatMadeNothingLeavesNothing) {
  fake("scontrol", "echo 'Partition gpu not found'; exit 1");
  const Result result = create("slurm", {"lab", "-p", "gpu"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, AllOf(HasSubstr("Partition gpu not found"), HasSubstr("nothing was made")));
  EXPECT_THAT(read_clusters(home()).known, IsEmpty());
}

TEST_F(ClusterVerbs, AMissingProgramIsNamedBeforeAnythingIsMade) {
  fs::remove(bin() / "eksctl");
  environment_["PATH"] = bin().string();
  const Result result = create("aws", {"3", "lab"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("PATH lacks eksctl (eksctl.io): install it"));
  EXPECT_FALSE(fs::exists(folder_ / "calls"));
  EXPECT_THAT(read_clusters(home()).known, IsEmpty());
}

TEST_F(ClusterVerbs, WordsThatAreNoneAreRefused) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{"gcloud", "my-cluster"}, "expected NUM NAME"},
      {{"gcloud", "1", "lab"}, "from 2 to 1000"},
      {{"gcloud", "3", "Lab"}, "lower-case letters"},
      {{"gcloud", "3", "lab_x"}, "lower-case letters"},
      {{"gcloud", "3", std::string(40, 'a')}, "at most 40"},
      {{"gcloud", "3", "lab", "-z", "a b"}, "--zone 'a b'"},
      {{"gcloud", "3", "lab", "--project=--quiet"}, "begins with -"},
      {{"gcloud", "3", "lab", "-v", "nothing"}, "expected KEY=VALUE"},
      {{"kind", "3", "lab", "-p", "0"}, "from 1 to 65535"},
      {{"kubernetes", "3", "lab", "--kubeconfig", "/nowhere"}, "is no file"},
      {{"hosts", "lab"}, "which hosts?"},
      {{"hosts", "3", "lab", "-H", "h1,h2"}, "2 hosts are named, and NUM is 3"},
      {{"azure", "3", "lab"}, "azure"},
  };
  for (const auto& [words, text] : cases) {
    std::vector<std::string> command = {"create-cluster"};
    command.insert(command.end(), words.begin(), words.end());
    const Result result = mlbench(command);
    EXPECT_EQ(result.code, 2) << testing::PrintToString(words);
    EXPECT_THAT(result.err, HasSubstr(text)) << testing::PrintToString(words);
  }
  EXPECT_FALSE(fs::exists(folder_ / "calls"));
}

TEST_F(ClusterVerbs, DeletionIsRepeatable) {
  fake("gcloud", "test \"$3\" != list || echo lab-3");
  ASSERT_EQ(create("gcloud", {"-z", "europe-west2-b", "3", "lab"}).code, 0);
  fs::remove(folder_ / "calls");
  EXPECT_THAT(mlbench({"delete-cluster", "aws", "lab-3"}).err, HasSubstr("is a cluster of gcloud"));
  const Result result = mlbench({"delete-cluster", "gcloud", "lab-3"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "deleted lab-3\n");
  EXPECT_THAT(calls(),
              ElementsAre("helm [uninstall] [lab-3] [--kubeconfig] [HOME/clusters/lab-3/kubeconfig] [--namespace] "
                          "[mlbench] [--ignore-not-found] [--wait] [--timeout] [5m]",
                          "gcloud [container] [clusters] [list] [--zone] [europe-west2-b] [--filter] [name=lab-3] "
                          "[--format] [value(name)]",
                          "gcloud [container] [clusters] [delete] [lab-3] [--zone] [europe-west2-b] [--quiet]"));
  EXPECT_THAT(read_clusters(home()).known, IsEmpty());
  EXPECT_FALSE(fs::exists(home() / "clusters/lab-3"));

  fs::remove(folder_ / "calls");
  fake("gcloud", "");
  const Result again = mlbench({"delete-cluster", "gcloud", "lab-3"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(calls(), ElementsAre(HasSubstr("[list] [--zone] [europe-west1-b]")));
  EXPECT_EQ(mlbench({"delete-cluster", "hosts", "lab"}).out, "no cluster lab of hosts is known: nothing to delete\n");
}

TEST_F(ClusterVerbs, ADeletionThatFailsIsNotForgotten) {
  fake("gcloud", "test \"$3\" != list || echo lab-3");
  ASSERT_EQ(create("gcloud", {"3", "lab"}).code, 0);
  fake("gcloud", "exit 1");
  const Result result = mlbench({"delete-cluster", "gcloud", "lab-3"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("still known"));
  EXPECT_TRUE(read_clusters(home()).known.contains("lab-3"));
}

TEST_F(ClusterVerbs, AnswersOnlyWhereItsMasterCanBeReached) {
  ASSERT_EQ(create("kubernetes", {"3", "lab"}).code, 0);
  EXPECT_EQ(read_clusters(home()).known.at("lab-3").context, "lab") << "the current one of then, for ever";
  fake("kubectl", "case \" $* \" in *port-forward*) echo 'error: no such service' >&2; exit 1;; esac");
  const Result result = mlbench({"status"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, AllOf(HasSubstr("no such service"), HasSubstr("port-forward --address 127.0.0.1 "
                                                                        "service/lab-3-master :http")));
}

TEST_F(ClusterVerbs, AClusterOfSlurmGivesItsOptionsToRuns) {
  ASSERT_EQ(create("slurm", {"lab", "-p", "gpu", "--slurm-option", "account=x"}).code, 0);
  Context context;
  context.home_option = home().string();
  spec::RunOptions options;
  options.engine["slurm"] = {"partition=cpu"};
  apply_cluster(context, false, options);
  EXPECT_EQ(options.executor, "slurm");
  EXPECT_EQ(options.engine["slurm"], Json({"account=x", "partition=cpu"}));
  spec::RunOptions local;
  apply_cluster(context, true, local);
  EXPECT_EQ(local.executor, "local") << "it was given";
  EXPECT_THAT(local.engine, IsEmpty());
}

TEST_F(ClusterVerbs, HostsAreCheckedAllAtOnceAndSaidWhatIsWrong) {
  fake("ssh",
       "for host; do case $host in h1|h2|h3) break;; esac; done; case $host in h1) printf '4\\n0.00\\n"
       "{\"build_id\": \"'; printf %s \"$BUILD\"; printf '\"}\\n'; date +%s.%N;; h2) echo 'ssh: connect to host "
       "h2 port 22: No route to host' >&2; exit 255;; h3) exit 127;; esac");
  environment_["BUILD"] = Json::parse(mlbench({"--version", "--json"}).out).at("build_id");
  const Result bad = create("hosts", {"lab", "-H", "h1:2,h2,h3"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, AllOf(HasSubstr("h1  ok     4 cores, 2 slots"), HasSubstr("h2  WRONG  ssh: connect to host h2"),
                             HasSubstr("h3  WRONG  has no mlbench"), HasSubstr("2 of 3 hosts")));
  EXPECT_THAT(read_clusters(home()).known, IsEmpty());
  const Result good = create("hosts", {"1", "lab", "-H", "h1:2"});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(mlbench({"list-clusters"}).out, "* lab-1  hosts h1:2\n");
  Context context;
  context.home_option = home().string();
  spec::RunOptions options;
  apply_cluster(context, false, options);
  EXPECT_EQ(options.executor, "mpirun");
  EXPECT_EQ(options.engine["hosts"], "h1:2");
}

// ---- parts ----------------------------------------------------------------------------------------------------------

ProcessOutput answer_of(const std::string& build, double time, int cores = 4) {
  ProcessOutput answer;
  answer.standard_output = fmt::format("{}\n0.10\n{{\"build_id\": \"{}\"}}\n{:.3f}\n", cores, build, time);
  return answer;
}

TEST(HostChecks, SayWhatIsWrong) {
  const spec::HostSlots host{.name = "h1", .slots = 2};
  const auto problem = [&](const ProcessOutput& answer) {
    return judge_host(host, answer, 1000.0, 1001.0, "abc", "ssh h1").problem;
  };
  EXPECT_EQ(problem(answer_of("abc", 1000.5)), "");
  EXPECT_EQ(problem(answer_of("abc", 1001.4)), "");
  EXPECT_THAT(problem(answer_of("abc", 1013.0)), HasSubstr("12.0 s ahead"));
  EXPECT_THAT(problem(answer_of("abc", 990.0)), HasSubstr("10.0 s behind"));
  EXPECT_THAT(problem(answer_of("def", 1000.5)), HasSubstr("another build of mlbench (def, here abc)"));
  EXPECT_THAT(problem(answer_of("abc", 1000.5, 1)), HasSubstr("1 cores for 2 slots: give at most h1:1"));
  ProcessOutput banner;
  banner.standard_output = "Welcome!\n";
  EXPECT_THAT(problem(banner), HasSubstr("not as expected"));
}

TEST(HostChecks, AskOverSshWithoutAnybodyToAnswer) {
  const auto words = host_question("h1", "/etc/my ssh", "/opt/ml bench");
  ASSERT_EQ(words.size(), 13u);
  EXPECT_EQ(words[0], "ssh");
  EXPECT_EQ(words[2], "/etc/my ssh");
  EXPECT_EQ(words[11], "h1");
  EXPECT_THAT(words[12], HasSubstr("'/opt/ml bench' --version --json"));
}

TEST(ClusterFile, ComesBackAsItWas) {
  const TemporaryFolder home;
  Clusters clusters;
  clusters.known["lab.one"] = {.provider = kMaster, .url = "http://lab:1", .token_file = "/a \"b\"\\c"};
  clusters.known["my-3"] = {.provider = "slurm", .nodes = 3, .incomplete = true, .slurm = {"a=b", "c"}};
  clusters.current = "lab.one";
  write_clusters(home.path(), clusters);
  EXPECT_EQ(read_clusters(home.path()), clusters);
}

TEST(ClusterFile, ADamagedOneSaysWhereAndWhatToDo) {
  const TemporaryFolder home;
  for (const char* text :
       {"[clusters", "[clusters.a]\nurl = 'x'\n", "clusters = 3\n", "[clusters.a]\nprovider = 7\n"}) {
    std::ofstream(home / "clusters.toml") << text;
    try {
      read_clusters(home.path());
      ADD_FAILURE() << text;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("clusters.toml is damaged"), HasSubstr("set-cluster"))) << text;
    }
  }
}

TEST(ClusterFile, OneOfADevelopmentVersionIsRefused) {
  const TemporaryFolder home;
  std::ofstream(home / "clusters.json") << R"({"current": "lab", "clusters": {}})";
  EXPECT_THAT([&] { read_clusters(home.path()); },
              testing::ThrowsMessage<UserError>(
                  (home / "clusters.json").string() +
                  " is of a development version; this program reads clusters.toml: remove it, and name the clusters "
                  "again with 'mlbench set-cluster'"));
  write_clusters(home.path(), {});
  EXPECT_EQ(read_clusters(home.path()), Clusters()) << "beside the one that is read";
}

TEST(ClusterFile, MlbenchsOwnIsTakenOverOnce) {
  const TemporaryFolder home;
  std::ofstream(home / "mlbench.ini") << "[general]\nprovider = gke\n\n[gke]\ncurrent-cluster = a-3\n\n[gke.a-3]\n"
                                         "cluster = 34.76.1.2:32535\nname = a-3\nzone = europe-west2-b\nproject = lab\n"
                                         "[kind.k-2]\ncluster = 172.18.0.2:30000\nregistry_name = kind-registry\n";
  const Clusters clusters = read_clusters(home.path());
  EXPECT_EQ(clusters.current, "");
  EXPECT_EQ(clusters.known.at("a-3"), (Cluster{.provider = "gcloud", .zone = "europe-west2-b", .project = "lab"}));
  EXPECT_EQ(clusters.known.at("k-2"), (Cluster{.provider = "kind", .registry = "kind-registry"}));
  EXPECT_TRUE(fs::exists(home / "mlbench.ini"));
  Clusters none;
  write_clusters(home.path(), none);
  EXPECT_EQ(read_clusters(home.path()), none) << "it is read once";
}

TEST(Forwarding, IsOfTheLoopbackAlone) {
  Cluster cluster{.provider = "kubernetes", .context = "a b", .name_space = "ns", .release = "r-3"};
  EXPECT_THAT(port_forward_command(cluster, 8080),
              ElementsAre("kubectl", "--context", "a b", "--namespace", "ns", "port-forward", "--address", "127.0.0.1",
                          "service/r-3-master", "8080:http"));
  EXPECT_EQ(forwarded_port("Forwarding from 127.0.0.1:40583 -> 8080\n"), 40583);
  EXPECT_EQ(forwarded_port("Forwarding from 127.0.0.1:405"), std::nullopt);
  EXPECT_EQ(forwarded_port("error: pod not found\n"), std::nullopt);
}

TEST(Providers, AreATable) {
  for (const ProviderRow& row : providers()) {
    EXPECT_EQ(&provider(std::string(row.name)), &row);
    EXPECT_NE(row.make(), nullptr);
  }
  EXPECT_THROW(provider("azure"), UserError);
}

}  // namespace
}  // namespace mlbench::cli
