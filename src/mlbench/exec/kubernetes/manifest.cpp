#include "mlbench/exec/kubernetes/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/gpus.h"
#include "mlbench/base/input.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/text.h"
#include "mlbench/base/text_blocks.h"
#include "mlbench/exec/kubernetes/overlay.h"
#include "mlbench/exec/linked.h"

namespace mlbench::exec::kubernetes {
namespace {

// The user of mlbench's images.
constexpr int kUser = 10001;
// The seconds after which Kubernetes removes a job that ended: nobody else did, as its supervisor is gone.
constexpr int kKeptSeconds = 300;
constexpr const char* kSharedMemory = "1Gi";
constexpr const char* kGuard = "mlbench-guard";
constexpr const char* kTools = "/mlbench";
constexpr const char* kNodeName = "kubernetes.io/hostname";
constexpr const char* kNodesLabel = "mlbench/nodes";  // a label of pods: whether they share their nodes
constexpr const char* kAlone = "alone";
constexpr const char* kPort = "29500";

// The text as the value of a label: letters, digits and ._-, with a letter or digit at both ends.
std::string label_value(std::string text) {
  for (char& c : text) {
    if (!is_alnum(c) && c != '.' && c != '_' && c != '-') c = '-';
  }
  if (text.size() > kLongestLabel) text.resize(kLongestLabel);
  while (!text.empty() && !is_alnum(text.back())) text.pop_back();
  while (!text.empty() && !is_alnum(text.front())) text.erase(0, 1);
  return text;
}

std::string run_name_of(const LaunchRequest& request) { return request.run_name.empty() ? "run" : request.run_name; }

// The labels of all ranks, whatever their run.
Json labels_of_ranks() { return {{"app.kubernetes.io/name", "mlbench"}, {kComponentLabel, "rank"}}; }

}  // namespace

Json labels_of(const LaunchRequest& request, const Defaults& defaults, const std::string& name) {
  Json labels = labels_of_ranks();
  if (!defaults.release.empty()) labels["app.kubernetes.io/instance"] = label_value(defaults.release);
  labels["mlbench/run"] = label_value(run_name_of(request));
  labels[kStartLabel] = name;
  return labels;
}

std::string for_kubelet(const std::string& text) {
  std::string escaped;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool taken = text[i] == '$' && i + 1 < text.size() && (text[i + 1] == '$' || text[i + 1] == '(');
    escaped += taken ? std::string("$$") : std::string(1, text[i]);
  }
  return escaped;
}

std::vector<std::string> for_kubelet(std::vector<std::string> words) {
  for (std::string& word : words) word = for_kubelet(word);
  return words;
}

namespace {

Json variable(const std::string& name, const std::string& value) {
  return {{"name", name}, {"value", for_kubelet(value)}};
}
Json variable_of_pod(const std::string& name, const std::string& path) {
  return {{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", path}}}}}};
}

// The security context that Kubernetes' standard "restricted" demands.
Json container_security() {
  return {{"allowPrivilegeEscalation", false},
          {"readOnlyRootFilesystem", true},
          {"capabilities", {{"drop", Json::array({"ALL"})}}}};
}

Json resources_of(const LaunchRequest& request, const Options& engine) {
  Json each = {
      {"cpu", request.cpus > 0 ? fmt::format("{:.0f}m", request.cpus * 1000) : std::to_string(request.threads)}};
  if (!engine.memory.empty()) each["memory"] = engine.memory;
  if (request.gpu) each[kGpuResource] = "1";
  return {{"requests", each}, {"limits", each}};
}

// Says in `pod` how ranks spread over nodes. On a node with ranks of a measurement there is no rank of another run, in
// whatever namespace, and a rank that shares its nodes comes to no node of a measurement. Each pod says so itself, and
// has no other rule of this kind. When a pod goes, the scheduler looks at once at pods that wait only if it matches all
// their own rules, else within 5 minutes.
void place(Json& pod, const LaunchRequest& request, const Options& engine, const std::string& name) {
  Json others = Json::array({{{"key", kStartLabel}, {"operator", "NotIn"}, {"values", Json::array({name})}}});
  if (request.share_host) {
    others.push_back({{"key", kNodesLabel}, {"operator", "In"}, {"values", Json::array({kAlone})}});
  }
  const Json apart = {{"labelSelector", {{"matchLabels", labels_of_ranks()}, {"matchExpressions", std::move(others)}}},
                      {"namespaceSelector", Json::object()},
                      {"topologyKey", kNodeName}};
  pod["affinity"] = {{"podAntiAffinity", {{"requiredDuringSchedulingIgnoredDuringExecution", Json::array({apart})}}}};
  if (engine.ranks_per_host > 0) {
    const int64_t nodes = (request.workers + engine.ranks_per_host - 1) / engine.ranks_per_host;
    Json these = labels_of_ranks();
    these[kStartLabel] = name;
    pod["topologySpreadConstraints"] = Json::array({{{"maxSkew", 1},
                                                     {"minDomains", nodes},
                                                     {"topologyKey", kNodeName},
                                                     {"whenUnsatisfiable", "DoNotSchedule"},
                                                     {"nodeTaintsPolicy", "Honor"},
                                                     {"labelSelector", {{"matchLabels", std::move(these)}}}}});
  }
}

}  // namespace

Json template_of(const LaunchRequest& request, const Options& engine, const Defaults& defaults, const std::string& name,
                 const Rank& rank) {
  Json mounts = Json::array({{{"name", "scratch"}, {"mountPath", kScratch}},
                             {{"name", "tmp"}, {"mountPath", "/tmp"}},
                             {{"name", "shm"}, {"mountPath", "/dev/shm"}}});
  Json volumes = Json::array({{{"name", "scratch"}, {"emptyDir", Json::object()}},
                              {{"name", "tmp"}, {"emptyDir", Json::object()}},
                              {{"name", "shm"}, {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", kSharedMemory}}}}});
  if (const std::string data = data_volume_of(engine, defaults); !data.empty()) {
    mounts.push_back({{"name", "datasets"}, {"mountPath", kImageData}, {"readOnly", true}});
    Json volume = {{"name", "datasets"}};
    if (data.starts_with('/')) {
      volume["hostPath"] = {{"path", data}, {"type", "Directory"}};
    } else {
      volume["persistentVolumeClaim"] = {{"claimName", data}, {"readOnly", true}};
    }
    volumes.push_back(std::move(volume));
  }
  Json pod = {{"restartPolicy", "Never"},
              {"subdomain", name},
              {"terminationGracePeriodSeconds", kGraceSeconds},
              {"automountServiceAccountToken", false},
              {"enableServiceLinks", false},
              {"securityContext",
               {{"runAsNonRoot", true},
                {"runAsUser", kUser},
                {"runAsGroup", kUser},
                {"fsGroup", kUser},
                {"seccompProfile", {{"type", "RuntimeDefault"}}}}}};
  if (engine.host_network) {
    pod["hostNetwork"] = true;
    pod["dnsPolicy"] = "ClusterFirstWithHostNet";
  }
  place(pod, request, engine, name);
  if (rank.tools) {
    volumes.push_back({{"name", "mlbench"}, {"emptyDir", Json::object()}});
    const Json mount = {{"name", "mlbench"}, {"mountPath", kTools}};
    const Json little = {{"cpu", "100m"}, {"memory", "64Mi"}};
    const std::string copy = fmt::format("exec cp \"$(command -v {})\" {}/", kGuard, kTools);
    pod["initContainers"] = Json::array({{{"name", "guard"},
                                          {"image", defaults.worker_image},
                                          {"command", for_kubelet({"/bin/sh", "-c", copy})},
                                          {"resources", {{"requests", little}, {"limits", little}}},
                                          {"securityContext", container_security()},
                                          {"volumeMounts", Json::array({mount})}}});
    Json read_only = mount;
    read_only["readOnly"] = true;
    mounts.push_back(std::move(read_only));
  }
  Json container = {{"name", kRankContainer}, {"image", image_of(engine, defaults)}};
  container["command"] = for_kubelet(rank.command);
  if (!request.working_directory.empty()) container["workingDir"] = request.working_directory.string();
  container["env"] = rank.environment;
  container["resources"] = resources_of(request, engine);
  container["securityContext"] = container_security();
  container["terminationMessagePolicy"] = "FallbackToLogsOnError";
  container["volumeMounts"] = std::move(mounts);
  pod["containers"] = Json::array({std::move(container)});
  pod["volumes"] = std::move(volumes);
  Json labels = labels_of(request, defaults, name);
  labels[kNodesLabel] = request.share_host ? "shared" : kAlone;
  Json made = {{"metadata", {{"labels", std::move(labels)}}}, {"spec", std::move(pod)}};
  made = with_overlay(std::move(made), defaults.pod_overlay, variables::kPodOverlay);
  return with_overlay(std::move(made), engine.pod_overlay, "--pod-overlay");
}

namespace {

Json job_of(const LaunchRequest& request, const Options& engine, const Defaults& defaults, const std::string& name,
            const Rank& rank) {
  Json labels = labels_of(request, defaults, name);
  if (!engine.queue.empty()) labels[kQueueLabel] = engine.queue;
  return {{"apiVersion", "batch/v1"},
          {"kind", "Job"},
          {"metadata", {{"name", name}, {"labels", labels}}},
          {"spec",
           {{"completions", request.workers},
            {"parallelism", request.workers},
            {"completionMode", "Indexed"},
            {"backoffLimit", 0},
            {"podReplacementPolicy", "Failed"},
            {"suspend", true},
            {"template", template_of(request, engine, defaults, name, rank)}}}};
}

Json service_of(const Json& labels, const std::string& name) {
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", {{"name", name}, {"labels", labels}}},
          {"spec", {{"clusterIP", "None"}, {"publishNotReadyAddresses", true}, {"selector", {{kStartLabel, name}}}}}};
}

// The variables of a rank by which it finds its place, beside JOB_COMPLETION_INDEX, which Kubernetes sets.
Json place_variables(const LaunchRequest& request) {
  Json list = Json::array({variable("WORLD_SIZE", std::to_string(request.workers)), variable("LOCAL_RANK", "0"),
                           variable("LOCAL_WORLD_SIZE", "1")});
  if (gives_own_gpu(request)) list.push_back(variable(kVisibleGpus, "0"));  // the GPU of its pod
  if (!request.rank_words || request.by_mpirun) return list;
  // The variables of exec/horovod.h, with one rank per host.
  const std::string index = fmt::format("metadata.annotations['{}']", kIndexLabel), one = "1",
                    size = std::to_string(request.workers);
  list.insert(list.end(), {variable_of_pod("HOROVOD_RANK", index), variable("HOROVOD_SIZE", size),
                           variable("HOROVOD_LOCAL_RANK", "0"), variable("HOROVOD_LOCAL_SIZE", one),
                           variable_of_pod("HOROVOD_CROSS_RANK", index), variable("HOROVOD_CROSS_SIZE", size)});
  return list;
}

bool brings_guard(const LaunchRequest& request, const Options& engine, const Defaults& defaults) {
  return request.rank_words && !defaults.worker_image.empty() && image_of(engine, defaults) != defaults.worker_image;
}

}  // namespace

Defaults own_defaults(const Surroundings& here) {
  const auto value = [&](const char* name) { return here.variable(name).value_or(""); };
  Defaults defaults{.worker_image = value(variables::kWorkerImage),
                    .data_volume = value(variables::kDataVolume),
                    .release = value(variables::kRelease),
                    .address = value(variables::kPodAddress),
                    .pod_name = value(variables::kPodName),
                    .pod_uid = value(variables::kPodUid),
                    .master_url = value(variables::kUrl)};
  if (const std::string file = value(variables::kPodOverlay); !file.empty()) {
    try {
      defaults.pod_overlay = read_text_file(file, inputs::kPodOverlay);
    } catch (const IoError& error) {
      throw UserError(fmt::format("{}: {}", variables::kPodOverlay, error.what()));
    }
  }
  return defaults;
}

Json owner_of_jobs(const Defaults& defaults, const Cluster& cluster, const std::string& name_space) {
  if (!cluster.around_us || name_space != cluster.name_space) return nullptr;
  if (defaults.pod_name.empty() || defaults.pod_uid.empty()) return nullptr;
  return {{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", defaults.pod_name}, {"uid", defaults.pod_uid}};
}

std::string image_of(const Options& engine, const Defaults& defaults) {
  return engine.image.empty() ? defaults.worker_image : engine.image;
}

std::string job_name(const LaunchRequest& request, const std::string& suffix, size_t reserved) {
  const size_t behind = 1 + suffix.size() + 1 + std::to_string(request.workers - 1).size() + reserved;
  std::string name = "mlbench-" + run_name_of(request);
  for (char& c : name) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!is_alnum(c)) c = '-';
  }
  if (name.size() + behind > kLongestLabel) name.resize(kLongestLabel - behind);
  while (name.ends_with('-')) name.pop_back();
  return name + "-" + suffix;
}

LaunchRequest in_pods(const LaunchRequest& request, const std::string& name) {
  LaunchRequest theirs = request;
  if (const std::filesystem::path here = folder_here(request); !here.empty()) {
    theirs.links.folder = here;
    theirs = moved_to(std::move(theirs), folder_on_hosts(request, kScratch));
  }
  if (!request.rank_words) return theirs;
  const std::vector<std::string> hosts = hosts_of_pods(name, request.workers);
  fill_in(theirs.command, "{hosts}", fmt::format("{}", fmt::join(hosts, ",")));
  theirs.environment["MASTER_ADDR"] = hosts.front();
  return theirs;
}

std::vector<std::string> hosts_of_pods(const std::string& name, int ranks) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(fmt::format("{0}-{1}.{0}", name, rank));
  return hosts;
}

Objects objects_of(const LaunchRequest& request, const Options& engine, const Defaults& defaults,
                   const std::string& name, const std::map<std::string, std::string>& values) {
  Rank rank;
  rank.tools = brings_guard(request, engine, defaults);
  rank.command = {rank.tools ? fmt::format("{}/{}", kTools, kGuard) : kGuard, "kubernetes"};
  rank.command.insert(rank.command.end(), request.command.begin(), request.command.end());
  for (const auto& [key, value] : values) {
    rank.environment.push_back({{"name", key}, {"valueFrom", {{"secretKeyRef", {{"name", name}, {"key", key}}}}}});
  }
  if (!values.contains("HOME")) rank.environment.push_back(variable("HOME", "/tmp"));
  for (Json& each : place_variables(request)) {
    if (!values.contains(each["name"].get<std::string>())) rank.environment.push_back(std::move(each));
  }
  rank.environment.push_back(variable_of_pod(variables::kNodeName, "spec.nodeName"));
  Objects objects;
  objects.job = job_of(request, engine, defaults, name, rank);
  objects.job["spec"]["ttlSecondsAfterFinished"] = kKeptSeconds;
  const Json labels = labels_of(request, defaults, name);
  Json data = Json::object();
  for (const auto& [key, value] : values) data[key] = value;
  objects.secret = {{"apiVersion", "v1"}, {"kind", "Secret"},  {"metadata", {{"name", name}, {"labels", labels}}},
                    {"type", "Opaque"},   {"immutable", true}, {"stringData", std::move(data)}};
  objects.service = service_of(labels, name);
  objects.command = std::move(rank.command);
  return objects;
}

namespace {

constexpr std::array<std::string_view, 4> kKinds = {"job", "jobset", "trainjob", "mpijob"};

}  // namespace

// The specification of a task comes as a variable; rank 0 prints what it measured to its log.
Rank free_rank(const LaunchRequest& request, const Json& spec, const std::string& first_host,
               const std::string& folder) {
  const std::string script = fmt::format(
      "mkdir -p \"${0}\" && printf %s \"${1}\" >\"${0}/{2}\" || exit 4; "
      "\"$@\"; code=$?; "
      "if [ -f \"${0}/{3}\" ]; then cat \"${0}/{3}\"; fi; exit $code",
      variables::kRunDir, variables::kSpec, kSpecFile, kRecordFile);
  Rank rank;
  std::map<std::string, std::string> values = request.environment;
  values["MASTER_ADDR"] = first_host;
  values["MASTER_PORT"] = kPort;
  values[variables::kRunDir] = folder;
  values["HOME"] = "/tmp";
  if (spec.is_null()) {
    rank.command = request.command;
  } else {
    values[variables::kSpec] = spec.dump();
    values["GLOO_SOCKET_IFNAME"] = request.network_interface.empty() ? "eth0" : request.network_interface;
    rank.command = {"/bin/sh", "-c", script, "sh"};
    rank.command.insert(rank.command.end(), request.command.begin(), request.command.end());
  }
  for (const auto& [key, value] : values) rank.environment.push_back(variable(key, value));
  for (Json& each : place_variables(request)) rank.environment.push_back(std::move(each));
  return rank;
}

namespace {

Json job_set(Json job, const std::string& name) {
  Json labels = job["metadata"]["labels"];
  Json spec = std::move(job["spec"]);
  spec.erase("suspend");
  spec["template"]["spec"].erase("subdomain");  // JobSet sets it, and makes the service
  return {{"apiVersion", "jobset.x-k8s.io/v1alpha2"},
          {"kind", "JobSet"},
          {"metadata", {{"name", name}, {"labels", labels}}},
          {"spec",
           {{"network", {{"enableDNSHostnames", true}, {"subdomain", name}, {"publishNotReadyAddresses", true}}},
            {"failurePolicy", {{"maxRestarts", 0}}},
            {"replicatedJobs",
             Json::array({{{"name", "ranks"}, {"replicas", 1}, {"template", {{"spec", std::move(spec)}}}}})}}}};
}

Json train_job(const Json& job, const LaunchRequest& request, const Options& engine, const Rank& rank,
               const std::string& image) {
  for (const auto& [given, option] :
       {std::pair(!engine.data_volume.empty(), "--data-volume"),
        std::pair(!engine.pod_overlay.empty(), "--pod-overlay"), std::pair(engine.host_network, "--host-network"),
        std::pair(engine.ranks_per_host > 0, "--ranks-per-host")}) {
    if (!given) continue;
    throw UserError(fmt::format("--emit trainjob takes no {}: its runtime decides that; give --emit jobset", option));
  }
  return {{"apiVersion", "trainer.kubeflow.org/v1alpha1"},
          {"kind", "TrainJob"},
          {"metadata", job["metadata"]},
          {"spec",
           {{"runtimeRef", {{"name", "torch-distributed"}}},
            {"trainer",
             {{"image", image},
              {"command", for_kubelet(rank.command)},
              {"env", rank.environment},
              {"numNodes", request.workers},
              {"numProcPerNode", 1},
              {"resourcesPerNode", resources_of(request, engine)}}}}}};
}

}  // namespace

Json launched_by_others(const std::string& kind, const LaunchRequest& request, const Json& spec, const Options& engine,
                        const Defaults& defaults) {
  if (std::ranges::find(kKinds, kind) == kKinds.end()) {
    throw UserError(fmt::format("--emit '{}': expected {}", shortened(kind), fmt::join(kKinds, ", ")));
  }
  check(request, engine, defaults);
  const bool by_mpirun = kind == "mpijob";
  if (request.by_mpirun && !by_mpirun) {
    throw UserError(
        fmt::format("--emit {} with --backend mpi: nobody starts Open MPI's daemons there; give --emit mpijob or "
                    "--backend gloo, or "
                    "run it without --emit",
                    kind));
  }
  if (request.command.empty()) throw UserError("--emit: there is nothing to run");
  for (const std::string& word : request.command) {
    if (word.find("{rank}") == std::string::npos || !request.rank_words) continue;
    throw UserError(fmt::format("--emit: nobody fills in {{rank}} in '{}' there: let your command read {}",
                                shortened(word), by_mpirun ? "OMPI_COMM_WORLD_RANK" : "JOB_COMPLETION_INDEX"));
  }
  // Names of JobSet's pods have "-ranks-0-INDEX-xxxxx" behind them, those of Kubeflow's "-node-0-INDEX-xxxxx" and
  // "-launcher-xxxxx".
  constexpr size_t kReserved = sizeof "-launcher" + sizeof "-xxxxx";
  const std::string folder = sha256_hex(folder_here(request).string()).substr(0, 8);
  const std::string name = job_name(request, folder, kind == "job" ? 0 : kReserved);
  const std::string pod = kind == "job" ? name : fmt::format("{}-{}-0", name, kind == "jobset" ? "ranks" : "node");
  LaunchRequest theirs = in_pods(request, name);
  if (request.rank_words) {
    theirs.command = request.command;
    std::vector<std::string> hosts;
    for (int rank = 0; rank < request.workers; ++rank) hosts.push_back(fmt::format("{}-{}.{}", pod, rank, name));
    fill_in(theirs.command, "{hosts}", fmt::format("{}", fmt::join(hosts, ",")));
  }
  // A TrainJob has no volume of mlbench's.
  const std::string run_dir = kind == "trainjob" ? "/tmp/mlbench-run" : folder_on_hosts(request, kScratch).string();
  fill_in(theirs.command, folder_on_hosts(request, kScratch).string(), run_dir);
  if (by_mpirun) {
    if (request.rank_words) theirs.command = request.command;
    return Json::array({mpi_job(theirs, spec, run_dir, engine, defaults, name)});
  }
  const Rank rank = free_rank(theirs, spec, fmt::format("{}-0.{}", pod, name), run_dir);
  Json job = job_of(theirs, engine, defaults, name, rank);
  if (kind == "trainjob") return Json::array({train_job(job, theirs, engine, rank, image_of(engine, defaults))});
  if (kind == "jobset") return Json::array({job_set(std::move(job), name)});
  // Kueue admits only jobs that are suspended.
  if (engine.queue.empty()) job["spec"].erase("suspend");
  const Json labels = labels_of(request, defaults, name);
  return Json::array({service_of(labels, name), std::move(job)});
}

}  // namespace mlbench::exec::kubernetes
