#pragma once

// Defaults and limits that environment variables set for the runs of a master. The Helm chart sets these variables, and
// an operator may.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::plan {

// A request asks for more than the master gives a run; it is answered with status 400.
class AboveLimit : public UserError {
 public:
  using UserError::UserError;
};

struct ServeDefaults {
  std::string executor = {};                     // MLBENCH_EXECUTOR: for requests that name none; "": local
  std::optional<int64_t> most_workers = {};      // MLBENCH_MAX_WORKERS: workers of a run
  std::optional<int64_t> most_threads = {};      // MLBENCH_WORKER_MAX_CPU: cores of a worker
  std::optional<int64_t> most_worker_gpus = {};  // MLBENCH_MAX_GPU_PER_WORKER
  std::string address = {};                      // MLBENCH_POD_IP: the address by which pods reach this master
};

// Reads the variables. `variable` gives a variable's value where it is set; "" counts as unset. Throws UserError naming
// the variable, its value and what was expected.
ServeDefaults serve_defaults(const std::function<std::optional<std::string>(const char*)>& variable);

// Sets in `options` what `request` does not say: the executor.
void apply_defaults(const ServeDefaults& defaults, const Json& request, spec::RunOptions& options);

// Throws AboveLimit, with the limit and what was asked for, where a run exceeds one. What --pod-overlay asks of
// Kubernetes is not checked; a quota of the namespace must limit that.
void check_limits(const ServeDefaults& defaults, const std::vector<spec::RunSpec>& runs);

}  // namespace mlbench::plan
