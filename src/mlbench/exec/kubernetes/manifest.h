#pragma once

// What Kubernetes is given to run.

#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/exec/executor.h"
#include "mlbench/exec/kubernetes/config.h"
#include "mlbench/exec/kubernetes/options.h"

namespace mlbench::exec::kubernetes {

inline constexpr const char* kStartLabel = "mlbench/start";  // of all objects of one start
inline constexpr const char* kComponentLabel = "app.kubernetes.io/component";
inline constexpr const char* kQueueLabel = "kueue.x-k8s.io/queue-name";
inline constexpr size_t kLongestLabel = 63;
inline constexpr const char* kScratch = "/scratch";  // in a pod: what its rank writes
inline constexpr const char* kGpuResource = "nvidia.com/gpu";
inline constexpr const char* kRankContainer = "rank";
// What the processes of a deleted pod get to end: a guard needs 3, and its rank is told before its pod is.
inline constexpr int kGraceSeconds = 5;
inline constexpr const char* kIndexLabel = "batch.kubernetes.io/job-completion-index";

// What the variables of this process say, beside the options of a run: of a master in a pod, its Helm chart sets them.
// Nothing else here reads variables, but config.h for the cluster.
struct Defaults {
  std::string worker_image = {};            // MLBENCH_WORKER_IMAGE: holds mlbench-worker and mlbench-guard
  std::string data_volume = {};             // MLBENCH_DATA_VOLUME: --data-volume of runs that name none
  std::string pod_overlay = {};             // content of the file MLBENCH_POD_OVERLAY: merged before --pod-overlay
  std::string release = {};                 // MLBENCH_RELEASE: label app.kubernetes.io/instance of all objects
  std::string address = {};                 // MLBENCH_POD_IP: by which pods reach this process
  std::string pod_name = {}, pod_uid = {};  // MLBENCH_POD_NAME, MLBENCH_POD_UID: of the pod that this process is in
  std::string master_url = {};              // MLBENCH_URL: of the master that started the run
};
// UserError where the overlay cannot be read.
Defaults own_defaults(const Surroundings& here);

// UserError for what cannot be run as asked: no image, a memory that is no quantity, names that are none, an overlay
// that is no template of a pod or changes what is mlbench's own.
void check(const LaunchRequest& request, const Options& engine, const Defaults& defaults);

// "mlbench-RUN-SUFFIX", a label of DNS also with "-INDEX" and `reserved` further characters behind it; RUN is cut where
// it is too long, and has '-' for what such a label may not hold.
std::string job_name(const LaunchRequest& request, const std::string& suffix, size_t reserved = 0);

// The request as a pod has it: folder, program, and for a command of the user's MASTER_ADDR and {hosts}, with the names
// of the pods (NAME-INDEX.NAME).
LaunchRequest in_pods(const LaunchRequest& request, const std::string& name);
std::vector<std::string> hosts_of_pods(const std::string& name, int ranks);

struct Objects {
  Json job, secret, service;
  std::vector<std::string> command;  // of each rank's container
};
// `values`: the variables of the ranks, which the secret keeps and the job only names. The job is suspended.
Objects objects_of(const LaunchRequest& in_pods, const Options& engine, const Defaults& defaults,
                   const std::string& name, const std::map<std::string, std::string>& values);

// What its parts are made of.
struct Rank {
  std::vector<std::string> command;  // as it is to run, without the kubelet's language
  Json environment = Json::array();  // as a container has it
  bool tools = false;                // a container before it brings a guard
};
Json labels_of(const LaunchRequest& request, const Defaults& defaults, const std::string& name);
// Of a container's command, its arguments, or the value of a variable: the kubelet replaces "$(NAME)" by the value of a
// variable and "$$" by "$", so both get another "$", and come out as they went in.
std::string for_kubelet(const std::string& text);
std::vector<std::string> for_kubelet(std::vector<std::string> words);
// Of the pods, with the overlays of site and run.
Json template_of(const LaunchRequest& request, const Options& engine, const Defaults& defaults, const std::string& name,
                 const Rank& rank);
// Small letters, digits and '-', as a name of a namespace, a Job or a Service has them: it may stand in a path of the
// API.
bool is_label(std::string_view text);
bool is_alnum(char c);  // of ASCII
// The run's, else the site's; "": none.
std::string data_volume_of(const Options& engine, const Defaults& defaults);

// A rank that nobody supervises.
Rank free_rank(const LaunchRequest& request, const Json& spec, const std::string& first_host,
               const std::string& folder);

// An MPIJob of Kubeflow: a launcher that starts the ranks by mpirun, and a worker per rank that runs sshd. UserError
// for what it cannot have.
Json mpi_job(const LaunchRequest& request, const Json& spec, const std::string& run_dir, const Options& engine,
             const Defaults& defaults, const std::string& name);

// For those who start ranks by other means: job, jobset or trainjob (of Kubeflow), whose ranks find each other by
// JOB_COMPLETION_INDEX and a port of rank 0, or mpijob. Of Executor::manifest().
Json launched_by_others(const std::string& kind, const LaunchRequest& request, const Json& spec, const Options& engine,
                        const Defaults& defaults);

// Of the ranks' containers.
std::string image_of(const Options& engine, const Defaults& defaults);

// The pod that this process is in, as the owner of a job in `name_space` of `cluster`: Kubernetes removes the job once
// that pod is gone. Null where it is none of that namespace, since to a job such an owner is one that is gone.
Json owner_of_jobs(const Defaults& defaults, const Cluster& cluster, const std::string& name_space);

}  // namespace mlbench::exec::kubernetes
