#pragma once

// Executors start, watch and stop the N ranks of a run. The supervisor is their only user.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/json.h"
#include "mlbench/base/process.h"
#include "mlbench/exec/facts.h"
#include "mlbench/exec/nodes.h"
#include "mlbench/exec/observation.h"
#include "mlbench/exec/placement.h"

namespace mlbench::net {
class LinkServer;
}

namespace mlbench::exec {

// Where ranks of other hosts find the supervisor, and its end of what their guards tell it (guard/words.h).
struct Links {
  net::LinkServer* server = nullptr;  // null: all ranks are on this host
  std::string rendezvous;             // HOST:PORT, as the ranks' hosts reach it
  std::string secret;                 // of the run
  std::filesystem::path folder;       // of the run, here: what the ranks write on their hosts comes below it
  // Files of that folder, relative to it, that a rank is to find on its host beside those of its executor: what it
  // resumes from. Null: none.
  std::function<std::vector<std::string>(int rank)> given = nullptr;
};

// A folder that ranks find at the same path as here.
struct SharedFolder {
  std::filesystem::path path;
  bool writable = false;
};

struct LaunchRequest {
  std::string run_name = {};         // letters, digits, '.', '_', '-': for what an engine calls its job
  int64_t run_id = 0;                // in its home
  std::string run_identity = {};     // of spec::RunSpec
  std::string backend;               // needs_mpirun() makes exec/local use one local mpirun
  std::vector<std::string> command;  // worker program and arguments, the same for all ranks
  // A command of the user's: "{rank}" within its words stands for each rank's number (not under mpirun), and elsewhere
  // "{hosts}" for where the ranks are; what they find each other by, the executor adds (horovod.h).
  bool rank_words = false;
  bool in_image = false;        // the ranks run in containers: what programs are there, their image says
  std::filesystem::path guard;  // mlbench-guard, the parent of each rank
  int workers = 1;
  int threads = 1;                                 // cores that each rank uses
  double cpus = 0;                                 // that its container or pod is limited to; 0: as many as threads
  bool gpu = false;                                // each rank uses one
  bool share_host = false;                         // ranks of other runs may be on its hosts
  std::string network_interface = {};              // name or address that ranks use; "": as they reach the rendezvous
  std::map<std::string, std::string> environment;  // common to all ranks
  std::filesystem::path working_directory;         // of ranks; empty: the supervisor's, in an image the image's
  std::vector<SharedFolder> folders = {};          // that ranks need beside the run's; for those in images
  std::filesystem::path log_dir;                   // rank-R.seg-S.log, appended
  int64_t segment = 1;
  Links links = {};
  // Told of an engine's job as soon as that has a name, so that it can be withdrawn by others: as
  // RankGroup::allocation(), which tells more.
  std::function<void(const Json& job)> note_job = {};
  std::vector<int> inherited;  // descriptors that ranks keep open (the core lock); the caller's, until the ranks run
};

// Of what a program said, the end: at most 2000 bytes, without the last line break. "" where a log cannot be read.
std::string last_words(std::string said);
std::string last_words_in(const std::filesystem::path& log);

// "NAME=value ... program argument ..." with each word quoted where a POSIX shell, or zsh, would take it apart or
// replace it.
std::string command_line(const std::map<std::string, std::string>& environment,
                         const std::vector<std::string>& command);

// Whether each rank is to see one GPU of its host and no other: of a command of the user's, unless --env names the GPUs
// that it sees. A worker picks its own among all.
bool gives_own_gpu(const LaunchRequest& request);

// UserError for a word, a folder or a variable's value that is no UTF-8: `taker` ("podman") keeps them as JSON, which
// would hold others.
void check_utf8(const LaunchRequest& request, const std::string& taker);

// What a rank uses of its host, with all that it started (guard/usage.h).
struct RankUsage {
  double cpu_s = 0;  // so far
  int64_t memory_bytes = 0;
  Nanoseconds age{0};  // since it was seen
  // Of the pod, or host, in whose network it is, which the first of several ranks there stands for; else empty.
  std::optional<NetworkBytes> network = {};
};
struct GroupUsage {
  std::vector<std::optional<RankUsage>> ranks;  // empty where it is not known, and of those that ended
  int cores = 1;                                // that they may use on their hosts, each once
};

// Running ranks. Destruction kills and reaps what is left: no orphan.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  // What was seen since the last call, in its order; waits up to `timeout` for the first.
  virtual std::vector<Observation> poll(std::chrono::milliseconds timeout) = 0;
  // Some rank runs, or what it wrote is still on its way.
  virtual bool running() const = 0;
  // A rank ended of SIGTERM, which engines send: how long this one takes to say that it was its doing.
  virtual std::chrono::milliseconds verdict_time() const { return std::chrono::milliseconds(0); }
  // What the engine warned of since the last call, for the record's notes: each once, and not without bound.
  virtual std::vector<std::string> notes() { return {}; }
  virtual std::vector<std::optional<pid_t>> pids() const = 0;  // of ranks on this host
  virtual std::vector<Placement> placement() const = 0;        // of all ranks, by their numbers
  virtual GroupUsage usage() const = 0;
  // The record's `allocation`: what the engine gave, in its words {"engine", "job", ...}; null where there is none.
  virtual Json allocation() const { return nullptr; }
  // Of the hosts of the placement, as far as they said; this one need not be among them.
  virtual std::vector<HostCapture> captures() const { return {}; }
  virtual void signal_all(int signal_number) = 0;
  // SIGTERM (SIGCONT first, for stopped ones), patience, SIGKILL; then poll() tells of the ends.
  virtual void stop(std::chrono::milliseconds patience) = 0;
};

// Of executors whose ranks are in images.
inline constexpr const char* kImageData = "/datasets";
inline constexpr const char* kImageCache = "/scratch/cache";

// Where the supervisor listens for ranks that are not on this host, and what it is called there.
struct Rendezvous {
  std::string bind = "127.0.0.1";     // address or interface of this host
  std::string address = "127.0.0.1";  // as the ranks' hosts reach it; best a number
};

enum class StartState { kQueued, kStarting, kStarted, kFailed };

struct StartStatus {
  StartState state = StartState::kQueued;
  std::string words = {};  // the engine's own, where it has some ("PENDING (Resources)"); of kFailed: why, always
  int rank = -1;           // of kFailed: whose start failed, where it is one's
  bool late = false;       // of kFailed, as an engine's job says it: ranks were waited for in vain
};

// Of a start: the first rank that is waited for, and in which words.
struct MissingRank {
  int rank = 0;
  std::string words;
};

// Ranks that are to run. Destroyed before take(), nothing of it stays, and nothing comes later.
class Start {
 public:
  virtual ~Start() = default;
  // How far it is; waits up to `timeout` for it to come further. What is queued may wait for days and is no failure;
  // what starts may be queued again; kStarted and kFailed last. DiskFull where that kept the ranks from starting.
  virtual StartStatus poll(std::chrono::milliseconds timeout) = 0;
  // Whether files are on their way to the hosts of ranks, which cannot run before: that takes the time that it takes.
  virtual bool gives_files() const { return false; }
  // Of ranks that say themselves how far they are; empty: of none, or nothing is missing.
  virtual std::optional<MissingRank> missing() const { return std::nullopt; }
  // As RankGroup::notes(); what is not asked for here, that tells.
  virtual std::vector<std::string> notes() { return {}; }
  // All ranks run. Once, after poll() said kStarted.
  virtual std::unique_ptr<RankGroup> take() = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual std::string name() const = 0;
  virtual ExecutorFacts facts() const = 0;
  bool on_this_host() const { return facts().on_this_host; }
  bool in_images() const { return facts().in_images; }
  // Whether each rank is in a container or pod that LaunchRequest::cpus limits: only there are fractions of a CPU.
  virtual bool limits_cpus() const { return in_images(); }
  // The nodes that there are for ranks, whatever runs on them now. Waits for the engine's answer, some seconds at most;
  // where there is none, ClusterNodes::problem says why.
  virtual ClusterNodes nodes() const { return {.nodes = {this_node()}}; }
  // Asked before start(), which then has Links in its request, unless the ranks are on this host. IoError, UserError as
  // start().
  virtual Rendezvous rendezvous(const LaunchRequest& /*request*/) const { return {}; }
  // Never waits for ranks, nor for an engine that has no place for them. IoError, UserError for what is known to be
  // wrong at once.
  virtual std::unique_ptr<Start> start(const LaunchRequest& request) = 0;
  // Ends what is left of a job of that run, whose supervisor is gone: by what LaunchRequest::note_job or the group's
  // allocation() told. Whether there was something: not of an executor whose ranks end with their guards. Waits for its
  // engine's answers, not for the job's end. IoError with the engine's words where it refuses or does not answer.
  virtual bool withdraw(const std::string& /*run_name*/, const Json& /*job*/) { return false; }
  // The exact commands and environment additions that start() would use, less the address where guards connect, which
  // only exists then: one line per rank, or one in all.
  virtual std::vector<std::string> describe(const LaunchRequest& request) const = 0;
  // A list of objects of this kind ("job") by which others can start the ranks, without a supervisor. `spec`: of the
  // run; null for a command. UserError where it has none of that kind, with those that it has.
  virtual Json manifest(const std::string& kind, const LaunchRequest& request, const Json& spec) const;
};

}  // namespace mlbench::exec
