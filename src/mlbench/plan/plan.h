#pragma once

// Makes frozen run specifications from the options of `mlbench run`. It checks every choice and starts nothing.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/bfloat16_speed.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::plan {

using spec::RunOptions;

// The folder as an absolute path; a place in an object store as it is.
std::string absolute_data_dir(const std::string& data_dir);

// The absolute folders in which data sets are looked for, in order: `data_dir` or, where it is "", MLBENCH_DATA_DIR;
// then HOME/data. A place in an object store, s3://BUCKET/PREFIX, stays as it is. Throws UserError where `data_dir` is
// neither.
std::vector<std::string> data_dirs(const std::string& data_dir, const std::filesystem::path& home);

// The facts against which choices are checked.
struct PlanFacts {
  std::filesystem::path home;
  int cores = 1;
  Json catalog;  // the worker's: frameworks, backends
};

// The facts of this machine and its worker. Throws UserError where no worker answers.
PlanFacts gather_facts(const std::filesystem::path& worker, const std::filesystem::path& home);
// The facts without a catalog, for custom runs, which need no mlbench-worker.
PlanFacts gather_facts(const std::filesystem::path& home);

// The most ranks, and the most threads of all ranks together, that are started on a host with `cores` cores. With more,
// the machine would fail and not the run.
int64_t most_ranks(int cores);
int64_t most_threads(int cores);

// Where the task is a task file, replaces its path by its name without a folder and adds its content, so that the
// options mean the same on every host. Throws IoError where the file cannot be read.
RunOptions with_task_text(RunOptions options);

// The task of the options with its overrides: one that is built in, or a task file. Throws UserError as find_task() and
// parse_task() do.
spec::FrozenTask plan_frozen_task(const RunOptions& options);

// A specification with task, overrides, data and seed of the options; all else has its default.
spec::RunSpec plan_task(const RunOptions& options, const std::filesystem::path& home);

// Makes a specification for each worker count and repeat, in this order: NAME-K, NAME-K.2, ... With
// options.next_repeat, names are the first of these that are free now. Ids, folders and times of creation are set when
// a run is made (create_run).
// With options.command these are custom runs, for which the worker's catalog is not used. Task 0a and
// options.collectives give benchmarks of collectives; members that these leave out have the defaults of `bench
// collectives`.
// Throws UserError, with the valid choices, for options that cannot be run: those that check_run_options() or the
// executor refuses, more ranks or threads than a host starts, a data set that is nowhere where it is looked for.
std::vector<spec::RunSpec> plan_runs(const RunOptions& options, const PlanFacts& facts);

// How fast the runs' framework computes their model in bfloat16 beside float32, where they ask for that on CPUs; empty
// for other runs. The framework's worker program, beside `worker`, measures it on this host, or the home has it. Not
// known for ranks on other hosts. Precondition: there is at least one run.
std::optional<record::Bfloat16Speed> bfloat16_speed_of(const std::vector<spec::RunSpec>& runs,
                                                       const std::filesystem::path& worker,
                                                       const std::filesystem::path& home);

// Warnings for people: why runs are open or of division own, and why their times may mislead. `cores` are the host's;
// `bfloat16` is that of bfloat16_speed_of(). Precondition: there is at least one run.
std::vector<std::string> plan_warnings(const std::vector<spec::RunSpec>& runs, int cores,
                                       const std::optional<record::Bfloat16Speed>& bfloat16 = std::nullopt);

}  // namespace mlbench::plan
