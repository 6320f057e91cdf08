#pragma once

// The specification of one run, frozen before the run starts: everything that a rank needs. The command or master that
// makes the run writes it to RUN/spec.json, which never changes afterwards. What resuming a run adds is in the
// supervisor's own file (supervise/).

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

// When a run ends at the latest; 0: no limit. A limit does not open a run and does not alter the schedule.
struct Limits {
  int64_t max_steps = 0;
  double max_epochs = 0;
  double max_time_s = 0;    // train + evaluation time of all segments, from the first batch
  bool light = false;       // the task's light goal counts
  bool to_the_end = false;  // go on past the goal, whose time is kept, to the last epoch or limit
  bool operator==(const Limits&) const = default;
};

struct CheckpointPolicy {
  int64_t every_steps = 0;  // 0: not by steps
  bool every_epoch = false;
  bool at_end = true;  // one at the end of the run
  bool operator==(const CheckpointPolicy&) const = default;
};

inline constexpr std::string_view kDevices[] = {"cpu", "cuda"};

// What a run does; RunSpec::task names and hashes it.
// Training: mlbench-worker trains a task, with an exchange in each step, evaluations, a goal, data and a model.
struct Training {
  bool operator==(const Training&) const = default;
};
// A custom run: each rank is any program instead of mlbench-worker. Such ranks may write tracker lines; beside these,
// only how they end is known.
struct Command {
  std::vector<std::string> words;             // the program and its arguments; never empty
  std::string work_dir = {};                  // the folder where it starts; "": that of its image
  std::vector<std::string> environment = {};  // variables beside the machine's, in the form of variables.h
  bool operator==(const Command&) const = default;
};
// With CollectivesSpec, mlbench-worker measures collectives; that specification is also in task.canonical and hashed.
using Workload = std::variant<Training, Command, CollectivesSpec>;

struct RunSpec {
  int64_t id = 0;          // unique in the home, as long as the home's counter exists
  std::string identity;    // unique: 128 random bits as 32 hexadecimal digits; "" before the run is made
  std::string name;        // NAME-K or NAME-K.R
  int64_t repeat = 1;      // 1, 2, ...
  std::string created_at;  // UTC
  // A request for this run alone (RunRequest in api/openapi.json), completed by what was chosen where the original left
  // a choice. Sending it again makes the same run again. Null for runs that were made without a request.
  Json asked = nullptr;

  FrozenTask task;
  std::vector<Override> overrides;
  std::string division;  // closed | open | own | throughput | custom
  Workload workload;
  std::string framework = "torch";
  std::string backend = "gloo";
  std::string executor = "local";
  Json engine = Json::object();  // the executor's own options, by name
  int64_t workers = 1;
  int64_t threads_per_worker = 1;
  // The limit of CPUs for each worker's container or pod, in thousandths, such as 2.5; 0: as many as threads.
  double cpus = 0;
  int64_t inter_op_threads = 1;  // of the framework's pool for operations that run beside each other
  // How many each worker has for encoded images; 0: an even share of its host's cores that do not compute, at least 1.
  int64_t decoding_threads = 0;
  int64_t max_bad = 0;          // how many images may be impossible to decode; others then stand in (docs/images.md)
  bool oversubscribed = false;  // workers * threads > cores of the host, or --no-wait beside another run
  bool share_host = false;      // takes workers * threads cores of its host, beside other runs that do the same
  uint64_t seed = 42;           // already seed + repeat - 1
  Limits limits;
  CheckpointPolicy checkpoint;
  double comm_timeout_s = 30;
  Communication communication;

  std::string data_name;               // --data; by default the task's own
  std::vector<std::string> data_dirs;  // look-up order, absolute
  std::string cache_dir;               // HOME/cache
  bool synthetic = false;
  bool fixed_batch = false;
  double emulated_step_s = 0;  // each step waits so long in place of computing; 0: the framework computes

  std::string run_dir;                // absolute
  std::string precision = "float32";  // requested
  std::string device = "cpu";         // requested: cpu | cuda, one GPU per worker
  std::string convolution = "auto";   // requested: kConvolutions (run_options.h)
  std::string profile = "off";        // off | explain (record which kernels were taken) | time (also what they cost)
  bool timeline = false;              // ranks record what their threads do (record/timeline.h)
  bool operator==(const RunSpec&) const = default;
};

// Makes `spec` a training of a parsed task: sets task, overrides, precision and division. Precondition: `workers`,
// `fixed_batch`, `emulated_step_s` and `communication` are set.
void set_task(RunSpec& spec, FrozenTask task, std::vector<Override> overrides);

// Makes `spec` a custom run of this command: division, task, framework and data are "custom", and the task's hash is
// that of the command's words. Precondition: the command has a program.
void set_command(RunSpec& spec, Command command);

// Makes `spec` a benchmark of these collectives. Its task is "0a" where deviations_from_task_0a() is empty, else
// "collectives", division "own". Precondition: `workers` and `communication` are set.
void set_collectives(RunSpec& spec, CollectivesSpec collectives);

// The CPUs of each worker: its threads, or the limit of its container where that is higher.
double cpus_per_worker(const RunSpec& spec);
// The CPUs of each worker for people: "2 threads", "2 threads with 2.5 CPUs".
std::string cpus_text(const RunSpec& spec);
// The number of whole cores that all workers need together.
int64_t cores_needed(const RunSpec& spec);

inline bool trains(const RunSpec& spec) { return std::holds_alternative<Training>(spec.workload); }
// The run's command, and its collectives; null for runs of another kind.
inline const Command* command_of(const RunSpec& spec) { return std::get_if<Command>(&spec.workload); }
inline const CollectivesSpec* collectives_of(const RunSpec& spec) {
  return std::get_if<CollectivesSpec>(&spec.workload);
}
// Whether the ranks are mlbench-worker, so that they join the rendezvous, send heartbeats and write spools.
inline bool uses_worker(const RunSpec& spec) { return command_of(spec) == nullptr; }

// Whether the run measures throughput alone: its batch is fixed or its accelerator emulated, so that it has no goal and
// no evaluation.
inline bool measures_throughput(const RunSpec& spec) { return spec.fixed_batch || spec.emulated_step_s > 0; }

// The division of a training: "throughput" where it measures nothing else; "own" where the task is not official
// (task_hash.h). Else it is "open" where the task is open by overrides, the communication opens it, or the number of
// workers is not one of the task's; otherwise "closed". A data set of another shape opens a run by overrides (plan/).
std::string division_of(const RunSpec& spec);

Json to_json(const RunSpec& spec);
// The exact inverse; only the division is determined anew. Keys of later versions are ignored. Throws UserError "FILE:
// ..." naming the missing or wrong field, or what does not fit the task's hash because the file was changed after the
// run was made.
RunSpec run_spec_from_json(const Json& json, const std::string& file = "spec.json");
// Reads the specification in a file, whose path is in the errors.
RunSpec read_run_spec(const std::filesystem::path& file);

}  // namespace mlbench::spec
