#pragma once

// mlbench's own environment variables; tools/check_layers.py finds who else spells their names. Comments have the form
// "who sets the variable -> who reads it: what it says". Variables of others (RANK, MASTER_ADDR, ...) are not here.

#include <array>

namespace mlbench::variables {

// ---- between a supervisor, guards and ranks ------------------------------------------------------------------------

// supervisor -> guard, worker, scripts: the run's number.
inline constexpr const char* kRunId = "MLBENCH_RUN_ID";
// supervisor -> scripts: the run's folder, as the rank's host has it.
inline constexpr const char* kRunDir = "MLBENCH_RUN_DIR";
// supervisor -> scripts: the goal that the run's command declares, {"metric", "split", "target", "higher_is_better"}.
inline constexpr const char* kGoal = "MLBENCH_GOAL";
// supervisor -> worker: the secret that proves at the rendezvous that a rank belongs to the run; all ranks get the
// same.
inline constexpr const char* kSecret = "MLBENCH_SECRET";
// supervisor -> worker: the cores of this host that all ranks share, "[0,1]". Unset: ranks stay where they start.
inline constexpr const char* kCores = "MLBENCH_CORES";
// supervisor -> executors: set where the ranks have more threads than there are cores.
inline constexpr const char* kOversubscribed = "MLBENCH_OVERSUBSCRIBED";
// supervisor -> worker: for how many seconds a lost connection to the rendezvous may be made again.
inline constexpr const char* kResumeSeconds = "MLBENCH_RESUME_S";
// executor -> guard: the supervisor's address, "unix:NAME" or "link:HOST:PORT". A link also needs kGuardSecret,
// kGuardFolder and kRunId. HOST had better be a number: a static program may be unable to look up names.
inline constexpr const char* kGuard = "MLBENCH_GUARD";
// executor -> guard with a link: the run's secret.
inline constexpr const char* kGuardSecret = "MLBENCH_GUARD_SECRET";
// executor -> guard with a link: the run's folder on the rank's host. The guard makes it if absent, for its user alone.
inline constexpr const char* kGuardFolder = "MLBENCH_GUARD_FOLDER";
// executor -> guard: set where "{rank}" within the command's words stands for the rank's number, for launchers that
// start one command for all ranks.
inline constexpr const char* kGuardRankWords = "MLBENCH_GUARD_RANK_WORDS";
// executor -> guard: set where the rank sees only the GPU that has the rank's number on its host (base/gpus.h).
inline constexpr const char* kGuardOwnGpu = "MLBENCH_GUARD_OWN_GPU";
// guard -> Open MPI's agent and stub beside it: the guard's address.
inline constexpr const char* kGuardBeside = "MLBENCH_GUARD_BESIDE";
// executor -> guard: the prefix for the name of a variable that a launcher would act upon: HOME, PATH, OMPI_MCA_plm.
inline constexpr const char* kGivenPrefix = "MLBENCH_GIVEN_";
// executor kubernetes -> guard: the node of the rank's pod.
inline constexpr const char* kNodeName = "MLBENCH_NODE_NAME";
// executor kubernetes -> the shell of a job without a supervisor: the run's specification.
inline constexpr const char* kSpec = "MLBENCH_SPEC";

// The variables that are meant for one rank. No program that the rank starts may take one for its own.
inline constexpr std::array kOfRank = {kRunId,          kRunDir,        kGoal,        kSecret,      kCores,
                                       kOversubscribed, kResumeSeconds, kGuard,       kGuardSecret, kGuardFolder,
                                       kGuardRankWords, kGuardOwnGpu,   kGuardBeside, kNodeName};

// ---- between a master, its runs and its clients --------------------------------------------------------------------

// master -> scripts, clients: the master's address.
inline constexpr const char* kUrl = "MLBENCH_URL";
// master -> scripts, clients: the file that holds the master's token.
inline constexpr const char* kTokenFile = "MLBENCH_TOKEN_FILE";

// ---- of a user -----------------------------------------------------------------------------------------------------

// user -> all programs: as option --home.
inline constexpr const char* kHome = "MLBENCH_HOME";
// user -> mlbench: as option --data-dir.
inline constexpr const char* kDataDir = "MLBENCH_DATA_DIR";
// user -> all programs: the folder that keeps what is read of data sets in an object store, and the most bytes there.
inline constexpr const char* kObjectCache = "MLBENCH_OBJECT_CACHE";
inline constexpr const char* kObjectCacheLimit = "MLBENCH_OBJECT_CACHE_LIMIT";
// user -> mlbench: the worker program, where it does not lie beside mlbench.
inline constexpr const char* kWorker = "MLBENCH_WORKER";
// user -> supervisor: the lock that runs of this host wait for.
inline constexpr const char* kCoreLock = "MLBENCH_CORE_LOCK";
// user -> all programs: the lowest level of the messages that go to standard error.
inline constexpr const char* kLog = "MLBENCH_LOG";

// ---- of a master in a cluster --------------------------------------------------------------------------------------

// Helm chart -> master: the executor of requests that name none.
inline constexpr const char* kExecutor = "MLBENCH_EXECUTOR";
// Helm chart -> master: the most workers of a run, and the most cores and the most GPUs of each worker.
inline constexpr const char* kMostWorkers = "MLBENCH_MAX_WORKERS";
inline constexpr const char* kMostWorkerCores = "MLBENCH_WORKER_MAX_CPU";
inline constexpr const char* kMostWorkerGpus = "MLBENCH_MAX_GPU_PER_WORKER";
// Helm chart -> master, executor kubernetes: the master's pod: the address at which pods reach it, its name, its UID.
inline constexpr const char* kPodAddress = "MLBENCH_POD_IP";
inline constexpr const char* kPodName = "MLBENCH_POD_NAME";
inline constexpr const char* kPodUid = "MLBENCH_POD_UID";
// Helm chart -> executor kubernetes: the label app.kubernetes.io/instance of all objects.
inline constexpr const char* kRelease = "MLBENCH_RELEASE";
// Helm chart, user -> executor kubernetes, create-cluster: the image that holds mlbench-worker and mlbench-guard.
inline constexpr const char* kWorkerImage = "MLBENCH_WORKER_IMAGE";
// Helm chart, user -> executor kubernetes: --data-volume of runs that name none.
inline constexpr const char* kDataVolume = "MLBENCH_DATA_VOLUME";
// Helm chart, user -> executor kubernetes: the file that is merged before --pod-overlay.
inline constexpr const char* kPodOverlay = "MLBENCH_POD_OVERLAY";

}  // namespace mlbench::variables
