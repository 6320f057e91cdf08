#include <fmt/format.h>

#include <initializer_list>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/exec/kubernetes/manifest.h"
#include "mlbench/guard/launcher_words.h"

namespace mlbench::exec::kubernetes {
namespace {

// The folder, in the home of the user of mlbench's images, where the operator mounts keys; and a port that needs no
// rights.
constexpr const char* kKeys = "/home/mlbench/.ssh";
constexpr int kSshPort = 2222;

// The sshd of user 10001, who may log in as himself alone. Its host key is made at each start: an image would have one
// for all.
std::vector<std::string> sshd_command() {
  constexpr const char* kScript =
      "ssh-keygen -q -t ed25519 -N '' -f /tmp/ssh_host_key && exec /usr/sbin/sshd -D -e -f /dev/null \"$@\"";
  std::vector<std::string> command = {"/bin/sh", "-c", kScript, "sh", "-p", std::to_string(kSshPort)};
  for (const char* option : {"HostKey=/tmp/ssh_host_key", "PidFile=none", "UsePAM=no", "StrictModes=no",
                             "PasswordAuthentication=no", "KbdInteractiveAuthentication=no"}) {
    command.insert(command.end(), {"-o", option});
  }
  command.insert(command.end(), {"-o", fmt::format("AuthorizedKeysFile={}/authorized_keys", kKeys)});
  return command;
}

// The launcher's command. Rank 0 is on the first host of the file of hosts. Ranks have the variables of the launcher's
// container.
std::vector<std::string> launcher_command(const LaunchRequest& request, const Json& environment,
                                          const std::vector<std::string>& rank) {
  constexpr const char* kScript =
      "read -r MASTER_ADDR others </etc/mpi/hostfile || exit 4; export MASTER_ADDR; exec \"$@\"";
  std::vector<std::string> words = {"/bin/sh", "-c", kScript, "sh", "mpirun", "-n", std::to_string(request.workers)};
  const auto add = [&](std::initializer_list<std::string> more) { words.insert(words.end(), more); };
  add({"--hostfile", "/etc/mpi/hostfile", "--map-by", "slot", "--bind-to", "none"});
  add({"--mca", "orte_keep_fqdn_hostnames", "1", "--mca", "plm_rsh_args",
       fmt::format("-p {} -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
                   "-o ConnectionAttempts=10",
                   kSshPort)});
  add({"--mca", "pml", "ob1", "--mca", "btl", "self,tcp"});
  if (const std::string& network = request.network_interface; !network.empty()) {
    add({"--mca", "oob_tcp_if_include", network, "--mca", "btl_tcp_if_include", network});
  }
  add({"-x", "PATH", "-x", "MASTER_ADDR"});
  for (const Json& one : environment) add({"-x", one["name"].get<std::string>()});
  words.insert(words.end(), rank.begin(), rank.end());
  return words;
}

}  // namespace

// The operator makes keys, names and the file of hosts. mpirun passes on what ranks are told: sshd gives them nothing
// of its container.
Json mpi_job(const LaunchRequest& request, const Json& spec, const std::string& run_dir, const Options& engine,
             const Defaults& defaults, const std::string& name) {
  if (engine.host_network) {
    throw UserError("--emit mpijob takes no --host-network: its sshd would listen on the nodes; give --emit jobset");
  }
  for (const std::string& word : request.command) {
    if (guard::shielded(word) != word) {
      throw UserError(
          fmt::format("--emit mpijob: mpirun takes the word '{}' for its own, wherever it stands; put the "
                      "command into a script of the image",
                      word));
    }
    if (!request.rank_words || word.find("{hosts}") == std::string::npos) continue;
    throw UserError(
        fmt::format("--emit mpijob: its operator names the hosts, nobody fills in {{hosts}} in '{}'", shortened(word)));
  }
  Rank rank = free_rank(request, spec, "", run_dir);
  Json said = Json::array();  // without a rank's place, which mpirun and the file of hosts say
  for (const Json& one : rank.environment) {
    const std::string& what = one["name"].get_ref<const std::string&>();
    const bool place = what == "MASTER_ADDR" || what == "WORLD_SIZE" || what.starts_with("LOCAL_");
    if (!place && !what.starts_with("HOROVOD_")) said.push_back(one);
  }
  rank.environment = std::move(said);

  Rank server;
  server.command = sshd_command();
  Json worker = template_of(request, engine, defaults, name, server);
  worker["spec"]["containers"][0]["readinessProbe"] = {{"tcpSocket", {{"port", kSshPort}}}, {"periodSeconds", 2}};

  LaunchRequest starts = request;
  starts.threads = 1;
  starts.cpus = 0;
  starts.gpu = false;
  starts.share_host = true;  // the launcher measures nothing
  Options little = engine;
  little.ranks_per_host = 0;
  little.memory = "256Mi";
  little.data_volume.clear();
  Defaults without_data = defaults;
  without_data.data_volume.clear();
  Json launcher = template_of(starts, little, without_data, name, rank);
  launcher["metadata"]["labels"][kComponentLabel] = "launcher";

  Json& container = launcher["spec"]["containers"][0];
  container["command"] = for_kubelet(launcher_command(request, container["env"], rank.command));

  const auto replicas = [](int64_t count, Json pods) {
    // The operator sets these.
    for (const char* key : {"restartPolicy", "subdomain"}) pods["spec"].erase(key);
    return Json{{"replicas", count}, {"restartPolicy", "Never"}, {"template", std::move(pods)}};
  };
  Json policy = {{"cleanPodPolicy", "Running"}, {"backoffLimit", 0}};
  Json labels = labels_of(request, defaults, name);
  if (!engine.queue.empty()) {
    labels[kQueueLabel] = engine.queue;
    policy["suspend"] = true;  // Kueue admits only jobs that are suspended
  }
  return {
      {"apiVersion", "kubeflow.org/v2beta1"},
      {"kind", "MPIJob"},
      {"metadata", {{"name", name}, {"labels", std::move(labels)}}},
      {"spec",
       {{"mpiImplementation", "OpenMPI"},
        {"slotsPerWorker", 1},
        {"launcherCreationPolicy", "WaitForWorkersReady"},
        {"sshAuthMountPath", kKeys},
        {"runPolicy", std::move(policy)},
        {"mpiReplicaSpecs",
         {{"Launcher", replicas(1, std::move(launcher))}, {"Worker", replicas(request.workers, std::move(worker))}}}}}};
}

}  // namespace mlbench::exec::kubernetes
