#pragma once

// What `mlbench doctor` finds out, a line per check.

#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/cli/context.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::cli {

enum class Verdict { kOk, kWarn, kFail };
struct Finding {
  const char* check;
  Verdict verdict;
  std::string message;
  std::string advice = {};  // what to type or do; "" when all is well
  std::string host = {};    // the name of another host; "": this one
};

// What a host says of its memory, network cards, NUMA nodes, GPUs and clock. `host` has the form of capture_host();
// what it lacks is "not known".
std::vector<Finding> findings_of(const Json& host, const std::string& name);

// Whether mpirun starts processes on this host.
Finding check_mpi();

// Which executors can start runs from this host.
Finding check_executors();

// Asks the hosts of `options` by way of its executor. Where they are named, a rank on each of them says what its host
// has; otherwise the engine says what nodes it has. Precondition: the caller has an InterruptGuard.
std::vector<Finding> ask_hosts(const Context& context, spec::RunOptions options);

}  // namespace mlbench::cli
