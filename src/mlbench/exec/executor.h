#pragma once

// Executors start, watch and stop the N ranks of a run. The supervisor starts ranks; plans and the command line ask an
// executor what it has and what it would do.

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

// How guards and ranks on other hosts reach the supervisor, and the supervisor's end of the links to the guards
// (guard/words.h).
struct Links {
  net::LinkServer* server = nullptr;  // the supervisor's end; null: all ranks are on this host
  std::string rendezvous;             // the supervisor's HOST:PORT, as the ranks' hosts reach it
  std::string secret;                 // the run's
  std::filesystem::path folder;       // the run's folder on this host; what ranks write on other hosts arrives below it
  // The files that `rank` resumes from, relative to `folder`: its guard puts them on its host beside the executor's
  // files. Null: there are none.
  std::function<std::vector<std::string>(int rank)> given = nullptr;
};

// A folder that ranks find at the same path as on this host.
struct SharedFolder {
  std::filesystem::path path;
  bool writable = false;
};

// What an executor needs to know to start the ranks of one segment of a run.
struct LaunchRequest {
  std::string run_name = {};      // letters, digits, '.', '_', '-'; becomes part of the name of an engine's job
  int64_t run_id = 0;             // the run's number in its home
  std::string run_identity = {};  // spec::RunSpec::identity; "" in plans
  std::string backend;            // the communicator's, for messages
  // Whether the ranks find each other through Open MPI's launcher, so that mpirun, or an engine in its place, must
  // start them (catalog/programs says it of the back end). Else they need only a guard each.
  bool by_mpirun = false;
  std::vector<std::string> command;  // program (a worker, or the user's) and arguments, the same for all ranks
  // Whether `command` is the user's. Then "{rank}" within its words stands for each rank's number, except under a local
  // mpirun. "{hosts}" stands for the hosts of all ranks where ranks are on other hosts. The executor adds the variables
  // by which the ranks find each other (horovod.h).
  bool rank_words = false;
  // The folder beside the worker of libraries that it loads by itself, which the loader does not name; "": none.
  std::string modules = {};
  bool in_image = false;        // whether the ranks run in containers, with the programs of an image
  std::filesystem::path guard;  // path of mlbench-guard, the parent of each rank
  int workers = 1;
  int threads = 1;                     // number of cores that each rank uses
  double cpus = 0;                     // limit of each rank's container or pod; 0: none, or as many as `threads`
  bool gpu = false;                    // whether each rank uses a GPU
  bool share_host = false;             // whether ranks of other runs may be on the same hosts
  std::string network_interface = {};  // name or address; "": the one towards the rendezvous
  std::map<std::string, std::string> environment;  // variables common to all ranks
  std::filesystem::path working_directory;         // the ranks'; empty: the supervisor's, or in an image the image's
  std::vector<SharedFolder> folders = {};          // needed by ranks in images, beside the run's folder
  std::filesystem::path log_dir;                   // the ranks' logs are in it (base/run_folder.h), appended
  int64_t segment = 1;
  Links links = {};
  // Called with an engine's job as soon as the job has a name, so that Executor::withdraw() can end it without the
  // supervisor. `job` has the form of RankGroup::allocation(), which has more members. May be null.
  std::function<void(const Json& job)> note_job = {};
  std::vector<int> inherited;  // the caller's descriptors that ranks keep open (the core lock), valid until they run
};

// The end of what a program said: at most 2000 bytes, without line breaks at its end. The second form reads it from
// `log`, and returns "" where that cannot be read.
std::string last_words(std::string said);
std::string last_words_in(const std::filesystem::path& log);

// The text "NAME=value ... program argument ...". Each word is quoted that a POSIX shell, or zsh, would split or
// replace.
std::string command_line(const std::map<std::string, std::string>& environment,
                         const std::vector<std::string>& command);

// Whether each rank is to see one GPU of its host and no other. A command of the user's is to, unless --env names the
// GPUs that it sees. A worker sees all GPUs and picks its own.
bool gives_own_gpu(const LaunchRequest& request);

// Throws UserError where a word, a folder or a variable's value is no UTF-8: the program `taker` ("podman") keeps these
// as JSON, which can hold nothing else.
void check_utf8(const LaunchRequest& request, const std::string& taker);

// What a rank, with all that it started, uses of its host (guard/usage.h).
struct RankUsage {
  double cpu_s = 0;  // processor time so far, in seconds
  int64_t memory_bytes = 0;
  Nanoseconds age{0};  // time since these figures were read
  // The bytes of the network of the rank's pod or host. Of several ranks in one network, only the first has them; empty
  // for the others, and where they are not known.
  std::optional<NetworkBytes> network = {};
};
// What a host used since its ranks began, by all its programs.
struct HostEnergy {
  std::string host, meter;       // `meter` is "" where the host has none that can be read, or has not said it yet
  std::optional<double> joules;  // empty where there is no meter
};
struct GroupUsage {
  std::vector<std::optional<RankUsage>> ranks;  // by rank; empty where unknown, and for ranks that have ended
  int cores = 1;                                // those that the ranks may use on all their hosts, each counted once
  // As guards say it, each host once, also of ranks that have ended. Empty where all ranks are on this host, whose
  // meter the supervisor reads itself.
  std::vector<HostEnergy> energy = {};
};

// Running ranks. Destruction kills and reaps what is left of them, so that no process is orphaned.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  // Returns what was seen since the last call, in order; waits up to `timeout` for the first observation.
  virtual std::vector<Observation> poll(std::chrono::milliseconds timeout) = 0;
  // Whether some rank runs, or what a rank wrote is still on its way.
  virtual bool running() const = 0;
  // How long the engine may take to say that it ended a rank, once the rank has ended of SIGTERM.
  virtual std::chrono::milliseconds verdict_time() const { return std::chrono::milliseconds(0); }
  // What the engine warned of since the last call, for the record's notes. Each warning comes once, and their number is
  // bounded.
  virtual std::vector<std::string> notes() { return {}; }
  virtual std::vector<std::optional<pid_t>> pids() const = 0;  // by rank; empty for ranks on other hosts
  virtual std::vector<Placement> placement() const = 0;        // by rank
  virtual GroupUsage usage() const = 0;
  // The record's `allocation`: what the engine gave, in its words, as {"engine", "job", ...}; null where there is no
  // engine.
  virtual Json allocation() const { return nullptr; }
  // What the hosts of the placement said of themselves, as far as they did; this host need not be among them.
  virtual std::vector<HostCapture> captures() const { return {}; }
  virtual void signal_all(int signal_number) = 0;
  // Sends SIGTERM, then SIGCONT for stopped ranks, and SIGKILL after `patience`. Afterwards poll() reports the ends.
  virtual void stop(std::chrono::milliseconds patience) = 0;
};

// The folders, in an image, of data sets and of what ranks prepare from them (ExecutorFacts::in_images).
inline constexpr const char* kImageData = "/datasets";
inline constexpr const char* kImageCache = "/scratch/cache";

// Where the supervisor listens for guards and ranks on other hosts, and the address by which these reach it.
struct Rendezvous {
  std::string bind = "127.0.0.1";     // address or interface of this host
  std::string address = "127.0.0.1";  // this host's, as the ranks' hosts reach it; best a number
};

enum class StartState { kQueued, kStarting, kStarted, kFailed };

struct StartStatus {
  StartState state = StartState::kQueued;
  std::string words = {};  // the engine's, where it has some ("PENDING (Resources)"); for kFailed always the reason
  int rank = -1;           // for kFailed: the rank whose start failed, where it is one rank's
  bool late = false;       // for kFailed of an engine's job: whether ranks did not come in time
};

// The first rank that a start waits for, and what is missing of that rank, in words.
struct MissingRank {
  int rank = 0;
  std::string words;
};

// Ranks that are being started. Destruction before take() leaves nothing of them, and nothing of them comes later.
class Start {
 public:
  virtual ~Start() = default;
  // Returns how far the start is; waits up to `timeout` for progress. A start may be kQueued for days, which is no
  // failure, and may be kQueued again after kStarting. kStarted and kFailed are final. Throws DiskFull where a full
  // disk kept the ranks from starting.
  virtual StartStatus poll(std::chrono::milliseconds timeout) = 0;
  // Whether files are on their way to the hosts of ranks, which cannot run before. How long that takes is not limited.
  virtual bool gives_files() const { return false; }
  // The rank that is waited for, where ranks say themselves how far they are; else empty, as where nothing is missing.
  virtual std::optional<MissingRank> missing() const { return std::nullopt; }
  // Returns the notes so far. RankGroup::notes() later returns the notes that were not asked for here.
  virtual std::vector<std::string> notes() { return {}; }
  // Returns the running ranks. Precondition: poll() returned kStarted, and take() was not called before.
  virtual std::unique_ptr<RankGroup> take() = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual std::string name() const = 0;
  virtual ExecutorFacts facts() const = 0;
  bool on_this_host() const { return facts().on_this_host; }
  bool in_images() const { return facts().in_images; }
  // Whether each rank is in a container or pod that LaunchRequest::cpus limits. Only there can the limit be a fraction.
  virtual bool limits_cpus() const { return in_images(); }
  // The nodes that there are for ranks, whatever runs on them now. Waits some seconds at most for the engine's answer;
  // without an answer, ClusterNodes::problem says why.
  virtual ClusterNodes nodes() const { return {.nodes = {this_node()}}; }
  // Why ranks of the request cannot start from this host now; "" where nothing known keeps them from it. Starts
  // nothing, and waits some seconds at most for the engine's answer. A request that describe() refuses is not asked.
  virtual std::string obstacle(const LaunchRequest& /*request*/) const { return ""; }
  // Where the supervisor must listen. Called before start(), which then has Links in its request; not called where the
  // ranks are on this host. Throws IoError and UserError as start().
  virtual Rendezvous rendezvous(const LaunchRequest& /*request*/) const { return {}; }
  // Begins to start the ranks. Never waits for ranks, nor for an engine that has no place for them. Throws IoError or
  // UserError for what is known at once to be wrong.
  virtual std::unique_ptr<Start> start(const LaunchRequest& request) = 0;
  // Ends what is left of a job of the run `run_name`, whose supervisor is gone. `job` is what LaunchRequest::note_job
  // or the group's allocation() told. Returns whether there was such a job; false where ranks end with their guards.
  // Waits for the engine's answers, but not for the job's end. Throws IoError with the engine's words where the engine
  // refuses or does not answer.
  virtual bool withdraw(const std::string& /*run_name*/, const Json& /*job*/) { return false; }
  // The exact commands and additional variables that start() would use, one line per rank or one in all. The address
  // where guards connect is left out: it exists only after the start.
  virtual std::vector<std::string> describe(const LaunchRequest& request) const = 0;
  // A list of objects of this kind ("job") with which others can start the ranks, without a supervisor. `spec` is the
  // run's; null for a command of the user's. Throws UserError, naming the kinds that there are, where the executor has
  // none of that kind.
  virtual Json manifest(const std::string& kind, const LaunchRequest& request, const Json& spec) const;
};

}  // namespace mlbench::exec
