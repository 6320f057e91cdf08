#pragma once

// What the executor of a run is told beside the run: on which hosts, and what its engine is to be given. Which of it an
// executor takes, its row of catalog/control says; what it does not take is refused.

#include <cstdint>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/numbers.h"

namespace mlbench::spec {

inline constexpr Range kRanksPerHost{1, 1024};
inline constexpr Range kRequeues{1, 100};
inline constexpr Range kCpusOfARank{0.1, 1024};
inline constexpr size_t kLongestSetup = 64 * 1024;
inline constexpr size_t kLongestPodOverlay = 64 * 1024;

// What Kubernetes is told (executor kubernetes).
struct KubernetesOptions {
  std::string context = {};      // of the kubeconfig; "": its current one, or within a pod the service account
  std::string name_space = {};   // "": that of the context or service account
  std::string memory = {};       // of each rank, request and limit: "4Gi"; "": none is said
  std::string data_volume = {};  // claim, or /path of the nodes: mounted at /datasets, to read; "": nothing is
  std::string queue = {};        // of Kueue; "": the job waits for no admission
  bool host_network = false;     // ranks use the network of their nodes
  std::string pod_overlay = {};  // JSON or YAML that is merged into the pods' template
  bool operator==(const KubernetesOptions&) const = default;
};

struct EngineOptions {
  std::string hosts = {};               // "h1:2,h2": as parse_hosts() reads it; "": none are named
  int64_t ranks_per_host = 0;           // 0: as many as a host has slots, or as the engine says
  std::string ssh_config = {};          // file that ssh reads in place of the user's own, absolute; "": that
  std::vector<std::string> slurm = {};  // KEY or KEY=VALUE: each as it is behind -- for sbatch
  std::string setup = {};               // lines of shell that run before the ranks, as they are
  std::string scratch = {};             // absolute folder on the hosts for what ranks write; "": /tmp
  std::string image = {};               // of containers in which the ranks run; "": the executor's default
  // CPUs that each rank's container or pod may keep busy at a time, in thousandths: 2.5; 0: a whole number of threads
  // was asked for, which the executor's own way gives.
  double cpus = 0;
  KubernetesOptions kubernetes = {};
  // How often a run goes on by itself from its last checkpoint, once a host was lost or the engine took ranks away.
  int64_t requeue = 0;
  bool operator==(const EngineOptions&) const = default;
};

struct HostSlots {
  std::string name;   // name or number (IPv4; IPv6 without its brackets)
  int64_t slots = 1;  // most ranks on it
  bool operator==(const HostSlots&) const = default;
};

// "h1:2,h2,[fd00::7]:4", in order. UserError naming what is no host, a host that comes twice, or slots out of range.
std::vector<HostSlots> parse_hosts(const std::string& text);
// The inverse.
std::string to_text(const std::vector<HostSlots>& hosts);

// The content of a host file as text for parse_hosts(): a host per line, as Open MPI ("h1 slots = 2 max_slots=4") or
// MPICH ("h1:2") has it; # and // begin a comment; a host that comes again has more slots, as with Open MPI. UserError
// with file and line; also for users ("u@h1"), of whom ssh is told, and for more slots than max_slots.
std::string hosts_of_file(const std::string& content, const std::string& file);

// Where so many ranks go, host by host: filling each up to its slots, or to ranks_per_host where that is given. The
// name of each rank's host, in order. UserError where there are too few slots.
std::vector<std::string> place_ranks(const std::vector<HostSlots>& hosts, int64_t ranks_per_host, int64_t ranks);

// What of it is given, by the names of RunRequest, in this order.
std::vector<std::string> names_of_given(const EngineOptions& engine);

// For the record: null where nothing was asked for.
Json to_json(const EngineOptions& engine);

}  // namespace mlbench::spec
