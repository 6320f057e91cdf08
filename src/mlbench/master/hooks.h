#pragma once

// What the master needs of modules that it may not know (data sets, catalogs): the program that starts it gives it.

#include <functional>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/exec/executor.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::master {

// More than this master gives a run; the request is answered with 400.
class AboveLimit : public UserError {
 public:
  using UserError::UserError;
};

struct PlannedRuns {
  std::vector<spec::RunSpec> runs;    // as create_run takes them
  std::vector<std::string> warnings;  // for people: why a run is open, ...
};

struct ClusterOffer {
  std::string executor;
  exec::HostsOffer hosts;
};

// Called by several threads at once.
struct Hooks {
  // A request for runs (schema RunRequest in api/openapi.json, less no_wait) to specifications; nothing is started.
  // AboveLimit; UserError for what else cannot be run as asked (422).
  std::function<PlannedRuns(const Json& request)> plan;
  std::function<Json()> tasks;     // list of {name, rules, title, ...}
  std::string executor = "local";  // of requests that name none
  // What nodes the cluster has that an executor with these options uses: {"nodes", "problem"}. Waits for its engine.
  std::function<Json(const std::string& executor, const Json& engine)> nodes;
  std::function<Json()> catalog;  // that of the worker, with executors and devices; UserError without a worker
  // What the hosts have for ranks of requests that name no executor. Waits for an engine's answer, for seconds.
  std::function<ClusterOffer()> offer;
};

}  // namespace mlbench::master
