#pragma once

// One run, frozen before it starts: everything a rank needs, written to RUN/spec.json by whoever makes the run (command
// or master) and never changed afterwards (what a resumed run adds is in the supervisor's own file, see supervise/).

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/spec/collectives.h"
#include "mlbench/spec/communication.h"
#include "mlbench/spec/task.h"

namespace mlbench::spec {

struct Limits {  // 0 = none; all stay closed and never alter a schedule
  int64_t max_steps = 0;
  double max_epochs = 0;
  double max_time_s = 0;  // train + evaluation time of all segments, from the first batch
  bool light = false;
  bool to_the_end = false;  // past the goal, whose time is kept, to the last epoch or limit
  bool operator==(const Limits&) const = default;
};

struct CheckpointPolicy {
  int64_t every_steps = 0;  // 0: not by steps
  bool every_epoch = false;
  bool at_end = true;  // default: one checkpoint at the end
  bool operator==(const CheckpointPolicy&) const = default;
};

inline constexpr std::string_view kDevices[] = {"cpu", "cuda"};

// What a run consists of; `task` names and hashes it.
// A task of ours, by our worker: steps with an exchange each, evaluations, a goal, data and a model.
struct Training {
  bool operator==(const Training&) const = default;
};
// Any program, a custom run: what each rank is started as instead of our worker. Such ranks write tracker lines, and
// only how they end can be seen.
struct Command {
  std::vector<std::string> words;             // at least the program
  std::string work_dir = {};                  // where it starts; "": where its image says
  std::vector<std::string> environment = {};  // beside what the machine has: as variables.h says
  bool operator==(const Command&) const = default;
};
// The third is a benchmark of communication, by our worker; also in task.canonical, and hashed.
using Workload = std::variant<Training, Command, CollectivesSpec>;

struct RunSpec {
  int64_t id = 0;          // unique in the home, as long as that has its counter
  std::string identity;    // unique: 128 random bits, 32 hexadecimal digits; "" of plans
  std::string name;        // NAME-K or NAME-K.R
  int64_t repeat = 1;      // 1, 2, ...
  std::string created_at;  // UTC
  // The request for this run alone (RunRequest in api/openapi.json), with what was chosen where it left a choice: who
  // makes the run again asks it again. Null of runs that were made without one.
  Json asked = nullptr;

  FrozenTask task;
  std::vector<Override> overrides;
  std::string division;  // closed | open | own | throughput | custom
  Workload workload;
  std::string framework = "torch";
  std::string backend = "gloo";
  std::string executor = "local";
  Json engine = Json::object();  // what the executor is told beside, by the names of its options
  int64_t workers = 1;
  int64_t threads_per_worker = 1;
  // That the container or pod of each worker may keep busy at a time, in thousandths: 2.5; 0: as many as threads.
  double cpus = 0;
  int64_t inter_op_threads = 1;  // of the framework's pool for operations beside each other
  bool oversubscribed = false;   // workers * threads > cores of the host, or --no-wait beside another run
  bool share_host = false;       // it takes workers * threads cores of its host, beside others that do the same
  uint64_t seed = 42;            // already seed + repeat - 1
  Limits limits;
  CheckpointPolicy checkpoint;
  double comm_timeout_s = 30;
  Communication communication;

  std::string data_name;               // --data, default the task's own
  std::vector<std::string> data_dirs;  // look-up order, absolute
  std::string cache_dir;               // HOME/cache
  bool synthetic = false;
  bool fixed_batch = false;

  std::string run_dir;                // absolute
  std::string precision = "float32";  // requested
  std::string device = "cpu";         // requested: cpu | cuda, one GPU per worker
  std::string profile = "off";        // off | explain (which kernels were taken) | time (and what they cost)
  bool timeline = false;              // ranks record what their threads do (record/timeline.h)
  bool operator==(const RunSpec&) const = default;
};

// Sets task, overrides, precision and division from a parsed task. Call it after `workers`, `fixed_batch` and
// `communication`.
void set_task(RunSpec& spec, FrozenTask task, std::vector<Override> overrides);

// Makes it a custom run of this command: division "custom", task and framework "custom", the hash that of its words.
void set_command(RunSpec& spec, Command command);

// Makes it a benchmark of these collectives: of task "0a" where it is that task (task_0a()), else "collectives" and of
// division "own". Call it after `workers` and
// `communication`.
void set_collectives(RunSpec& spec, CollectivesSpec collectives);

// Of each worker: its threads, or the limit of its container where that is no whole number.
double cpus_per_worker(const RunSpec& spec);
// "2 threads", "2 threads with 2.5 CPUs": for people.
std::string cpus_text(const RunSpec& spec);
// Whole cores for all of its workers.
int64_t cores_needed(const RunSpec& spec);

inline bool trains(const RunSpec& spec) { return std::holds_alternative<Training>(spec.workload); }
// Null of other runs.
inline const Command* command_of(const RunSpec& spec) { return std::get_if<Command>(&spec.workload); }
inline const CollectivesSpec* collectives_of(const RunSpec& spec) {
  return std::get_if<CollectivesSpec>(&spec.workload);
}
// Whether the ranks are our worker: they join the rendezvous, send heartbeats and write spools.
inline bool uses_worker(const RunSpec& spec) { return command_of(spec) == nullptr; }

// "throughput" with a fixed batch; "own" where the task is not official (task_hash.h); else "closed", or "open" with
// any override, a communication that opens it, or a number of workers that is not one of the task's. (A data set of
// another shape opens a run, too: whoever knows data sets sets it.)
std::string division_of(const RunSpec& spec);

Json to_json(const RunSpec& spec);
// Exact inverse; the division is made anew. UserError "FILE: ..." naming the missing or wrong field, or what does not
// fit the task's hash: a file that was changed behind the run's making. Keys of later versions are ignored.
RunSpec run_spec_from_json(const Json& json, const std::string& file = "spec.json");
// That of a file, whose path is in the errors.
RunSpec read_run_spec(const std::filesystem::path& file);

}  // namespace mlbench::spec
