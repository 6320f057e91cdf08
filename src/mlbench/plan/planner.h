#pragma once

// What a master asks of planning: its requests become specifications, and it says what can be chosen and what hosts
// have.

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/base/json.h"
#include "mlbench/exec/nodes.h"
#include "mlbench/plan/nodes.h"
#include "mlbench/plan/serve_defaults.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::plan {

struct PlannedRuns {
  std::vector<spec::RunSpec> runs;    // as create_run takes them
  std::vector<std::string> warnings;  // for people: why a run is open, ...
};

struct ClusterOffer {
  std::string executor;
  exec::HostsOffer hosts;
};

struct PlannerOptions {
  std::filesystem::path home, worker;
  ServeDefaults defaults = {};
  std::string data_dir = {};  // of requests that name no folder for data sets
};

// Thread-safe. Virtual for tests of the master, which have no worker.
class Planner {
 public:
  explicit Planner(PlannerOptions options);
  virtual ~Planner() = default;
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // A request for runs (schema RunRequest in api/openapi.json, less no_wait) to specifications; nothing is started.
  // AboveLimit; UserError for what else cannot be run as asked (422).
  virtual PlannedRuns plan(const Json& request);
  virtual Json tasks();  // list of {name, rules, title, ...}
  // That of the worker, with executors and devices. UserError without a worker.
  virtual Json catalog();
  // The executor of requests that name none, and what its hosts have for ranks. Waits for an engine's answer, for
  // seconds.
  virtual std::string executor();
  virtual ClusterOffer offer();
  // The nodes of the cluster that an executor uses that is told this. Waits for its engine.
  virtual exec::ClusterNodes nodes(const std::string& executor, const Json& engine);

 private:
  exec::HostsOffer offer_of(const std::string& executor);

  const PlannerOptions options_;
  const SystemClock clock_;
  NodeLists nodes_;
};

}  // namespace mlbench::plan
