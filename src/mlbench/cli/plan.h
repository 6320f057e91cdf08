#pragma once

// From the options of `mlbench run` to frozen run specifications: every choice checked, nothing started yet.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::cli {

// As given on the command line; empty where nothing was given.
struct RunOptions {
  std::string name;
  std::vector<std::string> workers;
  std::string task, rules, variant;
  std::string task_text;  // the content of the task file `task`, where it cannot be read by that name
  std::string framework, backend, executor = "local";
  std::string data, data_dir;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::string seed, threads_per_worker, repeat;
  std::string max_steps, max_epochs, max_time;
  std::string checkpoint_every, comm_timeout;
  // A custom run: what each rank starts, in which folder, with which variables (spec/variables.h) beside those
  // of the machine.
  std::vector<std::string> command;
  std::string image, work_dir;
  std::vector<std::string> environment;
  bool light = false, synthetic = false, fixed_batch = false, gpu = false, explain = false, profile = false;
};

// The options as a request to a master (schema RunRequest in api/openapi.json), and back. UserError for an unknown or
// wrong field.
Json to_json(const RunOptions& options);
RunOptions run_options_from_json(const Json& request);

// What the choices are checked against.
struct PlanFacts {
  std::filesystem::path home;
  int cores = 1;
  Json catalog;  // of the worker: frameworks, backends
  std::vector<std::string> executors;
};

// Of this machine and its worker. UserError without a worker.
PlanFacts gather_facts(const std::filesystem::path& worker, const std::filesystem::path& home);
// What a custom run needs of them: it has no worker of ours.
PlanFacts gather_facts(const std::filesystem::path& home);

// What is computed on what: task, overrides, data, seed. The rest of the specification is as it is by default.
spec::RunSpec plan_task(const RunOptions& options, const std::filesystem::path& home);

// One specification per worker count and repeat, in this order: NAME-K, NAME-K.2, ... Ids, folders and times of
// creation come when a run is made (create_run). UserError for anything that cannot be run as asked, with the valid
// choices; also when the data set is on none of the places where it is looked for. With options.command these are
// custom runs: nothing of a task may be given, and the worker's catalog is not asked.
std::vector<spec::RunSpec> plan_runs(const RunOptions& options, const PlanFacts& facts);

// Names of the rows of a catalog's table ("frameworks", "backends", "optimizers") that can be used.
std::vector<std::string> available_names(const Json& catalog, const char* table);

// "the official worker counts are 1, 2, 4": why a run is open, what the reader must know; for people.
std::vector<std::string> plan_warnings(const std::vector<spec::RunSpec>& runs, int cores);

}  // namespace mlbench::cli
