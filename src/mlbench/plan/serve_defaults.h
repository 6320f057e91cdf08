#pragma once

// What the variables of a master say of its runs: the Helm chart sets them, an operator may.

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

// More than a master gives a run; the request is answered with 400.
class AboveLimit : public UserError {
 public:
  using UserError::UserError;
};

struct ServeDefaults {
  std::string executor = {};                     // MLBENCH_EXECUTOR: of requests that name none; "": local
  std::optional<int64_t> most_workers = {};      // MLBENCH_MAX_WORKERS: of a run
  std::optional<int64_t> most_threads = {};      // MLBENCH_WORKER_MAX_CPU: cores of a worker
  std::optional<int64_t> most_worker_gpus = {};  // MLBENCH_MAX_GPU_PER_WORKER
  std::string address = {};                      // MLBENCH_POD_IP: by which pods reach this master
};

// `variable`: its value, where it is set; one that is "" counts as unset. UserError naming the variable, what it is and
// what was expected.
ServeDefaults serve_defaults(const std::function<std::optional<std::string>(const char*)>& variable);

// What the request does not say.
void apply_defaults(const ServeDefaults& defaults, const Json& request, spec::RunOptions& options);

// AboveLimit with the limit and what was asked for. What --pod-overlay asks of Kubernetes beside, a quota of
// the namespace has to bound.
void check_limits(const ServeDefaults& defaults, const std::vector<spec::RunSpec>& runs);

}  // namespace mlbench::plan
