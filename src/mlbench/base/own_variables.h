#pragma once

// Environment variables of mlbench's own; tools/check_layers.py finds who else spells their names. Each line says who
// sets the variable -> who reads it: what it says. Variables of others (MASTER_ADDR, RANK, ...) are not here.

#include <array>

namespace mlbench::variables {

// ---- between a supervisor, guards and ranks ------------------------------------------------------------------------

// supervisor -> guard, worker, scripts: the run's number.
inline constexpr const char* kRunId = "MLBENCH_RUN_ID";
// supervisor -> scripts: the run's folder, as the rank's host has it.
inline constexpr const char* kRunDir = "MLBENCH_RUN_DIR";
// supervisor -> worker: proves at the rendezvous that a rank is of the run. By hand: all ranks get the same.
inline constexpr const char* kSecret = "MLBENCH_SECRET";
// supervisor -> worker: the cores of this host that all ranks share, "[0,1]"; not set: ranks stay where they are put.
inline constexpr const char* kCores = "MLBENCH_CORES";
// supervisor -> executors: set where the ranks have more threads than there are cores.
inline constexpr const char* kOversubscribed = "MLBENCH_OVERSUBSCRIBED";
// supervisor -> worker: how many seconds a lost connection to the rendezvous may be made anew.
inline constexpr const char* kResumeSeconds = "MLBENCH_RESUME_S";
// executor -> guard: where the supervisor is, "unix:NAME", or "link:HOST:PORT" with the next two and kRunId. HOST is
// best a number: a static program may find no names.
inline constexpr const char* kGuard = "MLBENCH_GUARD";
// executor -> guard, of a link: the run's secret.
inline constexpr const char* kGuardSecret = "MLBENCH_GUARD_SECRET";
// executor -> guard, of a link: the run's folder on the rank's host; made if absent, for its user alone.
inline constexpr const char* kGuardFolder = "MLBENCH_GUARD_FOLDER";
// executor -> guard: set where "{rank}" within the command's words stands for the rank's number. For launchers that
// start one command for all.
inline constexpr const char* kGuardRankWords = "MLBENCH_GUARD_RANK_WORDS";
// executor -> guard: set where the rank sees one GPU of its host, that of its number there, and no other (base/gpus.h).
inline constexpr const char* kGuardOwnGpu = "MLBENCH_GUARD_OWN_GPU";
// guard -> agent and stub of Open MPI beside it: where the guard is.
inline constexpr const char* kGuardBeside = "MLBENCH_GUARD_BESIDE";
// executor -> guard: in front of the name of a variable that a launcher would act upon: HOME, PATH, OMPI_MCA_plm.
inline constexpr const char* kGivenPrefix = "MLBENCH_GIVEN_";
// executor kubernetes -> guard: the node that a rank's pod is on.
inline constexpr const char* kNodeName = "MLBENCH_NODE_NAME";
// executor kubernetes -> shell of a job without a supervisor: the run's specification.
inline constexpr const char* kSpec = "MLBENCH_SPEC";

// Those of a rank, which no program that the rank starts may take for its own.
inline constexpr std::array kOfRank = {kRunId,         kRunDir,      kSecret,      kCores,       kOversubscribed,
                                       kResumeSeconds, kGuard,       kGuardSecret, kGuardFolder, kGuardRankWords,
                                       kGuardOwnGpu,   kGuardBeside, kNodeName};

// ---- between a master, its runs and its clients --------------------------------------------------------------------

// master -> scripts, clients: where it is.
inline constexpr const char* kUrl = "MLBENCH_URL";
// master -> scripts, clients: the file that holds its token.
inline constexpr const char* kTokenFile = "MLBENCH_TOKEN_FILE";

// ---- of a user -----------------------------------------------------------------------------------------------------

// user -> all programs: --home.
inline constexpr const char* kHome = "MLBENCH_HOME";
// user -> mlbench: --data-dir.
inline constexpr const char* kDataDir = "MLBENCH_DATA_DIR";
// user -> mlbench: the program of ranks, where it does not lie beside this one.
inline constexpr const char* kWorker = "MLBENCH_WORKER";
// user -> supervisor: the lock that runs of this host wait for.
inline constexpr const char* kCoreLock = "MLBENCH_CORE_LOCK";
// user -> all programs: the least level of what they say on standard error.
inline constexpr const char* kLog = "MLBENCH_LOG";

// ---- of a master in a cluster --------------------------------------------------------------------------------------

// Helm chart -> master: the executor of requests that name none.
inline constexpr const char* kExecutor = "MLBENCH_EXECUTOR";
// Helm chart -> master: most workers of a run; most cores and most GPUs of each.
inline constexpr const char* kMostWorkers = "MLBENCH_MAX_WORKERS";
inline constexpr const char* kMostWorkerCores = "MLBENCH_WORKER_MAX_CPU";
inline constexpr const char* kMostWorkerGpus = "MLBENCH_MAX_GPU_PER_WORKER";
// Helm chart -> master, executor kubernetes: by which pods reach the pod that the master is in; its name; its UID.
inline constexpr const char* kPodAddress = "MLBENCH_POD_IP";
inline constexpr const char* kPodName = "MLBENCH_POD_NAME";
inline constexpr const char* kPodUid = "MLBENCH_POD_UID";
// Helm chart -> executor kubernetes: label app.kubernetes.io/instance of all objects.
inline constexpr const char* kRelease = "MLBENCH_RELEASE";
// Helm chart, user -> executor kubernetes, create-cluster: the image that holds mlbench-worker and mlbench-guard.
inline constexpr const char* kWorkerImage = "MLBENCH_WORKER_IMAGE";
// Helm chart, user -> executor kubernetes: --data-volume of runs that name none.
inline constexpr const char* kDataVolume = "MLBENCH_DATA_VOLUME";
// Helm chart, user -> executor kubernetes: the file that is merged before --pod-overlay.
inline constexpr const char* kPodOverlay = "MLBENCH_POD_OVERLAY";

}  // namespace mlbench::variables
