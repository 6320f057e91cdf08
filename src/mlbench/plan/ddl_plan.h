#pragma once

// Plans `mlbench study ddl`: makes the options of `run` for each point of the study, and for the runs that measure one
// stage of a point alone (report/study/ddl.h). Starts nothing.

#include <cstdint>
#include <string>
#include <vector>

#include "mlbench/report/study/ddl.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::plan {

struct DdlOptions {
  spec::RunOptions run;  // what all runs have in common; the name is the study's
  // No value twice.
  std::vector<int64_t> workers = {1};
  std::vector<std::string> inputs = {report::kSyntheticInput};  // synthetic, or places as of --data-dir
  std::vector<std::string> networks = {report::kRealNetwork};   // as set_network() takes them
  std::vector<std::string> variants = {""};                     // "": the task's first
};

// The steps of a run where the user gives no limit, and those of a run of a stage alone.
inline constexpr int64_t kDdlSteps = 300, kDdlStageSteps = 30;

// All points; the workers change fastest.
std::vector<report::DdlPoint> ddl_points(const DdlOptions& options);

// Sets what a network of the study says: "real" leaves `run` as it is. Else `network` is a list, with commas, of
// settings NAME=VALUE and of what --netem takes: "links=16,socket_buffer=12M", "host_network",
// "bandwidth=1Gbit,socket_buffer=64K". Names are those of options with `of_network`; a flag has no value. Values are
// checked with the run. Throws UserError for a setting that comes twice, that has no value, or that has one and takes
// none.
void set_network(spec::RunOptions& run, const std::string& network);

// The options of one run of a point. `repeat` counts from 0. Names have marks of places and networks, which do not
// depend on the other points of the study.
spec::RunOptions ddl_options(const DdlOptions& options, const report::DdlPoint& point, int64_t repeat);

// What the runs of stages alone take from the run of the point, so that they measure the same.
struct DdlShare {
  int64_t threads_per_worker = 1;
  int64_t decoding_threads = 0;  // 0: the worker's choice
  int64_t global_batch = 0;      // of the task; 0: each worker has a batch of its own
  int64_t scaled_batch = 0;      // of a worker of the point, where it grows with their number; 0: it does not
};
DdlShare ddl_share(const spec::RunSpec& run);  // `run` is of the point
// One worker computes with a fixed batch, of the size that each worker of the point has.
spec::RunOptions ddl_compute_options(const DdlOptions& options, const report::DdlPoint& point, const DdlShare& share);
// All workers exchange the gradients of steps that compute nothing. Precondition: the point has several workers.
spec::RunOptions ddl_exchange_options(const DdlOptions& options, const report::DdlPoint& point, const DdlShare& share);
// One worker takes the batches of the place, and computes nothing. Precondition: the input is a place.
spec::RunOptions ddl_input_options(const DdlOptions& options, const report::DdlPoint& point, const DdlShare& share);

}  // namespace mlbench::plan
