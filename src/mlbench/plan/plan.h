#pragma once

// From the options of `mlbench run` to frozen run specifications: every choice checked, nothing started yet.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::plan {

using spec::RunOptions;

// What to do where there is no worker program, or none that works.
std::string worker_advice();

// Where data sets are looked for, absolute, in order: --data-dir (UserError when it is no folder) or else
// MLBENCH_DATA_DIR, then HOME/data.
std::vector<std::string> data_dirs(const std::string& data_dir, const std::filesystem::path& home);

// What the choices are checked against.
struct PlanFacts {
  std::filesystem::path home;
  int cores = 1;
  Json catalog;  // of the worker: frameworks, backends
};

// Of this machine and its worker. UserError without a worker.
PlanFacts gather_facts(const std::filesystem::path& worker, const std::filesystem::path& home);
// What a custom run needs of them: it has no worker of ours.
PlanFacts gather_facts(const std::filesystem::path& home);

// Most ranks, and most threads of all ranks, that are started on a host of so many cores: beyond, it is the machine
// that fails, not the run.
int64_t most_ranks(int cores);
int64_t most_threads(int cores);

// Of a task file its content, and its name without its folder: the same on every host. IoError where it cannot be read.
RunOptions with_task_text(RunOptions options);

// The task alone, with its overrides: a built-in one, or a task file. UserError as find_task() and parse_task().
spec::FrozenTask plan_frozen_task(const RunOptions& options);

// What is computed on what: task, overrides, data, seed. The rest of the specification is as it is by default.
spec::RunSpec plan_task(const RunOptions& options, const std::filesystem::path& home);

// One specification per worker count and repeat, in this order: NAME-K, NAME-K.2, ... (with options.next_repeat the
// first of these that are free now). Ids, folders and times of creation come when a run is made (create_run). UserError
// for anything that cannot be run as asked, with the valid choices: what check_run_options or the executor refuses,
// more ranks or threads than a host starts, a data set on none of the places where it is looked for. With
// options.command these are custom runs: the worker's catalog is not asked. Task 0a and options.collectives are
// benchmarks of collectives; what these leave out is as `bench collectives` has it by default.
std::vector<spec::RunSpec> plan_runs(const RunOptions& options, const PlanFacts& facts);

// "the official worker counts are 1, 2, 4": why a run is open, what the reader must know; for people.
std::vector<std::string> plan_warnings(const std::vector<spec::RunSpec>& runs, int cores);

}  // namespace mlbench::plan
