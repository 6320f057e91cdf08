#pragma once

// Plans `mlbench sweep`: makes the options of `run` for each point of the scaling exercise, and finds runs that exist
// already. Starts nothing.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/report/study/sweep.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::plan {

struct SweepOptions {
  spec::RunOptions run;  // what all runs have in common; the name is the sweep's
  std::vector<int64_t> procs_per_node = {1}, intra_op = {1}, inter_op = {1}, nodes = {1};  // no value twice
  bool scaled = true, unscaled = true;  // runs over nodes with the learning rate as the task scales it, and unscaled
  int64_t probe_steps = 200;            // of each setting's run
};

// The numbers in the words of a list option, "1,2,4". Throws UserError, naming the option `what`, where a number is not
// in the range or comes twice, and where there is none.
std::vector<int64_t> parse_counts(const std::vector<std::string>& words, const std::string& what, const Range& range);

// The options of one run of a setting on one node, with `probe_steps` steps and no other limit. `repeat` counts from 0.
spec::RunOptions setting_options(const SweepOptions& options, const report::SweepSetting& setting, int64_t repeat);
// The options of one run over nodes, which goes on past the goal to its end or the limits that were given.
spec::RunOptions nodes_options(const SweepOptions& options, const report::SweepRequest& request, int64_t repeat);

// All points over nodes with this setting, by number of nodes, the scaled learning rate before the unscaled. For one
// worker both are the same, so that the unscaled point needs no run of its own where both are asked for: then
// same_as_scaled() is true.
std::vector<report::SweepRequest> node_requests(const SweepOptions& options, const report::SweepSetting& setting);
bool same_as_scaled(const SweepOptions& options, const report::SweepRequest& request);

// Where the task does not scale its learning rate, and with a fixed batch, sets `unscaled` to false; throws UserError
// where it was asked for by name (`asked_for`).
void check_lr_scaling(SweepOptions& options, bool asked_for);

// The SHA-256 of what a run is asked to do: of its specification without names, numbers, dates and paths of folders.
std::string specification_hash(const spec::RunSpec& run);

// The names of the runs NAME, NAME.2, ... of the home that have the specification_hash() of `planned`, the newest last.
// Damaged runs are passed over.
std::vector<std::string> runs_like(const std::filesystem::path& home, const spec::RunSpec& planned);

// The steps that cover the epochs, for every number of nodes and of processes per node; no combination twice.
std::vector<report::SweepSteps> steps_of(const SweepOptions& options);

}  // namespace mlbench::plan
