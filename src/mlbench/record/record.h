#pragma once

// The run record: what a run was asked to do, how it ended, what it measured. It is a structure here; JSON it is at the
// doors alone (run.json, HTTP, archives, --json), with the schema api/run.schema.json. build_record.h makes it of a
// run's folder.
//
// A text that is "" and a number that is empty are null as JSON, or absent where the schema has no null. `others` are
// the members of later programs: they are kept, and written behind those that have a name here.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/bfloat16_speed.h"
#include "mlbench/record/collectives.h"
#include "mlbench/record/feed.h"
#include "mlbench/spec/communication.h"
#include "mlbench/spec/fields.h"
#include "mlbench/spec/task.h"

namespace mlbench::record {

using spec::NamedNumbers;
using NamedTexts = std::vector<std::pair<std::string, std::string>>;  // in the order in which they were written

using ExitCodes = std::vector<std::optional<int64_t>>;  // per rank; empty where nobody saw the end

enum class RunState { kQueued, kRunning, kFinished, kFailed, kStopped };
constexpr std::string_view name_of(RunState state) {
  switch (state) {
    case RunState::kQueued:
      return "queued";
    case RunState::kRunning:
      return "running";
    case RunState::kFinished:
      return "finished";
    case RunState::kFailed:
      return "failed";
    case RunState::kStopped:
      return "stopped";
  }
  return "";
}

struct Limits {
  std::optional<int64_t> max_steps;
  std::optional<double> max_epochs, max_time_s;
  bool light = false, to_the_end = false;
  Json others = nullptr;
};

// How the ranks compute and exchange gradients.
struct Choices {
  std::string device;     // requested: "cpu", "cuda"; effective: with its number, "cuda:0"
  std::string precision;  // "float32"
  std::string layout;
  std::optional<bool> overlap;     // pieces are exchanged while the gradient is computed
  std::optional<int64_t> buckets;  // pieces in which the gradient is exchanged
  std::optional<bool> by_layer;    // one piece per tensor
  std::optional<bool> pinned;      // each computing thread is bound to a core
  Json others = nullptr;           // effective ones: what the framework and the back end say beside them
};
struct Effective : Choices {
  std::string overlap_off;         // why overlap that the task asks for is off here
  std::optional<bool> replicated;  // false: ranks hold different weights, and their average is evaluated and hashed
  std::optional<bool> staged;      // gradients of ranks on GPUs go by way of the host's memory
  // Each step's exchange is at most one blocking collective of all ranks; empty in records of earlier programs.
  std::optional<bool> one_collective;
  std::string convolution;                   // direct | winograd, where a layer has that order; "": there is none
  std::vector<std::string> convolution_why;  // "winograd in 16 layers: faster"
  std::optional<int64_t> decoding_threads;   // of each rank; empty where samples are not decoded by several
  std::string collectives_by;                // whose collective algorithms ran: "mlbench", or the back end's library
  std::vector<std::string> variables;        // NAME=VALUE, by which rank 0's back end is told how to communicate
  // On rank 0's processor, of runs that compute in bfloat16 on CPUs.
  std::optional<Bfloat16Speed> bfloat16_speed;
};
struct Requested : Choices {
  std::optional<double> bucket_mb;
  Json checkpoint_every = nullptr;  // "epoch", or a number of steps; null: at the end alone
  std::string convolution;          // of a training: "auto", "direct" or "winograd"
  std::string profile;              // "time"
  std::optional<bool> timeline;
};

struct Failure {
  std::string kind;   // rank_died | rank_error | comm_timeout | comm_error | start_failed | supervisor_lost |
                      // launcher_lost | disk_full | host_lost
  int64_t rank = -1;  // the culprit; -1 unknown or none
  std::string host;
  std::string operation;  // last operation of the culprit, e.g. "all_reduce"
  int64_t sequence = -1;  // of that operation; -1 unknown
  std::string message;
  std::vector<std::string> log_tail;  // last lines of the culprit's logs (supervise/traces.h)
  Json others = nullptr;
};

// One start of the ranks: a run has one, plus one each time that it is resumed or requeued.
struct Segment {
  int64_t index = 1;  // from 1
  int64_t start_step = 0;
  std::string started_at = {}, finished_at = {};  // UTC; "" while unknown
  double lost_s = 0;                              // gap since the previous segment's last record
  ExitCodes exit_codes = {};
  std::optional<Failure> failure = {};  // with which it ended
  // By rank 0's spool; empty where only the supervisor has spoken so far.
  std::optional<int64_t> steps = {};
  std::optional<double> wall_s = {}, train_s = {}, train_legacy_s = {};
  Json others = nullptr;
};

// Where a rank of the last segment runs, as its executor chose.
struct RankPlace {
  int64_t rank = -1;           // -1: not told
  std::string host;            // the name of one of the hosts
  int64_t local_rank = 0;      // among the ranks of its host
  std::string cores;           // that it may use, "0-3,8"; "": not known
  std::optional<int64_t> gpu;  // its number on the host
  Json others = nullptr;
};

// The supervisor's host and program (base/environment.h).
struct Environment {
  std::string version, git_describe, build_id, build_type, compiler;
  NamedTexts libraries;  // their versions
  std::string kernel, os, gpu_driver;
  Json others = nullptr;
};

// What an engine gave for the last segment, in its words.
struct Allocation {
  std::string engine, job;
  std::string partition;  // of Slurm
  Json others = nullptr;
};

struct NetworkCard {
  std::string name;
  std::optional<double> speed_mbit;
  Json others = nullptr;
};

struct Gpu {
  std::string name;
  Json others = nullptr;
};

// A host that takes part.
struct Host {
  std::string name;
  std::vector<std::string> addresses;
  std::string cpu;
  std::optional<int64_t> cores, ram_bytes;
  std::string firmware;
  std::vector<NetworkCard> nics;
  std::vector<Gpu> gpus;
  Json others = nullptr;  // load, steal, its own environment
};

// An image that cannot be decoded, and the one that was taken in its place: numbers in the split.
struct BadImage {
  std::string split;
  int64_t sample = 0, stand_in = 0;
  std::string image;    // name of its file, with that of its folder or shard
  std::string message;  // why
  Json others = nullptr;
};

struct BadImages {
  int64_t allowed = 0;          // --max-bad
  int64_t count = 0;            // distinct ones that any rank met, in all segments
  std::vector<BadImage> first;  // by split and number, as many as a record names
  Json others = nullptr;
};

struct DataSet {
  std::string name, fingerprint;
  std::optional<bool> official;
  bool synthetic = false;
  std::optional<bool> fixed_batch;      // tensors were made once and used in each step
  Json samples = nullptr;               // a number, or numbers by split
  std::string generator;                // what made the records, with its version and seed; "" of real data
  std::optional<BadImages> bad_images;  // empty where none was allowed
  Json others = nullptr;
};

// What data and run files of the ranks lie on.
struct Storage {
  std::string kind;  // "local"; "data nfs, run local"; "not known"
  std::string data, run, endpoint;
  std::optional<int64_t> objects, bytes;  // of an object store; `bytes` and those below are of all ranks
  std::optional<int64_t> requests, retries, cache_hits, cache_bytes;
  std::optional<int64_t> device_read_bytes, call_read_bytes;  // as of an epoch, but of the whole training
  std::optional<Checks> checks;                               // of all ranks
  Json others = nullptr;
};

// The task's optimizer and schedule, with the overrides: what a run that trains does with gradients.
struct Algorithm {
  std::string rule, coder, pattern;  // docs/optimizers/
  Json options = nullptr;            // of the three, by their names
  std::optional<double> lr;          // of the task or its override, not yet scaled by the number of workers
  Json schedule = nullptr;           // the task's table of that name
  // How `lr` and `schedule` were chosen. "task": they are the task's, for its own algorithm. "task_for_another": the
  // task's, though the algorithm is another. "given": by an override. "tuned": the best of `tuned_trials`.
  std::string rates;
  std::optional<int64_t> tuned_trials;
  Json others = nullptr;
};

// Waiting for the slowest rank and moving bytes, of each rank (exchange.h).
struct Exchange {
  std::vector<double> wait_s, transfer_s;
  std::vector<double> exposed_s, hidden_s;  // empty in records of earlier programs: all was exposed
  bool exact =
      false;  // one blocking collective per step; else the true wait is at least, the true transfer at most this
  int64_t steps = 0;  // that all ranks recorded
  // Steps of all ranks by the staleness of the weights at which they computed, from 0; empty where none can be stale.
  std::optional<std::vector<int64_t>> staleness = {};
  Json others = nullptr;
};

struct BestValue {
  double value = 0;
  std::optional<double> epoch;
  std::optional<int64_t> step;
  std::optional<double> train_s;
  Json others = nullptr;
};

struct Goal {
  std::string metric, split;
  std::optional<double> target;
  std::optional<bool> higher_is_better;
  std::optional<double> target_loss;  // training loss that charts draw
  bool reached = false;
  // These are of the moment when the goal was reached, else of the best value so far.
  std::optional<double> value, epoch;
  std::optional<int64_t> step;
  std::optional<double> train_s;
  std::optional<NamedNumbers> steps_s;  // of a goal that was reached: the record's sums up to it
  std::optional<Exchange> exchange;
  std::optional<BestValue> best;  // of the whole run
  Json others = nullptr;
};

struct ClockSums {
  std::optional<double> queue_s, wall_s, prepare_s, train_s, train_legacy_s;
  Json others = nullptr;
};

struct Throughput {
  std::optional<double> samples_per_s, median_samples_per_s;
  std::optional<int64_t> peak_rss;  // bytes, of the largest rank
  std::optional<int64_t> samples, steps;
  Json others = nullptr;
};

// Used share of what the ranks had.
struct Utilisation {
  std::optional<double> cpu, gpu;
  Json others = nullptr;
};

// What a host used, by all its programs, while the ranks worked.
struct HostEnergy {
  std::string host, meter;       // `meter` is empty where the host has none that can be read
  std::optional<double> joules;  // empty where some segment's is not known
  Json others = nullptr;
};
// The sums are empty where a host is not known: they are never of some of the hosts.
struct Energy {
  std::optional<double> joules, to_goal_joules;
  std::vector<HostEnergy> hosts;
  Json others = nullptr;
};

struct Evaluation {
  std::optional<int64_t> step;
  std::optional<double> epoch;
  std::optional<int64_t> samples;
  std::string split;
  std::optional<bool> cadence;  // at the task's own cadence, not brought about by a limit
  std::optional<double> train_s, elapsed_s, wall_s;
  NamedNumbers metrics;
  std::optional<double> duration_s;
  std::optional<int64_t> segment;
  Json others = nullptr;
};

struct Epoch {
  std::optional<double> epoch, train_loss;
  NamedNumbers metrics;
  std::optional<double> train_s;
  std::optional<int64_t> step, segment;
  std::optional<double> gradient_norm;
  std::optional<int64_t> clipped_steps;
  // By all ranks: fetched from devices or other machines, and returned by calls that read. Empty where a rank's kernel
  // does not say.
  std::optional<int64_t> device_read_bytes, call_read_bytes;
  std::optional<int64_t> object_bytes, object_cache_bytes;  // of an object store, and of its cache
  std::optional<double> accelerator_utilisation;            // rank 0's (clocks.h)
  std::optional<Ring> ring;                                 // of all ranks
  Json others = nullptr;
};

// A kind of layer or kernel, of a run with --profile time.
struct OperationCost {
  std::string name, implementation;
  std::optional<double> forward_s, backward_s, forward_floor_s, backward_floor_s, forward_flops, backward_flops;
  std::optional<int64_t> bytes;
  Json others = nullptr;
};

// What the command of a custom run declares that it trains, in the words of the options that say it.
struct Declared {
  std::string task, rules, variant, data;
  std::string goal;  // "Prec@1>=80"
  Json others = nullptr;
};

// A custom run's command, and what its script recorded.
struct Custom {
  std::vector<std::string> command;
  std::optional<Declared> declared;  // empty where nothing is declared
  std::string result;
  Json others = nullptr;
};

struct Record {
  int64_t schema_version = 1;
  std::optional<int64_t> id;
  std::string name, created_at, started_at, finished_at;
  std::string executor;
  std::optional<int64_t> repeat;
  std::string task, rules, variant;
  std::string division;  // "closed", "open", "own", "throughput", "custom"
  std::optional<std::vector<spec::Override>> overrides;
  std::string task_hash;
  std::string problem_hash;  // of the task without its algorithm (spec/algorithm.h); "" where nothing is trained
  std::optional<Algorithm> algorithm;  // of runs that train
  std::string framework, backend, comm_stack;
  std::optional<spec::Communication> communication;  // empty where no worker runs
  std::optional<int64_t> workers, threads_per_worker, inter_op_threads;
  std::optional<bool> oversubscribed, shared_host;
  std::optional<double> emulated_step_s;  // each step waited so long in place of computing; empty: it computed
  std::optional<uint64_t> seed;
  ExitCodes exit_codes;  // of the last segment; no codes before any start
  Limits limits;
  std::vector<std::string> notes;
  std::string state;
  std::string stop_reason;  // why rank 0 ended by itself
  std::optional<Requested> requested;
  std::optional<Effective> effective;
  std::optional<Failure> failure;
  std::vector<Segment> segments;
  std::optional<Environment> environment = Environment();  // empty in some archives
  Json engine = nullptr;  // what the executor was told beside the run: its own options, by their names
  std::optional<std::vector<RankPlace>> placement;
  std::optional<Allocation> allocation;  // empty without an engine
  std::vector<Host> hosts;
  DataSet data;
  Storage storage;
  std::optional<Goal> goal;
  ClockSums clocks;
  NamedNumbers steps_s;  // rank 0's train clock by kind of step
  // How long each rank's steps waited for data; empty in records of earlier programs, of custom runs, and where a rank
  // recorded no steps.
  std::optional<std::vector<double>> waited_for_data_s;
  std::optional<Ring> ring;  // of all ranks and segments; empty where batches are not decoded ahead
  std::optional<Exchange> exchange;
  Throughput throughput;
  Utilisation utilisation;
  std::optional<Energy> energy;  // empty before ranks worked
  std::vector<Evaluation> evaluations;
  std::vector<Epoch> epochs;
  std::vector<OperationCost> operations;
  std::optional<int64_t> parameters;
  std::string weights_sha256;
  std::optional<Collectives> collectives;
  std::optional<Custom> custom;
  Json others = nullptr;
};

// The algorithm of a task, on which the overrides have been applied. Throws UserError as spec::algorithm_of() does.
Algorithm algorithm_of(const spec::FrozenTask& task, const std::vector<spec::Override>& overrides);

// The members in the order of the schema.
Json to_json(const Record& record);
Json to_json(const std::vector<Record>& records);
// Its inverse. UserError, naming the member with what was given and what is expected, for a record whose members have
// other types than the schema says, or which counts more ranks and segments than any run has. Members may be missing:
// archives of others hold less. A former name of a framework is read as the present one (spec/former_names.h). `where`
// begins the error: the path of a file.
Record record_from_json(const Json& json, const std::string& where);

// Whether the host sees when the passes of a step end: all but those of real steps on a GPU.
bool host_sees_passes(const Record& record);

// How many segments a run's folder may hold: those of its record, at least 1.
int64_t segment_count(const Record& record);

// Whether a state is one that a supervisor is still to change.
inline bool is_active_state(std::string_view state) {
  return state == name_of(RunState::kQueued) || state == name_of(RunState::kRunning);
}
inline bool is_active(const Record& record) { return is_active_state(record.state); }

}  // namespace mlbench::record
