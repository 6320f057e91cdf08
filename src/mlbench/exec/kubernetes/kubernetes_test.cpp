#include "mlbench/exec/kubernetes/kubernetes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <fstream>
#include <map>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/test_error.h"
#include "mlbench/exec/kubernetes/api.h"
#include "mlbench/exec/kubernetes/config.h"
#include "mlbench/exec/kubernetes/job.h"
#include "mlbench/exec/kubernetes/manifest.h"
#include "mlbench/exec/kubernetes/nodes.h"
#include "mlbench/exec/kubernetes/overlay.h"
#include "mlbench/exec/kubernetes/status.h"
#include "mlbench/exec/kubernetes/test_fake_kubernetes.h"
#include "mlbench/exec/kubernetes/yaml.h"
#include "mlbench/exec/linked.h"
#include "mlbench/exec/test_executor.h"
#include "mlbench/exec/test_links.h"
#include "mlbench/supervise/judge.h"

namespace mlbench::exec::kubernetes {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
constexpr auto kPatience = 30s;

LaunchRequest plain_request() {
  LaunchRequest request;
  request.backend = "gloo";
  request.guard = "/opt/mlbench-guard";
  request.command = {"mlbench-worker", "--run-dir", "/home/x/runs/r-4", "--segment", "2"};
  request.workers = 4;
  request.threads = 2;
  request.log_dir = "/home/x/runs/r-4/logs";
  request.segment = 2;
  request.run_name = "r-4";
  request.environment = {{"MLBENCH_RUN_ID", "17"}, {"OMP_NUM_THREADS", "2"}};
  return request;
}

Options with_image() {
  Options engine;
  engine.image = "worker:1";
  return engine;
}

Json template_of(const Objects& objects) { return objects.job.at("spec").at("template"); }
Json container_of(const Objects& objects) { return template_of(objects).at("spec").at("containers").at(0); }

Objects objects_for(const LaunchRequest& request, const Options& engine, const Defaults& defaults = {}) {
  return objects_of(in_pods(request, "mlbench-r-4-ab"), engine, defaults, "mlbench-r-4-ab", {{"OMP_NUM_THREADS", "2"}});
}

// ---- what Kubernetes is given --------------------------------------------------------------------------------------

TEST(KubernetesManifest, HasAllThatAClusterMayDecideOtherwise) {
  const LaunchRequest request = plain_request();
  const Objects objects = objects_for(request, with_image());
  Json expected = Json::parse(R"({
    "apiVersion": "batch/v1", "kind": "Job",
    "metadata": {"name": "mlbench-r-4-ab", "labels": {
      "app.kubernetes.io/name": "mlbench", "app.kubernetes.io/component": "rank", "mlbench/run": "r-4",
      "mlbench/start": "mlbench-r-4-ab"}},
    "spec": {
      "completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimit": 0,
      "podReplacementPolicy": "Failed", "suspend": true, "ttlSecondsAfterFinished": 300,
      "template": {
        "metadata": {"labels": {
          "app.kubernetes.io/name": "mlbench", "app.kubernetes.io/component": "rank", "mlbench/run": "r-4",
          "mlbench/start": "mlbench-r-4-ab", "mlbench/nodes": "alone"}},
        "spec": {
          "restartPolicy": "Never", "subdomain": "mlbench-r-4-ab", "terminationGracePeriodSeconds": 5,
          "automountServiceAccountToken": false, "enableServiceLinks": false,
          "securityContext": {"runAsNonRoot": true, "runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001,
                              "seccompProfile": {"type": "RuntimeDefault"}},
          "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": {
              "matchLabels": {"app.kubernetes.io/name": "mlbench", "app.kubernetes.io/component": "rank"},
              "matchExpressions": [{"key": "mlbench/start", "operator": "NotIn", "values": ["mlbench-r-4-ab"]}]},
            "namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"}]}},
          "containers": [{
            "name": "rank", "image": "worker:1",
            "command": ["mlbench-guard", "kubernetes", "mlbench-worker", "--run-dir", "FOLDER", "--segment", "2"],
            "env": [
              {"name": "OMP_NUM_THREADS",
               "valueFrom": {"secretKeyRef": {"name": "mlbench-r-4-ab", "key": "OMP_NUM_THREADS"}}},
              {"name": "HOME", "value": "/tmp"}, {"name": "WORLD_SIZE", "value": "4"},
              {"name": "LOCAL_RANK", "value": "0"}, {"name": "LOCAL_WORLD_SIZE", "value": "1"},
              {"name": "MLBENCH_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
            "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}},
            "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                                "capabilities": {"drop": ["ALL"]}},
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}, {"name": "tmp", "mountPath": "/tmp"},
                             {"name": "shm", "mountPath": "/dev/shm"}]}],
          "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}},
                      {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]}}}})");
  expected["spec"]["template"]["spec"]["containers"][0]["command"][4] = folder_on_hosts(request, kScratch).string();
  EXPECT_EQ(canonical_json(objects.job), canonical_json(expected));
  EXPECT_EQ(canonical_json(objects.service), canonical_json(Json::parse(R"({
    "apiVersion": "v1", "kind": "Service",
    "metadata": {"name": "mlbench-r-4-ab", "labels": {
      "app.kubernetes.io/name": "mlbench", "app.kubernetes.io/component": "rank", "mlbench/run": "r-4",
      "mlbench/start": "mlbench-r-4-ab"}},
    "spec": {"clusterIP": "None", "publishNotReadyAddresses": true,
             "selector": {"mlbench/start": "mlbench-r-4-ab"}}})")));
  EXPECT_EQ(objects.secret["immutable"], true);
  EXPECT_EQ(objects.secret["stringData"], Json({{"OMP_NUM_THREADS", "2"}}));
}

TEST(KubernetesManifest, AFractionOfACpuIsRequestAndLimit) {
  const Options engine = with_image();
  LaunchRequest request = plain_request();
  request.cpus = 2.5;
  const Json container = container_of(objects_for(request, engine));
  EXPECT_EQ(container["resources"], Json::parse(R"({"requests": {"cpu": "2500m"}, "limits": {"cpu": "2500m"}})"));
  request.cpus = 0.125;
  EXPECT_EQ(container_of(objects_for(request, engine))["resources"]["limits"]["cpu"], "125m");
}

TEST(KubernetesManifest, HasWhatWasAskedFor) {
  LaunchRequest request = plain_request();
  request.gpu = true;
  request.working_directory = "/work";
  Options engine = with_image();
  engine.ranks_per_host = 1;
  engine.memory = "4Gi";
  engine.data_volume = "data";
  engine.queue = "team-queue";
  engine.host_network = true;
  const Objects objects = objects_for(request, engine, {.release = "lab"});
  const Json pod = template_of(objects).at("spec"), container = container_of(objects);
  EXPECT_EQ(container["resources"]["limits"], Json({{"cpu", "2"}, {"memory", "4Gi"}, {"nvidia.com/gpu", "1"}}));
  EXPECT_EQ(container["resources"]["requests"], container["resources"]["limits"]);
  EXPECT_EQ(container["workingDir"], "/work");
  EXPECT_EQ(pod["volumes"].back()["persistentVolumeClaim"], Json({{"claimName", "data"}, {"readOnly", true}}));
  EXPECT_EQ(container["volumeMounts"].back(),
            Json({{"name", "datasets"}, {"mountPath", "/datasets"}, {"readOnly", true}}));
  EXPECT_EQ(objects.job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "team-queue");
  EXPECT_EQ(objects.job["metadata"]["labels"]["app.kubernetes.io/instance"], "lab");
  EXPECT_EQ(pod["hostNetwork"], true);
  EXPECT_EQ(pod["dnsPolicy"], "ClusterFirstWithHostNet");
  const Json& rule = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
  ASSERT_EQ(rule.size(), 1u) << "the scheduler wakes who waits when a pod goes that all its rules name";
  const Json of_others = {{"key", "mlbench/start"}, {"operator", "NotIn"}, {"values", {"mlbench-r-4-ab"}}};
  EXPECT_EQ(rule[0]["labelSelector"]["matchExpressions"], Json::array({of_others}));
  EXPECT_EQ(pod["topologySpreadConstraints"], Json::parse(R"([{
    "maxSkew": 1, "minDomains": 4, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
    "nodeTaintsPolicy": "Honor",
    "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "mlbench", "app.kubernetes.io/component": "rank",
                                      "mlbench/start": "mlbench-r-4-ab"}}}])"))
      << "a rank per node";
  engine.ranks_per_host = 3;
  engine.data_volume = "/mnt/data";
  const Json other = template_of(objects_for(request, engine)).at("spec");
  EXPECT_EQ(other["topologySpreadConstraints"][0]["minDomains"], 2);
  EXPECT_EQ(other["volumes"].back()["hostPath"], Json({{"path", "/mnt/data"}, {"type", "Directory"}}));
}

TEST(KubernetesManifest, RunsThatShareTheirNodesComeToNoMeasurements) {
  LaunchRequest request = plain_request();
  request.share_host = true;
  const Json made = template_of(objects_for(request, with_image()));
  EXPECT_EQ(made["metadata"]["labels"]["mlbench/nodes"], "shared");
  EXPECT_EQ(made["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"],
            Json::parse(R"([{
              "labelSelector": {
                "matchLabels": {"app.kubernetes.io/name": "mlbench", "app.kubernetes.io/component": "rank"},
                "matchExpressions": [{"key": "mlbench/start", "operator": "NotIn", "values": ["mlbench-r-4-ab"]},
                                     {"key": "mlbench/nodes", "operator": "In", "values": ["alone"]}]},
              "namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"}])"));
}

TEST(KubernetesManifest, ACommandIsToldOfTheGpuOfItsPod) {
  const auto told = [](const Json& container) {
    std::string gpus = "nothing";
    for (const Json& one : container["env"]) {
      if (one["name"] == "CUDA_VISIBLE_DEVICES") gpus = one.value("value", "a value of the secret");
    }
    return gpus;
  };
  LaunchRequest request = plain_request();
  request.gpu = true;
  EXPECT_EQ(told(container_of(objects_for(request, with_image()))), "nothing") << "a worker finds it";
  request.rank_words = true;
  const Json container = container_of(objects_for(request, with_image()));
  EXPECT_EQ(told(container), "0");
  EXPECT_EQ(container["resources"]["limits"], Json({{"cpu", "2"}, {"nvidia.com/gpu", "1"}}));
  for (const char* kind : {"job", "mpijob"}) {
    const Json object = launched_by_others(kind, request, nullptr, with_image(), {}).back();
    const bool mpi = kind == std::string("mpijob");
    const Json& spec = object["spec"];
    const Json& one = mpi ? spec["mpiReplicaSpecs"]["Worker"]["template"] : spec["template"];
    EXPECT_EQ(one["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], "1") << kind;
    if (!mpi) {
      EXPECT_EQ(told(one["spec"]["containers"][0]), "0");
      continue;
    }
    const Json& launcher = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0];
    EXPECT_FALSE(launcher["resources"]["limits"].contains("nvidia.com/gpu"));
    EXPECT_THAT(launcher["command"], testing::Contains("CUDA_VISIBLE_DEVICES"));
  }
  request.environment["CUDA_VISIBLE_DEVICES"] = "0,1";
  EXPECT_EQ(told(container_of(objects_for(request, with_image()))), "nothing") << "the user says it";
}

TEST(KubernetesManifest, AnImageOfTheUsersOwnGetsAGuard) {
  LaunchRequest request = plain_request();
  request.command = {"python", "train.py", "{rank}", "{hosts}"};
  request.rank_words = true;
  request.workers = 2;
  request.environment["MASTER_ADDR"] = "10.0.0.1";
  const Defaults defaults{.worker_image = "worker:1"};
  Options engine;
  engine.image = "theirs:2";
  const Objects objects = objects_for(request, engine, defaults);
  const Json pod = template_of(objects).at("spec"), container = container_of(objects);
  EXPECT_EQ(container["image"], "theirs:2");
  EXPECT_EQ(container["command"], Json({"/mlbench/mlbench-guard", "kubernetes", "python", "train.py", "{rank}",
                                        "mlbench-r-4-ab-0.mlbench-r-4-ab,mlbench-r-4-ab-1.mlbench-r-4-ab"}));
  ASSERT_EQ(pod["initContainers"].size(), 1u);
  EXPECT_EQ(pod["initContainers"][0]["image"], "worker:1");
  EXPECT_EQ(pod["initContainers"][0]["volumeMounts"][0]["name"], "mlbench");
  EXPECT_EQ(in_pods(request, "n").environment.at("MASTER_ADDR"), "n-0.n");
  EXPECT_THAT(container["env"].dump(), HasSubstr("HOROVOD_RANK"));
  // The worker's own image has a guard.
  engine.image = "worker:1";
  EXPECT_FALSE(template_of(objects_for(request, engine, defaults)).at("spec").contains("initContainers"));
  EXPECT_EQ(container_of(objects_for(request, engine, defaults))["command"][0], "mlbench-guard");
}

TEST(KubernetesManifest, WhatTheSiteSaysComesBeforeTheRun) {
  const Defaults defaults{.worker_image = "worker:1",
                          .data_volume = "corpora",
                          .pod_overlay = R"({"spec": {"nodeSelector": {"pool": "bench"}, "priorityClassName": "low",
                                 "containers": [{"name": "rank", "imagePullPolicy": "Never"}]}})"};
  Options engine;
  engine.pod_overlay = "spec: {priorityClassName: high}";
  const Json pod = template_of(objects_for(plain_request(), engine, defaults)).at("spec");
  EXPECT_EQ(pod["containers"][0]["image"], "worker:1");
  EXPECT_EQ(pod["containers"][0]["imagePullPolicy"], "Never");
  EXPECT_EQ(pod["nodeSelector"], Json({{"pool", "bench"}}));
  EXPECT_EQ(pod["priorityClassName"], "high");
  EXPECT_EQ(pod["volumes"].back()["persistentVolumeClaim"]["claimName"], "corpora");
  engine.data_volume = "/mnt/data";
  const Json other = template_of(objects_for(plain_request(), engine, defaults)).at("spec");
  EXPECT_EQ(other["volumes"].back()["hostPath"]["path"], "/mnt/data");
  EXPECT_THAT(error_of([&] { objects_for(plain_request(), with_image(), {.pod_overlay = "tolerations: []"}); }),
              HasSubstr("MLBENCH_POD_OVERLAY: 'tolerations'"));
  EXPECT_THAT(error_of([&] { check(plain_request(), with_image(), {.data_volume = "a/b"}); }),
              HasSubstr("MLBENCH_DATA_VOLUME 'a/b'"));
}

TEST(KubernetesManifest, NamesAreLabels) {
  LaunchRequest request = plain_request();
  EXPECT_EQ(job_name(request, "0a1b2c3d"), "mlbench-r-4-0a1b2c3d");
  request.run_name = "My_Run.v2-4.2";
  EXPECT_EQ(job_name(request, "ab"), "mlbench-my-run-v2-4-2-ab");
  request.run_name = std::string(62, 'x') + "-";
  request.workers = 10000;
  const std::string name = job_name(request, "0a1b2c3d");
  EXPECT_EQ((name + "-9999").size(), 63u);
  EXPECT_TRUE(name.ends_with("-0a1b2c3d"));
  EXPECT_EQ(job_name(request, "ab", 20).size() + 5 + 20, 63u);
  request.run_name = "abcdefghijklmnopqrstuvwxyz-abcdefghijklm---opqrstuvwxyz";
  EXPECT_THAT(job_name(request, "0a1b2c3d"), Not(HasSubstr("--0a1b2c3d")));
}

TEST(KubernetesOptions, WhatIsWrongIsNamed) {
  const auto refused = [](const std::function<void(Options&, LaunchRequest&)>& change) {
    Options engine = with_image();
    LaunchRequest request = plain_request();
    change(engine, request);
    return error_of([&] { check(request, engine, {}); });
  };
  EXPECT_EQ(refused([](auto&, auto&) {}), "no error");
  EXPECT_THAT(refused([](auto& engine, auto&) { engine.image = ""; }),
              AllOf(HasSubstr("--image REF"), HasSubstr("MLBENCH_WORKER_IMAGE")));
  EXPECT_THAT(refused([](auto& engine, auto&) { engine.image = "a b"; }), HasSubstr("--image 'a b'"));
  for (const char* interface : {"", "eth0", "10.244.0.0/16", "10.0.0.1", "fd00::1"}) {
    const auto by = [&](auto&, auto& request) {
      request.by_mpirun = true;
      request.network_interface = interface;
    };
    EXPECT_EQ(refused(by), "no error") << interface;
  }
  EXPECT_THAT(refused([](auto&, auto& request) {
                request.by_mpirun = true;
                request.network_interface = "$(id)";
              }),
              HasSubstr("--interface '$(id)'"));
  for (const char* wrong : {"4 Gi", "4GB", "-1", "x", "0", "4.", ".5", "1.2.3", "1Gi;"}) {
    EXPECT_THAT(refused([&](auto& engine, auto&) { engine.memory = wrong; }), HasSubstr("--memory")) << wrong;
  }
  for (const char* right : {"4Gi", "512Mi", "1.5G", "1000000000"}) {
    EXPECT_EQ(refused([&](auto& engine, auto&) { engine.memory = right; }), "no error") << right;
  }
  EXPECT_THAT(refused([](auto& engine, auto&) { engine.name_space = "../x"; }), HasSubstr("--namespace"));
  EXPECT_THAT(refused([](auto& engine, auto&) { engine.queue = "A"; }), HasSubstr("--queue"));
  EXPECT_THAT(refused([](auto& engine, auto&) { engine.data_volume = "a/b"; }), HasSubstr("--data-volume"));
  EXPECT_THAT(refused([](auto& engine, auto&) { engine.data_volume = "/a/../b"; }), HasSubstr("--data-volume"));
}

// ---- the overlay ---------------------------------------------------------------------------------------------------

Json overlaid(const std::string& overlay) {
  Options engine = with_image();
  engine.pod_overlay = overlay;
  return template_of(objects_for(plain_request(), engine));
}

TEST(KubernetesOverlay, ThingsWithNamesAreMerged) {
  const Json pod = overlaid(R"(
metadata:
  annotations: {team: "7"}
spec:
  nodeSelector: {disk: ssd}
  tolerations:
  - {key: gpu, operator: Exists}
  containers:
  - name: rank
    imagePullPolicy: Never
    env:
    - {name: HOME, value: /scratch}
    - {name: EXTRA, value: "1"}
    volumeMounts:
    - {mountPath: /models, name: models}
  - {name: beside, image: "log:1"}
  volumes:
  - {name: models, hostPath: {path: /models}}
  - {name: scratch, emptyDir: null, persistentVolumeClaim: {claimName: keep}}
)");
  EXPECT_EQ(pod["metadata"]["annotations"], Json({{"team", "7"}}));
  EXPECT_EQ(pod["metadata"]["labels"]["mlbench/run"], "r-4");
  const Json& spec = pod["spec"];
  EXPECT_EQ(spec["tolerations"].size(), 1u);
  ASSERT_EQ(spec["containers"].size(), 2u);
  const Json& rank = spec["containers"][0];
  EXPECT_EQ(rank["imagePullPolicy"], "Never");
  EXPECT_EQ(rank["command"][0], "mlbench-guard");
  EXPECT_EQ(rank["volumeMounts"].size(), 4u);
  std::map<std::string, std::string> values;
  for (const Json& one : rank["env"]) values[one["name"]] = one.value("value", "");
  EXPECT_EQ(values["HOME"], "/scratch");
  EXPECT_EQ(values["EXTRA"], "1");
  EXPECT_EQ(values["WORLD_SIZE"], "4");
  ASSERT_EQ(spec["volumes"].size(), 4u);
  EXPECT_EQ(spec["volumes"][0], Json({{"name", "scratch"}, {"persistentVolumeClaim", {{"claimName", "keep"}}}}));
}

TEST(KubernetesOverlay, IsJsonToo) {
  EXPECT_EQ(overlaid(R"({"spec": {"priorityClassName": "high"}})")["spec"]["priorityClassName"], "high");
  EXPECT_FALSE(overlaid(R"({"spec": {"enableServiceLinks": null}})")["spec"].contains("enableServiceLinks"));
}

TEST(KubernetesOverlay, WhatIsNoneIsNamed) {
  const auto refused = [](const std::string& overlay) { return error_of([&] { overlaid(overlay); }); };
  EXPECT_THAT(refused("tolerations: []"), AllOf(HasSubstr("'tolerations'"), HasSubstr("spec.tolerations")));
  EXPECT_THAT(refused("- a"), HasSubstr("metadata and spec"));
  EXPECT_THAT(refused("spec: 1"), HasSubstr("spec is no object"));
  EXPECT_THAT(refused("a: [1\nb"), HasSubstr("--pod-overlay:"));
  EXPECT_THAT(refused("spec: {volumes: [{emptyDir: {}}]}"), HasSubstr("volumes"));
  EXPECT_THAT(refused("spec: {restartPolicy: Always}"), HasSubstr("restartPolicy"));
  EXPECT_THAT(refused("spec: {subdomain: x}"), HasSubstr("subdomain"));
  EXPECT_THAT(refused("spec: {containers: [{name: rank, command: [sh]}]}"), HasSubstr("command"));
  EXPECT_THAT(refused("spec: {containers: [{name: rank, args: [x]}]}"), HasSubstr("arguments"));
  EXPECT_THAT(refused("spec: {containers: null}"), HasSubstr("command"));
  EXPECT_THAT(refused("metadata: {labels: null}"), HasSubstr("no template"));
}

// ---- YAML and kubeconfigs ------------------------------------------------------------------------------------------

Json yaml(const std::string& text) { return parse_yaml(text, inputs::kPodOverlay, "f"); }

// yaml-cpp 0.7 reads this one without end; libFuzzer found it.
TEST(KubernetesYaml, ControlCharactersAreRefused) {
  EXPECT_THROW(yaml(",a: [1, 'ux', {b: null}]\nc: \fc [8,Sx]\nd: t*[rc, ]c"), UserError);
  EXPECT_EQ(yaml("a: 1\r\n"), (Json{{"a", 1}}));
}

TEST(KubernetesYaml, ScalarsAreWhatTheySay) {
  EXPECT_EQ(yaml("{a: 1, b: '1', c: true, d: \"true\", e: null, f: ~, g: 1.5, h: v1, i: yes, j: 0x10, k: -3, l: .inf}"),
            Json({{"a", 1},
                  {"b", "1"},
                  {"c", true},
                  {"d", "true"},
                  {"e", nullptr},
                  {"f", nullptr},
                  {"g", 1.5},
                  {"h", "v1"},
                  {"i", "yes"},
                  {"j", "0x10"},
                  {"k", -3},
                  {"l", ".inf"}}));
  EXPECT_EQ(yaml("- 1\n- [a, {b: c}]\n"), Json({1, {"a", {{"b", "c"}}}}));
  EXPECT_EQ(yaml(""), Json(nullptr));
}

TEST(KubernetesYaml, WhatDoesDamageIsRefused) {
  const auto refused = [](const std::string& text) { return error_of([&] { yaml(text); }); };
  EXPECT_THAT(refused("a: b: c"), HasSubstr("f:1: it is no YAML"));
  EXPECT_THAT(refused("a: 1\n---\nb: 2\n"), HasSubstr("2 documents"));
  EXPECT_THAT(refused("a: 1\na: 2\n"), HasSubstr("has 'a' twice"));
  EXPECT_THAT(refused(std::string(100, '[') + std::string(100, ']')), HasSubstr("nested deeper"));
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 8; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += (j > 0 ? "," : "") + std::string("*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(refused(bomb), HasSubstr("more than 100000 values"));
  EXPECT_THAT(refused(std::string(inputs::kPodOverlay.most_bytes + 1, ' ')), HasSubstr("bytes"));
}

class KubeConfig : public testing::Test {
 protected:
  Surroundings here() {
    return {.variable = [this](const char* name) -> std::optional<std::string> {
              const auto found = variables_.find(name);
              return found == variables_.end() ? std::nullopt : std::optional(found->second);
            },
            .account = folder_ / "account"};
  }
  void write(const std::string& text) {
    write_file_atomically(folder_ / "config", text);
    variables_["KUBECONFIG"] = (folder_ / "config").string();
  }

  TemporaryFolder folder_;
  std::map<std::string, std::string> variables_;
};

constexpr const char* kConfig = R"(
apiVersion: v1
kind: Config
current-context: lab
contexts:
- name: lab
  context: {cluster: c1, user: me, namespace: team}
- name: cloud
  context: {cluster: c2, user: plugin}
- name: proxy
  context: {cluster: proxy}
clusters:
- name: c1
  cluster: {server: "https://10.0.0.1:6443/", certificate-authority-data: "aGVsbG8gd29ybGQ="}
- name: c2
  cluster: {server: "https://[fd00::1]", certificate-authority: ca.pem, insecure-skip-tls-verify: true}
- name: proxy
  cluster: {server: "http://127.0.0.1:8001"}
users:
- name: me
  user: {client-certificate: me.pem, client-key-data: a2V5, token: sesame}
- name: plugin
  user: {exec: {command: aws}}
)";

TEST_F(KubeConfig, TheContextSaysWhereAndWho) {
  write(kConfig);
  write_file_atomically(folder_ / "me.pem", "mine");
  const Cluster cluster = find_cluster("", here());
  EXPECT_EQ(cluster.server, "https://10.0.0.1:6443");
  EXPECT_EQ(cluster.name_space, "team");
  EXPECT_EQ(cluster.authority, "hello world");
  EXPECT_EQ(cluster.certificate, "mine");
  EXPECT_EQ(cluster.key, "key");
  EXPECT_EQ(cluster.token, "sesame");
  EXPECT_FALSE(cluster.insecure);
  const Cluster proxy = find_cluster("proxy", here());
  EXPECT_EQ(proxy.server, "http://127.0.0.1:8001");
  EXPECT_EQ(proxy.name_space, "default");
}

TEST_F(KubeConfig, TheSiteIsWhatVariablesSay) {
  EXPECT_EQ(own_defaults(here()).worker_image, "");
  write_file_atomically(folder_ / "pod.json", "{}");
  variables_ = {{"MLBENCH_WORKER_IMAGE", "worker:1"},
                {"MLBENCH_DATA_VOLUME", "corpora"},
                {"MLBENCH_POD_OVERLAY", (folder_ / "pod.json").string()},
                {"MLBENCH_RELEASE", "lab"},
                {"MLBENCH_POD_IP", "10.1.0.7"},
                {"MLBENCH_POD_NAME", "lab-master-1"},
                {"MLBENCH_POD_UID", "u-1"},
                {"MLBENCH_URL", "http://10.1.0.7:8080"}};
  const Defaults defaults = own_defaults(here());
  EXPECT_EQ(defaults.worker_image, "worker:1");
  EXPECT_EQ(defaults.data_volume, "corpora");
  EXPECT_EQ(defaults.pod_overlay, "{}");
  EXPECT_EQ(defaults.release, "lab");
  EXPECT_EQ(defaults.address, "10.1.0.7");
  EXPECT_EQ(defaults.pod_name, "lab-master-1");
  EXPECT_EQ(defaults.pod_uid, "u-1");
  EXPECT_EQ(defaults.master_url, "http://10.1.0.7:8080");
  variables_["MLBENCH_POD_OVERLAY"] = (folder_ / "none").string();
  EXPECT_THAT(error_of([&] { own_defaults(here()); }), HasSubstr("MLBENCH_POD_OVERLAY: "));
}

TEST_F(KubeConfig, JobsOfAPodGoWithIt) {
  const Defaults defaults{.pod_name = "lab-master-1", .pod_uid = "u-1"};
  Cluster cluster{.server = "https://10.0.0.1", .name_space = "lab", .around_us = true};
  EXPECT_EQ(owner_of_jobs(defaults, cluster, "lab"),
            Json({{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", "lab-master-1"}, {"uid", "u-1"}}));
  EXPECT_EQ(owner_of_jobs(defaults, cluster, "other"), Json()) << "there it would be an owner that is gone";
  EXPECT_EQ(owner_of_jobs({}, cluster, "lab"), Json());
  cluster.around_us = false;
  EXPECT_EQ(owner_of_jobs(defaults, cluster, "lab"), Json());
}

TEST_F(KubeConfig, WhatIsNotThereOrNotSupportedSaysWhatToDo) {
  variables_["HOME"] = folder_.path();
  EXPECT_THAT(error_of([&] { find_cluster("", here()); }), HasSubstr("no Kubernetes is known here"));
  write(kConfig);
  write_file_atomically(folder_ / "ca.pem", "ca");
  EXPECT_THAT(error_of([&] { find_cluster("lba", here()); }),
              HasSubstr("unknown context 'lba': did you mean 'lab'? valid: lab, cloud, proxy"));
  EXPECT_THAT(error_of([&] { find_cluster("cloud", here()); }), AllOf(HasSubstr("kubectl proxy"), HasSubstr("exec")));
  write("a: 1");
  EXPECT_THAT(error_of([&] { find_cluster("", here()); }), HasSubstr("--kube-context"));
  write("[]");
  EXPECT_THAT(error_of([&] { find_cluster("", here()); }), HasSubstr("no kubeconfig"));
}

TEST_F(KubeConfig, APodHasItsServiceAccount) {
  fs::create_directory(folder_ / "account");
  for (const auto& [name, text] :
       {std::pair("token", "t1\n"), std::pair("ca.crt", "ca"), std::pair("namespace", "lab")}) {
    write_file_atomically(folder_ / "account" / name, text);
  }
  variables_["KUBERNETES_SERVICE_HOST"] = "fd00::1";
  variables_["KUBERNETES_SERVICE_PORT"] = "443";
  const Cluster cluster = find_cluster("", here());
  EXPECT_EQ(cluster.server, "https://[fd00::1]:443");
  EXPECT_EQ(cluster.name_space, "lab");
  EXPECT_EQ(cluster.authority, "ca");
  EXPECT_EQ(cluster.token_file, folder_ / "account" / "token");
  EXPECT_TRUE(cluster.around_us);
  write(kConfig);  // a context that is named is taken, also in a pod
  EXPECT_EQ(find_cluster("proxy", here()).server, "http://127.0.0.1:8001");
  EXPECT_FALSE(find_cluster("proxy", here()).around_us);
}

// ---- what Kubernetes says ------------------------------------------------------------------------------------------

Json pod_json(int rank, const std::string& phase, Json patch = Json::object()) {
  Json pod = {{"metadata",
               {{"name", "p-" + std::to_string(rank)},
                {"uid", "u-" + std::to_string(rank)},
                {"labels", {{kIndexLabel, std::to_string(rank)}}}}},
              {"spec", {{"nodeName", "n2"}}},
              {"status", {{"phase", phase}}}};
  pod.merge_patch(patch);
  return pod;
}

Json rank_state(Json state) {
  return {{"status", {{"containerStatuses", Json::array({{{"name", "rank"}, {"state", std::move(state)}}})}}}};
}

Seen seen_with(const std::vector<Json>& pods) {
  Seen seen;
  seen.job = {{"metadata", {{"name", "j"}, {"uid", "u"}}}, {"spec", {{"suspend", false}}}};
  for (const Json& pod : pods) seen.pods.push_back(pod_view(pod));
  return seen;
}

TEST(KubernetesStatus, PodsThatWaitSayWhy) {
  const Json condition = {
      {"status",
       {{"conditions", Json::array({{{"type", "PodScheduled"},
                                     {"status", "False"},
                                     {"reason", "Unschedulable"},
                                     {"message", "0/2 nodes are available: 2 Insufficient cpu."}}})}}}};
  const Seen seen = seen_with({pod_json(0, "Running"), pod_json(1, "Pending", condition)});
  const JobWords words = before_ranks(seen, 2, "");
  EXPECT_EQ(words.state, JobState::kWaits);
  EXPECT_EQ(words.words, "1 of 2 pods wait for a node: Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.");
}

TEST(KubernetesStatus, AJobThatWaitsSaysForWhat) {
  Seen seen = seen_with({});
  EXPECT_EQ(before_ranks(seen, 2, "").state, JobState::kBegins);
  seen.warning = "pods \"x\" is forbidden: exceeded quota";
  EXPECT_EQ(before_ranks(seen, 2, "").state, JobState::kWaits);
  EXPECT_EQ(before_ranks(seen, 2, "").words, "has 0 of 2 pods: pods \"x\" is forbidden: exceeded quota");
  seen.job["spec"]["suspend"] = true;
  EXPECT_EQ(before_ranks(seen, 2, "q").words, "waits for admission by Kueue (queue q)");
  EXPECT_EQ(before_ranks(seen, 2, "q").state, JobState::kWaits);
  seen.job["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z";
  EXPECT_EQ(before_ranks(seen, 2, "q").state, JobState::kOver);
  EXPECT_EQ(before_ranks({}, 2, "").state, JobState::kBegins);
  EXPECT_EQ(before_ranks({.silence = "no answer"}, 2, "").state, JobState::kWaits);
  EXPECT_EQ(before_ranks({.refused = "forbidden"}, 2, "").words, "it cannot be seen: forbidden");
}

TEST(KubernetesStatus, ImagesThatAreNotThere) {
  for (const char* reason : {"ImagePullBackOff", "ErrImageNeverPull", "CreateContainerConfigError"}) {
    const Seen seen = seen_with(
        {pod_json(0, "Pending", rank_state({{"waiting", {{"reason", reason}, {"message", "no such image"}}}}))});
    const JobWords words = before_ranks(seen, 1, "");
    EXPECT_EQ(words.state, JobState::kStuck) << reason;
    EXPECT_EQ(words.words, std::string("pod p-0 (rank 0 on node n2): ") + reason + ": no such image");
  }
  const Seen creating =
      seen_with({pod_json(0, "Pending", rank_state({{"waiting", {{"reason", "ContainerCreating"}}}}))});
  EXPECT_EQ(before_ranks(creating, 1, "").state, JobState::kBegins);
  EXPECT_EQ(before_ranks(seen_with({pod_json(0, "Running")}), 1, "").state, JobState::kRuns);
}

TEST(KubernetesStatus, EndsAreToldApart) {
  const auto end = [](const Json& patch, const std::string& phase = "Failed") {
    const auto done = done_to(seen_with({pod_json(0, "Running"), pod_json(1, phase, patch)}), {});
    return done.empty() ? "nothing" : done.front().words;
  };
  EXPECT_EQ(end(Json::object(), "Running"), "nothing");
  EXPECT_EQ(
      end(rank_state({{"terminated", {{"exitCode", 137}, {"reason", "OOMKilled"}}}})),
      "pod p-1 (rank 1 on node n2) ran out of memory (OOMKilled, exit code 137): give its ranks more with --memory");
  EXPECT_EQ(end(rank_state({{"terminated", {{"exitCode", 7}, {"reason", "Error"}, {"message", "last words\n"}}}})),
            "pod p-1 (rank 1 on node n2) ended with exit code 7 (Error): last words");
  EXPECT_EQ(end({{"status", {{"reason", "Evicted"}, {"message", "low on memory"}}}}),
            "pod p-1 (rank 1 on node n2) was evicted: low on memory");
  EXPECT_EQ(end({{"metadata", {{"deletionTimestamp", "x"}}}}, "Running"), "pod p-1 (rank 1 on node n2) was deleted");
  const Json preempted = {{"status",
                           {{"conditions", Json::array({{{"type", "DisruptionTarget"},
                                                         {"status", "True"},
                                                         {"reason", "PreemptionByScheduler"},
                                                         {"message", "by a higher priority"}}})}}}};
  EXPECT_EQ(end(preempted, "Running"),
            "pod p-1 (rank 1 on node n2) was disrupted (PreemptionByScheduler): by a higher priority");
  Json tainted = preempted;
  tainted["status"]["conditions"][0]["reason"] = "DeletionByTaintManager";
  EXPECT_EQ(done_to(seen_with({pod_json(0, "Running", tainted)}), {}).at(0).fact, EngineFact::kHostGone);
}

TEST(KubernetesStatus, EndsAreFactsOfARank) {
  const auto expect = [](const Json& patch, const std::string& phase, EngineFact fact, bool place_lost) {
    const auto done = done_to(seen_with({pod_json(0, "Running"), pod_json(1, phase, patch)}), {});
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].rank, 1) << done[0].words;
    EXPECT_EQ(done[0].fact, fact) << done[0].words;
    EXPECT_EQ(done[0].place_lost, place_lost) << done[0].words;
  };
  const auto ended = [](int code, const char* reason) {
    return rank_state({{"terminated", {{"exitCode", code}, {"reason", reason}}}});
  };
  expect(ended(137, "OOMKilled"), "Failed", EngineFact::kRankTaken, false);
  expect(ended(137, "Error"), "Failed", EngineFact::kRankEnded, false);
  expect(ended(7, "Error"), "Failed", EngineFact::kRankEnded, false);
  expect({{"status", {{"reason", "Evicted"}}}}, "Failed", EngineFact::kRankTaken, true);
  expect({{"status", {{"reason", "NodeLost"}}}}, "Unknown", EngineFact::kHostGone, true);
  expect({{"metadata", {{"deletionTimestamp", "x"}}}}, "Running", EngineFact::kRankDeleted, true);
  EXPECT_EQ(done_to(seen_with({pod_json(0, "Failed", ended(7, "Error"))}), {}).at(0).code, 7);
  Seen deleted = seen_with({pod_json(0, "Running")});
  deleted.job["metadata"]["deletionTimestamp"] = "x";
  const auto done = done_to(deleted, {});
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].rank, -1) << "it is about the whole job";
  EXPECT_EQ(done[0].fact, EngineFact::kJobTaken);
  EXPECT_FALSE(done[0].place_lost) << "somebody wants no more of it";
}

// A job deletes its other pods once one has failed.
TEST(KubernetesStatus, WhatFollowsFromAnEndComesBehindIt) {
  const auto deleted = [](const std::string& at) { return Json{{"metadata", {{"deletionTimestamp", at}}}}; };
  const auto words_in = [](const Seen& seen) {
    std::vector<std::string> words;
    for (const EngineWord& one : done_to(seen, {})) words.push_back(one.words);
    return words;
  };
  const Json failed = rank_state({{"terminated", {{"exitCode", 7}, {"reason", "Error"}}}});
  const Seen own = seen_with({pod_json(0, "Running", deleted("2026-01-31T12:00:07Z")), pod_json(1, "Failed", failed)});
  EXPECT_THAT(words_in(own), ElementsAre("pod p-1 (rank 1 on node n2) ended with exit code 7 (Error)",
                                         "pod p-0 (rank 0 on node n2) was deleted"));
  EXPECT_EQ(before_ranks(own, 2, "").words, "pod p-1 (rank 1 on node n2) ended with exit code 7 (Error)");
  const Json evicted = {{"status", {{"reason", "Evicted"}, {"message", "low on disk"}}}};
  const Seen by_others =
      seen_with({pod_json(0, "Running", deleted("2026-01-31T12:00:07Z")), pod_json(1, "Failed", evicted)});
  EXPECT_EQ(words_in(by_others).at(0), "pod p-1 (rank 1 on node n2) was evicted: low on disk");
  // Somebody deleted the pod of rank 1, which ended of that; then the job deleted the others.
  Json ended = rank_state({{"terminated", {{"exitCode", 143}, {"reason", "Error"}}}});
  ended.merge_patch(deleted("2026-01-31T12:00:05Z"));
  const Seen first = seen_with({pod_json(0, "Running", deleted("2026-01-31T12:00:07Z")), pod_json(1, "Failed", ended)});
  EXPECT_EQ(words_in(first).at(0), "pod p-1 (rank 1 on node n2) was deleted");
}

TEST(KubernetesStatus, WarningsAreToldOnceAndNotWithoutEnd) {
  const auto event = [](const std::string& pod, const std::string& reason, const std::string& message,
                        const std::string& type = "Warning") {
    return Json{
        {"type", type}, {"reason", reason}, {"message", message}, {"involvedObject", {{"kind", "Pod"}, {"name", pod}}}};
  };
  Warnings warnings;
  const Json first = {event("j-0-x", "FailedScheduling", "0/2 nodes are available"),
                      event("j-1-x", "FailedScheduling", "0/2 nodes are available"),
                      event("other-0-x", "BackOff", "of another job"), event("j-0-x", "Pulled", "no warning", "Normal"),
                      Json("nonsense")};
  EXPECT_THAT(warnings.news(first, "j", "team"),
              ElementsAre("Kubernetes warns of pod j-0-x: FailedScheduling: 0/2 nodes are available"));
  EXPECT_THAT(warnings.news(first, "j", "team"), testing::IsEmpty());
  EXPECT_THAT(warnings.news(Json::array({event("j-0-x", "FailedScheduling", "0/3 nodes are available")}), "j", "team"),
              testing::IsEmpty())
      << "the same reason of the same pod";
  EXPECT_THAT(warnings.news(Json::array({event("j-1-x", "BackOff", "a\nb")}), "j", "team"),
              ElementsAre(HasSubstr("BackOff: a")));
  Json many = Json::array();
  for (int rank = 0; rank < 100; ++rank) {
    const std::string number = std::to_string(rank);
    many.push_back(event("j-" + number + "-x", "FailedMount", "volume " + number));
  }
  const auto rest = warnings.news(many, "j", "team");
  ASSERT_EQ(rest.size(), Warnings::kMost - 2);
  EXPECT_THAT(rest.back(), HasSubstr("kubectl get events --namespace team"));
  EXPECT_THAT(warnings.news(many, "j", "team"), testing::IsEmpty());
}

TEST(KubernetesStatus, AReplacementIsNoRank) {
  const Seen before = seen_with({pod_json(0, "Running"), pod_json(1, "Running")});
  EXPECT_THAT(done_to(before, before.pods), testing::IsEmpty());
  const Seen replaced =
      seen_with({pod_json(0, "Running"), pod_json(1, "Running", {{"metadata", {{"uid", "another"}}}})});
  EXPECT_EQ(done_to(replaced, before.pods).at(0).words, "pod p-1 (rank 1 on node n2) was deleted");
  Seen gone;
  gone.gone = true;
  EXPECT_EQ(done_to(gone, before.pods).at(0).words, "somebody deleted it under its ranks");
  EXPECT_THAT(done_to({}, {}), testing::IsEmpty()) << "a server that says nothing has lost no job";
}

TEST(KubernetesStatus, NonsenseIsNoPod) {
  for (const Json& wrong : {Json(), Json("pod"), Json({{"metadata", 1}, {"status", {{"conditions", {1, "x"}}}}}),
                            Json({{"status", {{"containerStatuses", {{{"state", "x"}}}}, {"phase", 3}}}})}) {
    EXPECT_EQ(pod_view(wrong).rank, -1);
    EXPECT_EQ(pod_view(wrong).phase, "");
  }
}

// ---- the API -------------------------------------------------------------------------------------------------------

constexpr ApiPace kFastApi{.answer = 500ms, .change = 3s, .first_wait = 10ms, .longest_wait = 50ms};

class KubernetesApi : public testing::Test {
 protected:
  Cluster cluster() const { return find_cluster("", own_surroundings()); }
  static Json job(const std::string& start = "j") {
    return {{"kind", "Job"},
            {"metadata", {{"name", "j"}, {"labels", {{kStartLabel, start}}}}},
            {"spec", {{"completions", 1}, {"suspend", true}}}};
  }

  TemporaryFolder folder_;
  FakeKubernetes fake_{GUARD, folder_.path()};
  const std::string jobs_ = "/apis/batch/v1/namespaces/team/jobs";
};

TEST_F(KubernetesApi, AServerThatDoesNotAnswerIsAnObstacle) {
  const auto executor = make({{"image", "worker:1"}});
  EXPECT_EQ(executor->obstacle({}), "");
  fake_.fail("GET", "/version", 403, 1);
  EXPECT_EQ(executor->obstacle({}), "") << "not everybody may ask for it";
  write_file_atomically(folder_ / "config",
                        "current-context: gone\ncontexts: [{name: gone, context: {cluster: gone}}]\n"
                        "clusters: [{name: gone, cluster: {server: \"http://127.0.0.1:1\"}}]\n");
  const std::string config = environment_variable("KUBECONFIG").value_or("");
  setenv("KUBECONFIG", (folder_ / "config").c_str(), 1);
  EXPECT_THAT(make({{"image", "worker:1"}})->obstacle({}),
              AllOf(HasSubstr("executor kubernetes: "), HasSubstr("does not answer: ")));
  EXPECT_THAT(make({{"image", "worker:1"}, {"kube_context", "lab"}})->obstacle({}), HasSubstr("lab"));
  setenv("KUBECONFIG", config.c_str(), 1);
}

TEST_F(KubernetesApi, WhatMayPassIsTriedAgain) {
  Api api(cluster(), kFastApi);
  for (const int status : {429, 500, 503, 504, 410}) fake_.fail("POST", "/jobs", status, 1);
  EXPECT_EQ(api.create(jobs_, job())["metadata"]["uid"], "uid-1");
  fake_.fail("PATCH", "/jobs", 409, 2);
  EXPECT_EQ(api.change(jobs_ + "/j", {{"spec", {{"parallelism", 2}}}})["spec"]["parallelism"], 2);
  fake_.fail("DELETE", "/jobs", 409, 1);
  EXPECT_TRUE(api.remove(jobs_ + "/j", 0));
  EXPECT_TRUE(fake_.empty());
  EXPECT_FALSE(api.remove(jobs_ + "/j", 0));
}

TEST_F(KubernetesApi, ATryThatSucceededWithoutAWordIsFound) {
  Api api(cluster(), kFastApi);
  fake_.fail("POST", "/jobs", 0, 1, 1s);  // made, and answered too late
  const Json made = api.create(jobs_, job());
  EXPECT_EQ(made["metadata"]["uid"], "uid-1");
  EXPECT_THAT([&] { api.create(jobs_, job("another")); },
              testing::ThrowsMessage<IoError>(AllOf(HasSubstr("Job j"), HasSubstr("HTTP 409"))));
}

TEST_F(KubernetesApi, RefusalsComeInItsWords) {
  Api api(cluster(), kFastApi);
  fake_.fail("POST", "/jobs", 403, 1);
  EXPECT_THAT([&] { api.create(jobs_, job()); },
              testing::ThrowsMessage<IoError>(AllOf(HasSubstr("made by the test"), HasSubstr("HTTP 403"),
                                                    HasSubstr("docs/executors/kubernetes.md"))));
  fake_.fail("POST", "/jobs", 500, 1000);
  EXPECT_THAT([&] { api.create(jobs_, job()); }, testing::ThrowsMessage<IoError>(HasSubstr("HTTP 500")));
  const ApiAnswer lost = Api({.server = "http://127.0.0.1:1"}, kFastApi).get("/version");
  EXPECT_EQ(lost.status, 0);
  EXPECT_TRUE(lost.passing());
  EXPECT_THAT(lost.words, HasSubstr("127.0.0.1:1"));
}

TEST_F(KubernetesApi, WhatMayNotBeLookedAtIsOurs) {
  Api api(cluster(), kFastApi);
  const std::string secrets = "/api/v1/namespaces/team/secrets";
  const Json secret = {{"kind", "Secret"}, {"metadata", {{"name", "j"}, {"labels", {{kStartLabel, "j"}}}}}};
  fake_.fail("POST", "/secrets", 0, 1, 1s);  // made, and answered too late
  fake_.fail("GET", "/secrets", 403, 1);
  EXPECT_EQ(api.create(secrets, secret), secret);
  EXPECT_EQ(fake_.others().size(), 1u);
}

TEST_F(KubernetesApi, TokensAreReadAnew) {
  Cluster there = cluster();
  there.token_file = folder_ / "token";
  Api api(there, kFastApi);
  EXPECT_EQ(api.get("/version").status, 0) << "it is not there yet";
  write_file_atomically(there.token_file, "one\n");
  EXPECT_TRUE(api.get("/version").good());
}

// ---- nodes ---------------------------------------------------------------------------------------------------------

Json node_named(const std::string& name) {
  Json node = Json::parse(R"({
    "metadata": {"name": ""}, "spec": {},
    "status": {"allocatable": {"cpu": "3920m", "memory": "16393244Ki", "nvidia.com/gpu": "2", "pods": "110"},
               "capacity": {"cpu": "4"},
               "conditions": [{"type": "MemoryPressure", "status": "False"},
                              {"type": "Ready", "status": "True", "message": "kubelet is posting ready status"}]}})");
  node["metadata"]["name"] = name;
  return node;
}

TEST(KubernetesNodes, QuantitiesAreNumbers) {
  for (const auto& [text, amount] : {std::pair("2500m", 2.5),
                                     {"3", 3.0},
                                     {"4Gi", 0x1p32},
                                     {"1.5k", 1500.0},
                                     {"2e3", 2000.0},
                                     {"0", 0.0},
                                     {"1E", 1e18},
                                     {"100000000n", 0.1}}) {
    ASSERT_TRUE(amount_of(text)) << text;
    EXPECT_DOUBLE_EQ(*amount_of(text), amount) << text;
  }
  for (const char* text : {"", "m", "-1", "1 Gi", "4GiB", "nan", "inf", "1e999"}) EXPECT_FALSE(amount_of(text)) << text;
}

TEST(KubernetesNodes, HaveWhatPodsMayHave) {
  Json node = node_named("n1");
  EXPECT_EQ(to_json(ClusterNodes{{node_of(node)}})["nodes"], Json::parse(R"([
    {"name": "n1", "state": "Ready", "ready": true, "cpus": 3.92, "memory_bytes": 16786681856, "gpus": 2, "slots": null}
  ])"));
  node["status"]["allocatable"].erase("nvidia.com/gpu");
  EXPECT_EQ(node_of(node).gpus, 0);
  node["spec"]["taints"] = Json::parse(R"([{"key": "nvidia.com/gpu", "effect": "NoSchedule"},
                                           {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
                                           {"key": "slow", "effect": "PreferNoSchedule"}])");
  node["spec"]["unschedulable"] = true;
  EXPECT_EQ(node_of(node).state, "Ready, cordoned, tainted nvidia.com/gpu:NoSchedule");
  EXPECT_EQ(node_of(node).ready, false);
  node = node_named("n1");
  node["status"]["conditions"][1]["status"] = "Unknown";
  node["status"]["conditions"][1]["message"] = "Kubelet stopped posting node status.";
  EXPECT_EQ(node_of(node).state, "not ready (Kubelet stopped posting node status.)");
  EXPECT_EQ(node_of(node).ready, false);
  for (const char* odd :
       {"null", "[]", "{}", R"({"status": {"allocatable": 3, "conditions": "x"}, "spec": {"taints": 1}})"}) {
    const ClusterNode none = node_of(Json::parse(odd));
    EXPECT_FALSE(none.cpus || none.memory_bytes || *none.ready) << odd;
  }
}

TEST_F(KubernetesApi, ListsNodesPageByPage) {
  fake_.have_nodes({node_named("n1"), node_named("n2"), node_named("n3")});
  const ClusterNodes all = make({})->nodes();
  EXPECT_EQ(all.problem, "");
  std::vector<std::string> names;
  for (const ClusterNode& node : all.nodes) names.push_back(node.name);
  EXPECT_THAT(names, ElementsAre("n1", "n2", "n3"));
}

TEST_F(KubernetesApi, SaysWhyNodesAreNotKnown) {
  fake_.fail("GET", "/nodes", 500, 1);
  const ClusterNodes none = make({})->nodes();
  EXPECT_TRUE(none.nodes.empty());
  EXPECT_EQ(none.problem, "Kubernetes does not say what nodes it has: made by the test");
  EXPECT_THAT(make({{"kube_context", "nowhere"}})->nodes().problem, HasSubstr("nowhere"));
}

// ---- a job ---------------------------------------------------------------------------------------------------------

constexpr JobPace kFastJob{
    .api = kFastApi, .look = 20ms, .slow_look = 50ms, .stuck = 300ms, .start = 2s, .verdict = 300ms, .removal = 5s};

class KubernetesJob : public KubernetesApi {
 protected:
  // A job whose pods do as hold_pods() says.
  std::unique_ptr<Job> make_job(const std::string& queue = "") {
    Api api(cluster(), kFastApi);
    JobOfRun of_run;
    of_run.name = "j";
    of_run.name_space = "team";
    of_run.queue = queue;
    of_run.supervisor = "10.0.0.1:4711";
    of_run.uid = api.create(jobs_, job())["metadata"]["uid"];
    if (queue.empty()) api.change(of_run.path(), {{"spec", {{"suspend", false}}}});
    return std::make_unique<Job>(cluster(), of_run, kFastJob);
  }
  StartStatus wait_for(Job& job, const std::string& words) {
    StartStatus status;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    do {
      status = job.status();
      if (status.words.find(words) != std::string::npos) break;
      std::this_thread::sleep_for(10ms);
    } while (std::chrono::steady_clock::now() < deadline);
    EXPECT_THAT(status.words, HasSubstr(words));
    return status;
  }
};

TEST_F(KubernetesJob, QueuesWithTheSchedulersWords) {
  fake_.hold_pods({{"status",
                    {{"conditions", Json::array({{{"type", "PodScheduled"},
                                                  {"status", "False"},
                                                  {"reason", "Unschedulable"},
                                                  {"message", "0/2 nodes are available"}}})}}}});
  const auto job = make_job();
  EXPECT_EQ(wait_for(*job, "0/2 nodes are available").state, StartState::kQueued);
  job->end(0s);
  EXPECT_TRUE(fake_.empty());
}

TEST_F(KubernetesJob, AnImageThatDoesNotComeFailsAfterAWhile) {
  fake_.hold_pods(rank_state({{"waiting", {{"reason", "ErrImageNeverPull"}, {"message", "not present"}}}}));
  const auto job = make_job();
  EXPECT_EQ(wait_for(*job, "ErrImageNeverPull: not present").state, StartState::kStarting);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (job->status().state != StartState::kFailed && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(job->status().state, StartState::kFailed);
  EXPECT_THAT(job->status().words, HasSubstr("ErrImageNeverPull"));
}

TEST_F(KubernetesJob, WaitsForKueue) {
  const auto job = make_job("team-queue");
  EXPECT_EQ(wait_for(*job, "Kueue (queue team-queue)").state, StartState::kQueued);
}

TEST_F(KubernetesJob, PodsThatMayNotBeMadeSayWhy) {
  fake_.warn("exceeded quota: compute");
  const auto job = make_job();
  EXPECT_EQ(wait_for(*job, "exceeded quota: compute").state, StartState::kQueued);
}

TEST_F(KubernetesJob, AGuardThatReachesNobodySaysWhatToOpen) {
  Json state = rank_state({{"terminated", {{"exitCode", 3}, {"reason", "Error"}, {"message", "cannot connect"}}}});
  state["status"]["phase"] = "Failed";
  fake_.hold_pods(state);
  const auto job = make_job();
  const StartStatus status = wait_for(*job, "10.0.0.1:4711");
  EXPECT_EQ(status.state, StartState::kFailed);
  EXPECT_THAT(status.words, AllOf(HasSubstr("cannot connect"), HasSubstr("NetworkPolicy")));
}

TEST_F(KubernetesJob, AServerThatIsSilentHasLostNothing) {
  fake_.hold_pods({{"status", {{"phase", "Running"}}}});
  const auto job = make_job();
  wait_for(*job, "1 of 1 pods run");
  fake_.fail("GET", "/jobs", 503, 5);
  EXPECT_EQ(wait_for(*job, "no news: made by the test").state, StartState::kStarted);
  EXPECT_THAT(job->news(), testing::IsEmpty());
  const StartStatus later = wait_for(*job, "1 of 1 pods run");
  EXPECT_EQ(later.state, StartState::kStarted);
}

TEST_F(KubernetesJob, PodsWhoseGuardsDoNotComeFail) {
  fake_.hold_pods({{"status", {{"phase", "Running"}}}});
  const auto job = make_job();
  EXPECT_EQ(wait_for(*job, "not all of their guards came").state, StartState::kFailed);
}

TEST_F(KubernetesJob, IsAskedForOnceInEachLookWhileItsPodsAreDeleted) {
  fake_.hold_pods({{"metadata", {{"deletionTimestamp", "2026-01-31T12:00:05Z"}}}, {"status", {{"phase", "Running"}}}});
  const auto job = make_job();
  const auto asked = [&](const std::string& what) {
    return std::ranges::count_if(fake_.asked(), [&](const std::string& one) {
      return one.starts_with("GET ") && one.find("/namespaces/team/" + what) != std::string::npos;
    });
  };
  wait_for(*job, "was deleted");
  const auto jobs = asked("jobs/j"), pods = asked("pods?");
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (asked("pods?") < pods + 6 && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(10ms);
  EXPECT_GE(asked("pods?"), pods + 6);
  EXPECT_LE(asked("jobs/j"), jobs + 8);
}

TEST_F(KubernetesJob, OneThatIsGoneIsNoErrorAtTheEnd) {
  fake_.hold_pods(Json::object());
  const auto job = make_job();
  fake_.forget_jobs();
  EXPECT_EQ(wait_for(*job, "somebody deleted it").state, StartState::kFailed);
  job->end(0s);
  EXPECT_TRUE(fake_.empty());
}

// ---- runs ----------------------------------------------------------------------------------------------------------

class KubernetesRun : public testing::Test {
 protected:
  KubernetesRun() {
    fs::create_directory(logs());
    request_.backend = "gloo";
    request_.guard = GUARD;
    request_.run_name = "r-2";
    request_.workers = 2;
    request_.log_dir = logs();
    request_.links.folder = folder_.path();
    request_.links.secret = "sesame";
    request_.environment = {{"MLBENCH_RUN_ID", "1"}, {"EXTRA", "a b"}};
    engine_["image"] = "worker:1";
  }
  fs::path logs() const { return folder_ / "logs"; }

  void prepare(const std::string& script) {
    request_.command = {"/bin/sh", "-c", script};
    links_.emplace(request_);
    executor_ = make(engine_);
  }
  std::unique_ptr<Start> begin(const std::string& script) {
    prepare(script);
    return executor_->start(request_);
  }
  std::unique_ptr<RankGroup> run(const std::string& script) {
    prepare(script);
    return start_and_wait(*executor_, request_, kPatience);
  }
  // What a supervisor makes of what the group sees of the two ranks of a command.
  static record::Failure failure_of(RankGroup& group) {
    supervise::JudgeOptions options;
    options.own_worker = false;
    options.verdict_time = group.verdict_time();
    supervise::Judge judge(std::move(options), std::chrono::steady_clock::now());
    supervise::RunView view;
    view.ranks.resize(2);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      for (const Observation& seen : group.poll(50ms)) judge.see(seen, std::chrono::steady_clock::now());
      view.running = group.running();
      if (const auto outcome = judge.judge(view, std::chrono::steady_clock::now())) {
        return outcome->failure.value_or(record::Failure());
      }
    }
    return {};
  }

  TemporaryFolder folder_, scratch_;
  FakeKubernetes fake_{GUARD, scratch_.path()};
  Json engine_ = Json::object();
  LaunchRequest request_;
  std::optional<TestLinks> links_;
  std::unique_ptr<Executor> executor_;
};

TEST_F(KubernetesRun, MakesThreeObjectsThatGoTogether) {
  auto group = run("echo $EXTRA; exec sleep 600");
  const auto jobs = fake_.jobs();
  ASSERT_EQ(jobs.size(), 1u);
  const std::string name = jobs[0]["metadata"]["name"];
  EXPECT_THAT(name, testing::MatchesRegex("mlbench-r-2-[0-9a-f]{8}"));
  EXPECT_EQ(jobs[0]["spec"]["suspend"], false);
  EXPECT_FALSE(jobs[0]["metadata"].contains("ownerReferences")) << "this is no pod";
  ASSERT_EQ(fake_.others().size(), 2u);
  for (const Json& other : fake_.others()) {
    EXPECT_EQ(other["metadata"]["name"], name);
    EXPECT_EQ(other["metadata"]["ownerReferences"][0]["uid"], jobs[0]["metadata"]["uid"]);
  }
  EXPECT_THAT(jobs[0].dump(), AllOf(Not(HasSubstr("sesame")), Not(HasSubstr("a b")))) << "values are the secret's";
  const Json allocation = group->allocation();
  EXPECT_EQ(allocation["engine"], "kubernetes");
  EXPECT_EQ(allocation["job"], name);
  EXPECT_EQ(allocation["namespace"], "team");
  EXPECT_EQ(allocation["nodes"], Json({"node-0", "node-1"}));
  EXPECT_EQ(allocation["image_ids"], Json({"worker@sha256:1234"}));
  EXPECT_EQ(allocation["server"], "v1.34.4");
  EXPECT_EQ(group->placement()[1].host, "node-1");
  group.reset();
  EXPECT_TRUE(fake_.empty());
}

TEST_F(KubernetesRun, WhereNodesMayNotBeListedThoseWithRanksAre) {
  fake_.refuse_nodes();
  const auto group = run("exec sleep 600");
  const ClusterNodes known = executor_->nodes();
  EXPECT_THAT(known.problem, AllOf(HasSubstr("lets this master list no nodes"), HasSubstr("rbac.nodes")));
  ASSERT_EQ(known.nodes.size(), 2U);
  EXPECT_EQ(known.nodes[1].name, "node-1");
  EXPECT_FALSE(known.nodes[1].ready || known.nodes[1].cpus);
  EXPECT_THAT(fake_.asked(), testing::Contains("GET /api/v1/namespaces/team/pods?limit=500&labelSelector="
                                               "app.kubernetes.io%2Fcomponent%3Drank"));
}

TEST_F(KubernetesRun, AJobIsWithdrawnByWhatWasNotedOfIt) {
  Json noted;
  request_.note_job = [&](const Json& job) {
    noted = job;
    EXPECT_TRUE(fake_.jobs().empty()) << "known before it is there";
  };
  engine_["queue"] = "later";  // so that the job stays suspended
  const auto start = begin("exec sleep 600");
  ASSERT_EQ(fake_.jobs().size(), 1u);
  EXPECT_EQ(noted,
            Json({{"engine", "kubernetes"}, {"job", fake_.jobs()[0]["metadata"]["name"]}, {"namespace", "team"}}));
  const auto other = make(engine_);
  EXPECT_FALSE(other->withdraw("r-2", {{"engine", "slurm"}, {"job", noted["job"]}, {"namespace", "team"}}));
  EXPECT_FALSE(fake_.empty());
  EXPECT_TRUE(other->withdraw("r-2", noted));
  EXPECT_TRUE(fake_.empty());
  EXPECT_FALSE(other->withdraw("r-2", noted));
  fake_.fail("DELETE", "/jobs/", 403, 1);
  EXPECT_THROW(other->withdraw("r-2", noted), IoError);
}

TEST_F(KubernetesRun, AJobThatIsDeletedByOthersIsNamed) {
  auto group = run("trap '' TERM; while :; do sleep 0.05; done");
  fake_.delete_jobs();
  const record::Failure failure = failure_of(*group);
  EXPECT_THAT(failure.message, AllOf(HasSubstr("mlbench-r-2-"), HasSubstr("delete")));
  EXPECT_EQ(failure.kind, "start_failed");
  EXPECT_EQ(failure.rank, -1);
  group.reset();
  EXPECT_TRUE(fake_.empty());
}

TEST_F(KubernetesRun, AJobThatIsDeletedWhileItIsLookedAtIsTheCause) {
  auto group = run("trap '' TERM; while :; do sleep 0.05; done");
  const auto looks = [&] {
    return std::ranges::count_if(fake_.asked(), [](const std::string& one) {
      return one.starts_with("GET /apis/batch/v1/namespaces/team/jobs/");
    });
  };
  fake_.fail("GET", "/jobs/", 0, 1, 500ms);  // the answer says what was before, the pods' says what comes behind
  for (const auto before = looks(); looks() == before;) std::this_thread::sleep_for(1ms);
  fake_.delete_jobs();
  const record::Failure failure = failure_of(*group);
  EXPECT_EQ(failure.kind, "start_failed") << failure.message;
  EXPECT_EQ(failure.rank, -1);
}

TEST_F(KubernetesRun, APodThatIsDeletedComesBeforeTheEndOfItsRank) {
  auto group = run("while :; do sleep 0.05; done");
  fake_.change_pod(1, {{"metadata", {{"deletionTimestamp", "2026-01-31T12:00:05Z"}}}});
  fake_.signal_pod(1, SIGTERM);
  const record::Failure failure = failure_of(*group);
  EXPECT_THAT(failure.message, HasSubstr("(rank 1 on node node-1) was deleted"));
  EXPECT_EQ(failure.kind, "rank_died");
  EXPECT_EQ(failure.rank, 1);
}

TEST_F(KubernetesRun, ARankThatEndsByItselfIsForItsLinkToTell) {
  auto group = run("[ $RANK = 1 ] && exit 7; exec sleep 600");
  // The job deletes its other pods once one has failed.
  Json failed = rank_state({{"terminated", {{"exitCode", 7}, {"reason", "Error"}}}});
  failed["status"]["phase"] = "Failed";
  const auto exits = next_of<RankExit>(*group, kPatience);
  ASSERT_EQ(exits.size(), 1u);
  EXPECT_EQ(exits[0].end.code, 7);
  fake_.change_pod(1, failed);
  fake_.change_pod(0, {{"metadata", {{"deletionTimestamp", "2026-01-31T12:00:05Z"}}}});
  const auto words = next_of<EngineWord>(*group, kPatience);
  ASSERT_FALSE(words.empty());
  EXPECT_EQ(words[0].fact, EngineFact::kRankEnded) << "which the judge leaves to the rank's own end";
  EXPECT_EQ(words[0].rank, 1);
}

TEST_F(KubernetesRun, WhatKubernetesWarnsOfIsNoted) {
  fake_.warn_of_pod(1, "FailedMount", "no such claim");
  auto group = run("exec sleep 600");
  std::vector<std::string> notes;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (notes.empty() && std::chrono::steady_clock::now() < deadline) {
    group->poll(50ms);
    notes = group->notes();
  }
  EXPECT_THAT(notes, ElementsAre(AllOf(HasSubstr("mlbench-r-2-"), HasSubstr("-1-x: FailedMount: no such claim"))));
  EXPECT_THAT(group->notes(), testing::IsEmpty());
}

TEST_F(KubernetesRun, WhatItWarnsOfBeforeTheStartIsNotedToo) {
  fake_.warn_of_pod(0, "FailedMount", "no such folder");
  Json state = rank_state({{"waiting", {{"reason", "ErrImageNeverPull"}, {"message", "not present"}}}});
  state["status"]["phase"] = "Pending";
  fake_.hold_pods(state);
  auto start = begin("true");
  std::vector<std::string> notes;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (notes.empty() && std::chrono::steady_clock::now() < deadline) {
    start->poll(50ms);
    notes = start->notes();
  }
  EXPECT_THAT(notes, ElementsAre(HasSubstr("FailedMount: no such folder")));
}

TEST_F(KubernetesRun, ACommandKnowsAMasterThatItCanReach) {
  request_.rank_words = true;
  const auto url_of = [&](const std::string& url) {
    setenv("MLBENCH_URL", url.c_str(), 1);
    auto group = run("exec sleep 600");
    unsetenv("MLBENCH_URL");
    std::string value = "none";
    for (const Json& other : fake_.others()) {
      if (other["kind"] == "Secret") value = other["stringData"].value("MLBENCH_URL", "none");
    }
    return value;
  };
  EXPECT_EQ(url_of("http://10.1.0.7:8080"), "http://10.1.0.7:8080");
  EXPECT_EQ(url_of("http://[fd00::7]:8080"), "http://[fd00::7]:8080");
  EXPECT_EQ(url_of("http://127.0.0.1:8080"), "none");
  EXPECT_EQ(url_of("https://[::1]:8080"), "none");
}

TEST_F(KubernetesRun, APodThatRunsOutOfMemoryIsNamed) {
  auto group = run("exec sleep 600");
  fake_.change_pod(
      0, {{"status",
           {{"phase", "Failed"},
            {"containerStatuses",
             Json::array(
                 {{{"name", "rank"}, {"state", {{"terminated", {{"exitCode", 137}, {"reason", "OOMKilled"}}}}}}})}}}});
  const record::Failure failure = failure_of(*group);
  EXPECT_THAT(failure.message, AllOf(HasSubstr("rank 0"), HasSubstr("OOMKilled"), HasSubstr("--memory")));
  EXPECT_EQ(failure.kind, "rank_died");
  EXPECT_EQ(failure.rank, 0);
}

TEST_F(KubernetesRun, AnEvictionIsNamed) {
  auto group = run("exec sleep 600");
  fake_.change_pod(1, {{"status", {{"phase", "Failed"}, {"reason", "Evicted"}, {"message", "node is low on disk"}}}});
  const record::Failure failure = failure_of(*group);
  EXPECT_THAT(failure.message, HasSubstr("was evicted: node is low on disk"));
  EXPECT_EQ(failure.kind, "rank_died");
  EXPECT_EQ(failure.rank, 1);
}

TEST_F(KubernetesRun, WhatIsRefusedLeavesNothing) {
  fake_.fail("POST", "/secrets", 403, 1);
  EXPECT_THAT([&] { begin("true"); },
              testing::ThrowsMessage<IoError>(AllOf(HasSubstr("Secret"), HasSubstr("made by the test"))));
  EXPECT_TRUE(fake_.empty());
}

TEST_F(KubernetesRun, AQueuedStartThatIsDroppedLeavesNothing) {
  engine_["queue"] = "team-queue";
  auto start = begin("true");
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (start->poll(50ms).state != StartState::kQueued && std::chrono::steady_clock::now() < deadline) continue;
  EXPECT_THAT(start->poll(0ms).words, HasSubstr("waits for admission by Kueue"));
  EXPECT_EQ(fake_.jobs().at(0)["spec"]["suspend"], true) << "Kueue's to change";
  start.reset();
  EXPECT_TRUE(fake_.empty());
}

TEST_F(KubernetesRun, DescribesObjectsWithoutTheirSecrets) {
  request_.command = {"/bin/true"};
  const auto lines = make(engine_)->describe(request_);
  ASSERT_EQ(lines.size(), 1u);
  const size_t end = lines[0].find('\n');
  EXPECT_EQ(lines[0].substr(0, end), "EXTRA='a b' MLBENCH_RUN_ID=1 mlbench-guard kubernetes /bin/true");
  const Json list = Json::parse(lines[0].substr(end));
  ASSERT_EQ(list["items"].size(), 3u);
  for (const auto& [name, value] : list["items"][1]["stringData"].items()) {
    EXPECT_EQ(value, "(given at the start)") << name;
  }
  EXPECT_TRUE(list["items"][1]["stringData"].contains("MLBENCH_GUARD_SECRET"));
  EXPECT_TRUE(fake_.asked().empty()) << "nobody is asked";
  engine_["namespace"] = "other";
  EXPECT_THAT(make(engine_)->describe(request_)[0], HasSubstr("\"namespace\": \"other\""));
}

// ---- Open MPI without ssh ------------------------------------------------------------------------------------------

// A test with an mpirun that stands first in PATH. It has each host's rank asked for there, then does what a test
// wants. The pods are real.
class KubernetesMpi : public KubernetesRun {
 protected:
  KubernetesMpi() {
    request_.by_mpirun = true;
    mpirun_does("wait");
    fs::permissions(folder_ / "mpirun", fs::perms::owner_all);
    setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1);
  }
  ~KubernetesMpi() override { setenv("PATH", path_.c_str(), 1); }

  void mpirun_does(const std::string& then, const std::string& hosts = "$(echo $hosts | tr , ' ')") const {
    std::ofstream(folder_ / "mpirun") << R"(#!/bin/sh
        while [ $# -gt 2 ]; do
          case $1 in --host) hosts=$2 ;; plm_rsh_agent) agent=$2 ;; esac
          shift
        done
        n=0
        for host in )" << hosts << R"(; do
          $agent $host OMPI_COMM_WORLD_RANK=$n "OMPI_SAID='of $host'" "$1" "$2" &
          n=$((n + 1))
        done
        cd )" << folder_.path().string()
                                      << "\n"
                                      << then << "\n";
  }
  static std::string until_told() { return "while [ ! -e go ]; do sleep 0.05; done; "; }
  void tell() const { write_file_atomically(folder_ / "go", ""); }

  const std::string path_ = getenv("PATH");
};

TEST_F(KubernetesMpi, RanksHaveWhatTheirDaemonsGiveThem) {
  auto group = run("echo $RANK: $OMPI_COMM_WORLD_RANK $OMPI_SAID; exec sleep 600");
  for (int rank = 0; rank < 2; ++rank) {
    const fs::path log = rank_log_path(logs(), 1, rank, LogStream::kStdout);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!fs::exists(log) || read_file(log).empty()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(10ms);
    }
    EXPECT_EQ(read_file(log), fmt::format("{0}: {0} of rank-{0}\n", rank));
  }
  EXPECT_THAT(only<EngineWord>(group->poll(0ms)), testing::IsEmpty());
  group.reset();
  EXPECT_TRUE(fake_.empty());
}

TEST_F(KubernetesMpi, AnMpirunThatFailsSaysWhy) {
  mpirun_does("echo no such component >&2; exit 5", "");
  EXPECT_THAT([&] { run("true"); },
              testing::ThrowsMessage<IoError>("rank 0 on node-0: mpirun ended with code 5: no such component"));
  EXPECT_TRUE(fake_.empty());
}

TEST_F(KubernetesMpi, ADaemonElsewhereIsRefused) {
  mpirun_does("wait", "elsewhere");
  EXPECT_THAT([&] { run("true"); },
              testing::ThrowsMessage<IoError>(HasSubstr("wants a daemon on a host that is none of this run's")));
}

TEST_F(KubernetesMpi, AnMpirunThatIsMissingIsNamed) {
  fs::remove(folder_ / "mpirun");
  setenv("PATH", folder_.path().c_str(), 1);
  EXPECT_THAT([&] { run("true"); },
              testing::ThrowsMessage<IoError>(AllOf(HasSubstr("rank 0 on node-0"), HasSubstr("'mpirun'"))));
}

TEST_F(KubernetesMpi, AKilledMpirunIsToBlame) {
  mpirun_does(until_told() + "kill -9 $$");
  auto group = run("exec sleep 600");
  tell();
  const record::Failure failure = failure_of(*group);
  EXPECT_EQ(failure.message, "beside rank 0 on node-0: mpirun was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(failure.kind, "start_failed");
  EXPECT_EQ(failure.rank, -1);
}

TEST_F(KubernetesMpi, AnMpirunThatEndsUnderItsRanksIsToBlame) {
  mpirun_does(until_told() + "echo lost it; exit 1");
  auto group = run("exec sleep 600");
  tell();
  EXPECT_EQ(failure_of(*group).message, "beside rank 0 on node-0: mpirun ended with code 1: lost it");
}

// MPI_Abort: mpirun ends before the rank that wanted it.
TEST_F(KubernetesMpi, ARankThatFailsIsToBlameForTheEndOfMpirun) {
  mpirun_does(until_told() + "exit 1");
  const TemporaryFolder elsewhere;  // the run's own folder is another one in a pod
  auto group = run("cd " + elsewhere.path().string() + "; " + until_told() + "sleep 1; exit 9");
  write_file_atomically(elsewhere / "go", "");
  tell();
  EXPECT_THAT(failure_of(*group).message, HasSubstr("exited with code 9"));
}

TEST_F(KubernetesMpi, DescribesItsMpirun) {
  request_.command = {"/bin/true"};
  request_.network_interface = "eth0";
  const std::string text = make(engine_)->describe(request_)[0];
  const size_t first = text.find('\n') + 1;
  EXPECT_EQ(text.substr(first, text.find('\n', first) - first),
            "mpirun -n 2 --host rank-0,rank-1 --map-by seq --bind-to none --mca ras '^slurm,gridengine,tm,lsf,alps' "
            "--mca orte_keep_fqdn_hostnames 1 --mca plm rsh --mca plm_rsh_agent 'mlbench-guard agent' "
            "--mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_keepalive_time 5 --mca oob_tcp_keepalive_intvl 2 "
            "--mca oob_tcp_keepalive_probes 3 --mca oob_tcp_if_include eth0 --mca orte_abort_on_non_zero_status 0 "
            "--mca odls_base_sigkill_timeout 2 --mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include eth0 "
            "--noprefix --mca orte_leave_session_attached 1 --allow-run-as-root mlbench-guard stub");
  request_.network_interface = "10.0.0.1";
  EXPECT_THAT(make(engine_)->describe(request_)[0], Not(HasSubstr("if_include"))) << "it is one pod's";
}

// ---- for others ----------------------------------------------------------------------------------------------------

TEST(KubernetesEmit, AJobFindsItsRanksByItself) {
  LaunchRequest request = plain_request();
  const Json objects = launched_by_others("job", request, {{"name", "r-4"}}, with_image(), {});
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_EQ(objects[0]["kind"], "Service");
  const Json& job = objects[1];
  const std::string name = job["metadata"]["name"];
  EXPECT_FALSE(job["spec"].contains("suspend"));
  const Json& rank = job["spec"]["template"]["spec"]["containers"][0];
  EXPECT_EQ(rank["command"][0], "/bin/sh");
  EXPECT_EQ(rank["command"][4], "mlbench-worker");
  std::map<std::string, std::string> values;
  for (const Json& one : rank["env"]) values[one["name"]] = one.value("value", "");
  EXPECT_EQ(values["MASTER_ADDR"], name + "-0." + name);
  EXPECT_EQ(values["MASTER_PORT"], "29500");
  EXPECT_EQ(values["WORLD_SIZE"], "4");
  EXPECT_EQ(values["MLBENCH_SPEC"], "{\"name\":\"r-4\"}");
  EXPECT_EQ(values["MLBENCH_RUN_DIR"], rank["command"][6]);
}

TEST(KubernetesEmit, JobSetsAndTrainJobsHaveNamesOfTheirOwn) {
  LaunchRequest request = plain_request();
  request.rank_words = true;
  request.command = {"train", "{hosts}"};
  request.workers = 2;
  const Json set = launched_by_others("jobset", request, nullptr, with_image(), {}).at(0);
  const std::string name = set["metadata"]["name"];
  EXPECT_EQ(set["apiVersion"], "jobset.x-k8s.io/v1alpha2");
  EXPECT_EQ(set["spec"]["network"]["subdomain"], name);
  const Json& rank = set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0];
  EXPECT_EQ(rank["command"], Json({"train", name + "-ranks-0-0." + name + "," + name + "-ranks-0-1." + name}));
  const Json train = launched_by_others("trainjob", request, nullptr, with_image(), {}).at(0);
  EXPECT_EQ(train["apiVersion"], "trainer.kubeflow.org/v1alpha1");
  EXPECT_EQ(train["spec"]["trainer"]["numNodes"], 2);
  EXPECT_EQ(train["spec"]["trainer"]["command"][1], train["metadata"]["name"].get<std::string>() + "-node-0-0." +
                                                        train["metadata"]["name"].get<std::string>() + "," +
                                                        train["metadata"]["name"].get<std::string>() + "-node-0-1." +
                                                        train["metadata"]["name"].get<std::string>());
}

TEST(KubernetesEmit, AnMpiJobHasALauncherAndWorkersWithAnSshd) {
  LaunchRequest request = plain_request();
  request.by_mpirun = true;
  request.workers = 2;
  Options engine = with_image();
  engine.ranks_per_host = 1;
  engine.memory = "4Gi";
  engine.data_volume = "corpora";
  engine.queue = "team-queue";
  const Json objects = launched_by_others("mpijob", request, {{"name", "r-2"}}, engine,
                                          {.pod_overlay = R"({"spec": {"imagePullSecrets": [{"name": "lab"}]}})"});
  ASSERT_EQ(objects.size(), 1u);
  const Json& job = objects[0];
  const std::string name = job["metadata"]["name"], folder = folder_on_hosts(request, kScratch).string();
  Json expected = Json::parse(R"({
    "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
    "metadata": {"name": "NAME", "labels": {
      "app.kubernetes.io/name": "mlbench", "app.kubernetes.io/component": "rank", "mlbench/run": "r-4",
      "mlbench/start": "NAME", "kueue.x-k8s.io/queue-name": "team-queue"}},
    "spec": {
      "mpiImplementation": "OpenMPI", "slotsPerWorker": 1, "launcherCreationPolicy": "WaitForWorkersReady",
      "sshAuthMountPath": "/home/mlbench/.ssh",
      "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0, "suspend": true},
      "mpiReplicaSpecs": {
        "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": {
          "metadata": {"labels": {
            "app.kubernetes.io/name": "mlbench", "app.kubernetes.io/component": "launcher", "mlbench/run": "r-4",
            "mlbench/start": "NAME", "mlbench/nodes": "shared"}},
          "spec": {
            "terminationGracePeriodSeconds": 5, "automountServiceAccountToken": false, "enableServiceLinks": false,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001,
                                "seccompProfile": {"type": "RuntimeDefault"}},
            "imagePullSecrets": [{"name": "lab"}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
              {"labelSelector": {
                 "matchLabels": {"app.kubernetes.io/name": "mlbench", "app.kubernetes.io/component": "rank"},
                 "matchExpressions": [{"key": "mlbench/start", "operator": "NotIn", "values": ["NAME"]},
                                      {"key": "mlbench/nodes", "operator": "In", "values": ["alone"]}]},
               "namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"}]}},
            "containers": [{
              "name": "rank", "image": "worker:1",
              "command": [
                "/bin/sh", "-c",
                "read -r MASTER_ADDR others </etc/mpi/hostfile || exit 4; export MASTER_ADDR; exec \"$@\"", "sh",
                "mpirun", "-n", "2", "--hostfile", "/etc/mpi/hostfile", "--map-by", "slot", "--bind-to", "none",
                "--mca", "orte_keep_fqdn_hostnames", "1", "--mca", "plm_rsh_args",
                "-p 2222 -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ConnectionAttempts=10",
                "--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "-x", "PATH", "-x", "MASTER_ADDR",
                "-x", "GLOO_SOCKET_IFNAME", "-x", "HOME", "-x", "MASTER_PORT", "-x", "MLBENCH_RUN_DIR",
                "-x", "MLBENCH_RUN_ID", "-x", "MLBENCH_SPEC", "-x", "OMP_NUM_THREADS",
                "/bin/sh", "-c", "SCRIPT", "sh",
                "mlbench-worker", "--run-dir", "FOLDER", "--segment", "2"],
              "env": [
                {"name": "GLOO_SOCKET_IFNAME", "value": "eth0"}, {"name": "HOME", "value": "/tmp"},
                {"name": "MASTER_PORT", "value": "29500"}, {"name": "MLBENCH_RUN_DIR", "value": "FOLDER"},
                {"name": "MLBENCH_RUN_ID", "value": "17"}, {"name": "MLBENCH_SPEC", "value": "{\"name\":\"r-2\"}"},
                {"name": "OMP_NUM_THREADS", "value": "2"}],
              "resources": {"requests": {"cpu": "1", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
              "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                                  "capabilities": {"drop": ["ALL"]}},
              "terminationMessagePolicy": "FallbackToLogsOnError",
              "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}, {"name": "tmp", "mountPath": "/tmp"},
                               {"name": "shm", "mountPath": "/dev/shm"}]}],
            "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}},
                        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]}}},
        "Worker": {"replicas": 2, "restartPolicy": "Never", "template": {
          "metadata": {"labels": {
            "app.kubernetes.io/name": "mlbench", "app.kubernetes.io/component": "rank", "mlbench/run": "r-4",
            "mlbench/start": "NAME", "mlbench/nodes": "alone"}},
          "spec": {
            "terminationGracePeriodSeconds": 5, "automountServiceAccountToken": false, "enableServiceLinks": false,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001,
                                "seccompProfile": {"type": "RuntimeDefault"}},
            "imagePullSecrets": [{"name": "lab"}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
              {"labelSelector": {
                 "matchLabels": {"app.kubernetes.io/name": "mlbench", "app.kubernetes.io/component": "rank"},
                 "matchExpressions": [{"key": "mlbench/start", "operator": "NotIn", "values": ["NAME"]}]},
               "namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"}]}},
            "topologySpreadConstraints": [{
              "maxSkew": 1, "minDomains": 2, "topologyKey": "kubernetes.io/hostname",
              "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor",
              "labelSelector": {"matchLabels": {
                "app.kubernetes.io/name": "mlbench", "app.kubernetes.io/component": "rank", "mlbench/start": "NAME"}}}],
            "containers": [{
              "name": "rank", "image": "worker:1",
              "command": [
                "/bin/sh", "-c",
                "ssh-keygen -q -t ed25519 -N '' -f /tmp/ssh_host_key && exec /usr/sbin/sshd -D -e -f /dev/null \"$@\"",
                "sh", "-p", "2222", "-o", "HostKey=/tmp/ssh_host_key", "-o", "PidFile=none", "-o", "UsePAM=no",
                "-o", "StrictModes=no", "-o", "PasswordAuthentication=no", "-o", "KbdInteractiveAuthentication=no",
                "-o", "AuthorizedKeysFile=/home/mlbench/.ssh/authorized_keys"],
              "env": [],
              "readinessProbe": {"tcpSocket": {"port": 2222}, "periodSeconds": 2},
              "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"cpu": "2", "memory": "4Gi"}},
              "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                                  "capabilities": {"drop": ["ALL"]}},
              "terminationMessagePolicy": "FallbackToLogsOnError",
              "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}, {"name": "tmp", "mountPath": "/tmp"},
                               {"name": "shm", "mountPath": "/dev/shm"},
                               {"name": "datasets", "mountPath": "/datasets", "readOnly": true}]}],
            "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}},
                        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                        {"name": "datasets",
                         "persistentVolumeClaim": {"claimName": "corpora", "readOnly": true}}]}}}}}})");
  // The shell's script in the launcher's words is that of a Job, which another test looks at.
  const Json& words = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"];
  request.by_mpirun = false;
  const Json plain = launched_by_others("job", request, {{"name", "r-2"}}, with_image(), {}).at(1);
  const Json& script = plain["spec"]["template"]["spec"]["containers"][0]["command"][2];
  std::string text = expected.dump();
  for (const auto& [what, with] : {std::pair<std::string, std::string>("NAME", name), {"FOLDER", folder}}) {
    for (size_t at = 0; (at = text.find("\"" + what + "\"", at)) != std::string::npos;) {
      text.replace(at + 1, what.size(), with);
    }
  }
  expected = Json::parse(text);
  Json& golden = expected["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"];
  for (Json& word : golden) {
    if (word == "SCRIPT") word = script;
  }
  EXPECT_EQ(words.size(), golden.size());
  EXPECT_EQ(canonical_json(job), canonical_json(expected));
}

TEST(KubernetesEmit, WhatWouldNotWorkIsRefused) {
  const LaunchRequest request = plain_request();
  const auto refused = [&](const std::string& kind, const Options& engine) {
    return error_of([&] { launched_by_others(kind, request, Json::object(), engine, {}); });
  };
  EXPECT_THAT(refused("pod", with_image()), HasSubstr("expected job, jobset, trainjob, mpijob"));
  EXPECT_THAT(refused("job", {}), HasSubstr("--image REF"));
  LaunchRequest over_mpi = request;
  over_mpi.by_mpirun = true;
  EXPECT_THAT(error_of([&] { launched_by_others("job", over_mpi, Json::object(), with_image(), {}); }),
              AllOf(HasSubstr("--emit mpijob"), HasSubstr("--backend gloo")));
  LaunchRequest theirs = request;
  theirs.rank_words = true;
  for (const auto& [word, text] : {std::pair("{hosts}", "its operator names the hosts"),
                                   std::pair("{rank}", "let your command read OMPI_COMM_WORLD_RANK")}) {
    theirs.command = {"train", word};
    EXPECT_THAT(error_of([&] { launched_by_others("mpijob", theirs, nullptr, with_image(), {}); }), HasSubstr(text));
  }
  Options engine = with_image();
  engine.host_network = true;
  EXPECT_THAT(refused("mpijob", engine), AllOf(HasSubstr("--host-network"), HasSubstr("jobset")));
  engine.host_network = false;
  engine.data_volume = "data";
  EXPECT_THAT(refused("trainjob", engine), AllOf(HasSubstr("--data-volume"), HasSubstr("jobset")));
}

}  // namespace
}  // namespace mlbench::exec::kubernetes
