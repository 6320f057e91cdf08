#pragma once

// The objects that Kubernetes is given to run.

#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/exec/executor.h"
#include "mlbench/exec/kubernetes/config.h"
#include "mlbench/exec/kubernetes/options.h"

namespace mlbench::exec::kubernetes {

inline constexpr const char* kStartLabel = "mlbench/start";  // on all objects of one start
inline constexpr const char* kComponentLabel = "app.kubernetes.io/component";
inline constexpr const char* kQueueLabel = "kueue.x-k8s.io/queue-name";
inline constexpr size_t kLongestLabel = 63;
inline constexpr const char* kScratch = "/scratch";  // the folder in a pod that its rank writes to
inline constexpr const char* kGpuResource = "nvidia.com/gpu";
inline constexpr const char* kRankContainer = "rank";
// How long the processes of a deleted pod have to end, in seconds. A guard needs 3; its link is closed before its pod
// is deleted.
inline constexpr int kGraceSeconds = 5;
inline constexpr const char* kIndexLabel = "batch.kubernetes.io/job-completion-index";

// What the variables of this process say, beside the options of a run. The Helm chart of a master sets them in its pod.
// No other code of this folder reads variables, except config.h for the cluster.
struct Defaults {
  std::string worker_image = {};            // MLBENCH_WORKER_IMAGE: the image with mlbench-worker and mlbench-guard
  std::string data_volume = {};             // MLBENCH_DATA_VOLUME: for runs without --data-volume
  std::string pod_overlay = {};             // content of the file MLBENCH_POD_OVERLAY: merged before --pod-overlay
  std::string release = {};                 // MLBENCH_RELEASE: the label app.kubernetes.io/instance of all objects
  std::string address = {};                 // MLBENCH_POD_IP: the address at which pods reach this process
  std::string pod_name = {}, pod_uid = {};  // MLBENCH_POD_NAME, MLBENCH_POD_UID: the pod that this process is in
  std::string master_url = {};              // MLBENCH_URL: the address of the master that started the run
};
// Reads the variables. Throws UserError where the overlay's file cannot be read.
Defaults own_defaults(const Surroundings& here);

// Throws UserError for what cannot be run as asked: no image, text that is no UTF-8, a memory that is no quantity,
// names that are none. template_of() checks the overlays.
void check(const LaunchRequest& request, const Options& engine, const Defaults& defaults);

// The name "mlbench-RUN-SUFFIX" of a job. It is still a label of DNS with "-INDEX" and `reserved` further characters
// behind it. For that, RUN is cut where it is too long, and has '-' for characters that a label may not hold.
std::string job_name(const LaunchRequest& request, const std::string& suffix, size_t reserved = 0);

// The request as a pod has it: with the run's folder in a pod, and the worker that PATH finds in the image. For a
// command of the user's, it has MASTER_ADDR, and "{hosts}" is filled in: both by the names of the pods
// (NAME-INDEX.NAME). hosts_of_pods() returns these names, by rank.
LaunchRequest in_pods(const LaunchRequest& request, const std::string& name);
std::vector<std::string> hosts_of_pods(const std::string& name, int ranks);

struct Objects {
  Json job, secret, service;
  std::vector<std::string> command;  // the command of each rank's container
};
// The objects of one start. `in_pods` is the request from in_pods(). `values` are the variables of the ranks, which the
// secret keeps and the job only names. The job is suspended.
Objects objects_of(const LaunchRequest& in_pods, const Options& engine, const Defaults& defaults,
                   const std::string& name, const std::map<std::string, std::string>& values);

// The container of a rank, as template_of() takes it.
struct Rank {
  std::vector<std::string> command;  // what is to run, not yet escaped by for_kubelet()
  Json environment = Json::array();  // the container's `env`
  bool tools = false;                // whether an init container brings a guard
};
// The labels of the objects of one start.
Json labels_of(const LaunchRequest& request, const Defaults& defaults, const std::string& name);
// Escapes a word of a container's command, or the value of a variable. The kubelet replaces "$(NAME)" by the value of a
// variable and "$$" by "$": each gets another "$" here, and comes out as it went in.
std::string for_kubelet(const std::string& text);
std::vector<std::string> for_kubelet(std::vector<std::string> words);
// The template of the pods, with the overlays of site and run. Throws UserError as with_overlay() (overlay.h).
Json template_of(const LaunchRequest& request, const Options& engine, const Defaults& defaults, const std::string& name,
                 const Rank& rank);
// Whether `text` has 1 to 63 small letters, digits and '-', as the name of a namespace, a Job or a Service has. Such a
// name may stand in a path of the API.
bool is_label(std::string_view text);
bool is_alnum(char c);  // ASCII letters and digits
// The data volume of the run, else that of the site; "": none.
std::string data_volume_of(const Options& engine, const Defaults& defaults);

// The container of a rank that nobody supervises. The rank finds the others at the host `first_host`, and its run's
// folder in the container is `folder`. `spec` is null for a command of the user's.
Rank free_rank(const LaunchRequest& request, const Json& spec, const std::string& first_host,
               const std::string& folder);

// An MPIJob of Kubeflow: a launcher that starts the ranks by mpirun, and a worker per rank that runs sshd. Throws
// UserError for options and words of the command that an MPIJob cannot have.
Json mpi_job(const LaunchRequest& request, const Json& spec, const std::string& run_dir, const Options& engine,
             const Defaults& defaults, const std::string& name);

// The objects of Executor::manifest(), for those who start ranks by other means. `kind` is job, jobset, trainjob (of
// Kubeflow) or mpijob. The ranks of the first three find each other by JOB_COMPLETION_INDEX and a port of rank 0.
// Throws UserError for other kinds, and for what a kind cannot have.
Json launched_by_others(const std::string& kind, const LaunchRequest& request, const Json& spec, const Options& engine,
                        const Defaults& defaults);

// The image of the ranks' containers; "" where none is given.
std::string image_of(const Options& engine, const Defaults& defaults);

// The pod that this process is in, as the owner of a job in `name_space` of `cluster`: Kubernetes removes the job once
// that pod is gone. Null where this process is in no pod of that namespace: Kubernetes takes an owner elsewhere for one
// that is gone.
Json owner_of_jobs(const Defaults& defaults, const Cluster& cluster, const std::string& name_space);

}  // namespace mlbench::exec::kubernetes
