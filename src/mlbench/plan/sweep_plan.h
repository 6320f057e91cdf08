#pragma once

// What `mlbench sweep` runs: options of `run` for each point of the scaling exercise, and whether such a run is there
// already. Nothing is started here.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/report/study/sweep.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::plan {

struct SweepOptions {
  spec::RunOptions run;  // what all runs have in common; its name is the sweep's
  std::vector<int64_t> procs_per_node = {1}, intra_op = {1}, inter_op = {1}, nodes = {1};  // none twice
  bool scaled = true, unscaled = true;  // over nodes, with the learning rate as the task scales it, and unscaled
  int64_t probe_steps = 200;            // of each setting's run
};

// "1,2,4" in the words of a list option: each in the range, none twice, at least one. UserError naming `what`.
std::vector<int64_t> parse_counts(const std::vector<std::string>& words, const std::string& what, const Range& range);

// Of one run of a setting on one node: so many steps, no other limit. `repeat` from 0.
spec::RunOptions setting_options(const SweepOptions& options, const report::SweepSetting& setting, int64_t repeat);
// Of one run over nodes: the limits that were given, past the goal to its end.
spec::RunOptions nodes_options(const SweepOptions& options, const report::SweepRequest& request, int64_t repeat);

// All points over nodes with this setting: by nodes, the learning rate scaled and then not. One worker is scaled by
// one: where both are asked for, that point has no second run (`same_as_scaled`).
std::vector<report::SweepRequest> node_requests(const SweepOptions& options, const report::SweepSetting& setting);
bool same_as_scaled(const SweepOptions& options, const report::SweepRequest& request);

// UserError where the task does not scale its learning rate and `unscaled` was asked for by name; else sets it to
// false.
void check_lr_scaling(SweepOptions& options, bool asked_for);

// SHA-256 of what a run is asked to do: all of its specification but names, numbers, dates and places of folders.
std::string specification_hash(const spec::RunSpec& run);

// The runs NAME, NAME.2, ... of the home with that hash, the newest last; damaged ones are passed over.
std::vector<std::string> runs_like(const std::filesystem::path& home, const spec::RunSpec& planned);

// For every number of nodes and processes of a node; none twice.
std::vector<report::SweepSteps> steps_of(const SweepOptions& options);

}  // namespace mlbench::plan
