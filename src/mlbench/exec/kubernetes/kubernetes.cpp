#include "mlbench/exec/kubernetes/kubernetes.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/log.h"
#include "mlbench/base/options.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/text.h"
#include "mlbench/exec/engine_group.h"
#include "mlbench/exec/kubernetes/api.h"
#include "mlbench/exec/kubernetes/config.h"
#include "mlbench/exec/kubernetes/job.h"
#include "mlbench/exec/kubernetes/manifest.h"
#include "mlbench/exec/kubernetes/nodes.h"
#include "mlbench/exec/kubernetes/status.h"
#include "mlbench/exec/linked.h"
#include "mlbench/exec/openmpi.h"
#include "mlbench/exec/placement.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/openmpi.h"
#include "mlbench/net/sockets.h"

namespace mlbench::exec::kubernetes {
namespace {

constexpr size_t kSuffixBytes = 4;
// The limits for the deletion of a job that nobody waits for any more.
constexpr std::chrono::seconds kWithdrawAnswer{5}, kWithdrawChange{15};
constexpr std::chrono::seconds kNodesAnswer{5};
constexpr const char* kLater = "(given at the start)";

// The host of "https://HOST:PORT" or "https://[::1]:6443".
std::string host_of(const std::string& url) {
  std::string rest = url.substr(url.find("://") + 3);
  rest = rest.substr(0, rest.find('/'));
  if (rest.starts_with('[')) return rest.substr(1, rest.find(']') - 1);
  return rest.substr(0, rest.find(':'));
}

std::vector<std::string> addresses_of_nodes(Api& api) {
  std::vector<std::string> addresses;
  const ApiAnswer nodes = api.get("/api/v1/nodes?limit=20");
  if (!nodes.good() || !nodes.body.is_object()) return addresses;  // not everybody may list nodes
  for (const Json& node : nodes.body.value("items", Json::array())) {
    for (const Json& one : node.value("status", Json::object()).value("addresses", Json::array())) {
      if (one.value("type", "") == "InternalIP") addresses.push_back(one.value("address", ""));
    }
  }
  return addresses;
}

// The address of this host towards the nodes of the cluster, else towards its server.
std::string address_for_pods(const Cluster& cluster) {
  Api api(cluster);
  std::vector<std::string> hosts;
  if (cluster.token_file.empty()) hosts = addresses_of_nodes(api);  // in a pod, the server's address is as good
  hosts.push_back(host_of(cluster.server));
  std::string own, reason;
  for (const std::string& host : hosts) {
    try {
      const std::string address = net::address_towards(host);
      if (!is_loopback(address)) return address;
      own = address;
    } catch (const std::runtime_error& error) {
      reason = error.what();
    }
  }
  if (!own.empty()) return own;  // all of the cluster is on this host
  throw IoError(fmt::format("no node of {} can be reached from this host: {}", cluster.from, reason));
}

Json owned_by(Json object, const Json& owner) {
  if (!owner.is_null()) object["metadata"]["ownerReferences"] = Json::array({owner});
  return object;
}

class KubernetesExecutor final : public Executor {
 public:
  explicit KubernetesExecutor(const Json& engine) : engine_(read_options(engine)) {}

  std::string name() const override { return "kubernetes"; }
  ExecutorFacts facts() const override { return kFacts; }

  // An answer that refuses is no obstacle: not everybody may ask for the version.
  std::string obstacle(const LaunchRequest& /*request*/) const override {
    try {
      const ApiAnswer version = Api(cluster(), {.answer = kNodesAnswer}).get("/version");
      if (version.status != 0) return "";
      return fmt::format("executor kubernetes: {} does not answer: {}", cluster().from, version.words);
    } catch (const UserError& error) {
      return fmt::format("executor kubernetes: {}", error.what());
    }
  }

  Rendezvous rendezvous(const LaunchRequest& request) const override {
    check(request, engine_, defaults());
    // MLBENCH_POD_IP may be an address that only others have for this host: no socket can be bound to such a one.
    if (const std::string& told = defaults().address; !told.empty()) {
      return {told.find(':') == std::string::npos ? "0.0.0.0" : "::", told};
    }
    if (!address_) address_ = address_for_pods(cluster());
    return {*address_, *address_};
  }

  ClusterNodes nodes() const override {
    try {
      Api api(cluster(), {.answer = kNodesAnswer});
      return nodes_of(api, engine_.name_space.empty() ? cluster().name_space : engine_.name_space);
    } catch (const std::exception& error) {
      return {.nodes = {}, .problem = error.what()};
    }
  }

  std::unique_ptr<Start> start(const LaunchRequest& request) override {
    check(request, engine_, defaults());
    const Cluster& there = cluster();
    const JobPace pace;
    // The name is random: what was deleted under an earlier one may still be ending.
    JobOfRun job;
    job.name = job_name(request, random_hex(kSuffixBytes));
    job.name_space = engine_.name_space.empty() ? there.name_space : engine_.name_space;
    job.image = image_of(engine_, defaults());
    job.queue = engine_.queue;
    job.ranks = request.workers;
    job.supervisor = request.links.rendezvous;
    job.pods_meet = !mpirun_of(request).empty();

    const LaunchRequest theirs = in_pods(request, job.name);
    std::map<std::string, std::string> values = theirs.environment;
    values.merge(guard_environment(theirs, folder_on_hosts(request, kScratch)));
    const std::string& url = defaults().master_url;
    if (request.rank_words && !url.empty() && !is_loopback(host_of(url))) values.emplace(variables::kUrl, url);
    const Objects objects = objects_of(theirs, engine_, defaults(), job.name, values);
    // The links are made before the job: no guard may come earlier.
    std::unique_ptr<Start> links = start_linked(request, {}, files_for_guards(request), mpirun_of(request),
                                                hosts_of_pods(job.name, request.workers));
    Api api(there, pace.api);
    // The job is noted before it is made: it is suspended, or queued, until this process goes on.
    if (request.note_job)
      request.note_job({{"engine", "kubernetes"}, {"job", job.name}, {"namespace", job.name_space}});
    try {
      // The job is suspended until all that its pods need is there. It owns these objects, so they go with it.
      const Json made = api.create(fmt::format("/apis/batch/v1/namespaces/{}/jobs", job.name_space),
                                   owned_by(objects.job, owner_of_jobs(defaults(), there, job.name_space)));
      job.uid = made.at("metadata").value("uid", "");
      if (job.uid.empty()) throw IoError(fmt::format("Kubernetes made job {} and does not let it be read", job.name));
      const Json owner = {{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"name", job.name}, {"uid", job.uid}};
      api.create(fmt::format("/api/v1/namespaces/{}/secrets", job.name_space), owned_by(objects.secret, owner));
      api.create(fmt::format("/api/v1/namespaces/{}/services", job.name_space), owned_by(objects.service, owner));
      if (job.queue.empty()) api.change(job.path(), {{"spec", {{"suspend", false}}}});
    } catch (const std::exception&) {
      withdraw(api, job);
      throw;
    }
    const ApiAnswer version = api.get("/version");
    if (version.good() && version.body.is_object()) job.server = version.body.value("gitVersion", "");
    return std::make_unique<EngineStart>(std::make_unique<Job>(there, std::move(job), pace), std::move(links));
  }

  bool withdraw(const std::string& /*run_name*/, const Json& job) override {
    JobOfRun made;
    made.name = text_member(job, "job");
    made.name_space = text_member(job, "namespace");
    if (text_member(job, "engine") != "kubernetes" || !is_label(made.name) || !is_label(made.name_space)) return false;
    Api api(cluster(), {.answer = kWithdrawAnswer, .change = kWithdrawChange});
    return api.remove(made.path(), kGraceSeconds);
  }

  // The command of each pod with its variables, that of mpirun where there is one, and the objects behind it.
  std::vector<std::string> describe(const LaunchRequest& request) const override {
    check(request, engine_, defaults());
    const std::string folder = folder_on_hosts(request, kScratch).string();
    const std::string name = job_name(request, sha256_hex(folder).substr(0, 2 * kSuffixBytes));
    const LaunchRequest theirs = in_pods(request, name);
    std::map<std::string, std::string> values;
    for (const auto& [key, value] : theirs.environment) values[key] = kLater;
    for (const std::string& key : variables_of_links(theirs)) values[key] = kLater;
    Objects objects = objects_of(theirs, engine_, defaults(), name, values);
    Json list = {{"apiVersion", "v1"}, {"kind", "List"}};
    list["items"] = in_namespace(Json::array({objects.job, objects.secret, objects.service}));
    std::string lines = command_line(theirs.environment, objects.command) + "\n";
    std::vector<std::string> mpirun = mpirun_of(request);
    fill_in(mpirun, guard::kGuardWord, "mlbench-guard");
    if (!mpirun.empty()) lines += command_line({}, mpirun) + "\n";
    return {lines + list.dump(2)};
  }

  Json manifest(const std::string& kind, const LaunchRequest& request, const Json& spec) const override {
    return in_namespace(launched_by_others(kind, request, spec, engine_, defaults()));
  }

 private:
  const Defaults& defaults() const {
    if (!defaults_) defaults_ = own_defaults(own_surroundings());
    return *defaults_;
  }

  // The words of mpirun, which runs in the first pod; empty where none is needed.
  static std::vector<std::string> mpirun_of(const LaunchRequest& request) {
    return request.by_mpirun ? mpirun_over_links(request) : std::vector<std::string>();
  }

  const Cluster& cluster() const {
    if (!cluster_) cluster_ = find_cluster(engine_.context, own_surroundings());
    return *cluster_;
  }

  Json in_namespace(Json objects) const {
    if (engine_.name_space.empty()) return objects;
    for (Json& object : objects) object["metadata"]["namespace"] = engine_.name_space;
    return objects;
  }

  // Deletes a job that was not made whole; it may also come later, where a try to make it still succeeds.
  static void withdraw(Api& api, const JobOfRun& job) {
    try {
      api.remove(job.path(), 0);
    } catch (const std::exception& error) {
      spdlog::warn("{}; where there is a job {} in namespace {}, it is suspended: kubectl delete job {}", error.what(),
                   job.name, job.name_space, job.name);
    }
  }

  const Options engine_;
  mutable std::optional<Defaults> defaults_;  // read when first asked for: naming the executor reads nothing
  mutable std::optional<Cluster> cluster_;
  mutable std::optional<std::string> address_;  // found once
};

}  // namespace

Availability available() {
  try {
    find_cluster("", own_surroundings());
    return {true, ""};
  } catch (const std::exception& error) {
    return {false, error.what()};
  }
}

Options read_options(const Json& engine) {
  OptionReader reader("executor 'kubernetes'", engine);
  Options options;
  options.ranks_per_host = reader.integer("ranks_per_host", 0, spec::kRanksPerHost);
  options.image = reader.text("image", "");
  options.context = reader.text("kube_context", "");
  options.name_space = reader.text("namespace", "");
  options.memory = reader.text("memory", "");
  options.data_volume = reader.text("data_volume", "");
  options.queue = reader.text("queue", "");
  options.host_network = reader.flag("host_network", false);
  options.pod_overlay = reader.text("pod_overlay", "");
  reader.integer("requeue", 0, kRequeues);  // the supervisor acts on it
  reader.finish();
  return options;
}

std::unique_ptr<Executor> make(const Json& engine) { return std::make_unique<KubernetesExecutor>(engine); }

}  // namespace mlbench::exec::kubernetes
