#pragma once

// Plans for a master: makes specifications from its requests, and says what can be chosen and what hosts have.

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
  std::vector<spec::RunSpec> runs;    // for create_run()
  std::vector<std::string> warnings;  // for people: why a run is open, ...
};

struct ClusterOffer {
  std::string executor;
  exec::HostsOffer hosts;
};

struct PlannerOptions {
  std::filesystem::path home, worker;
  ServeDefaults defaults = {};
  std::string data_dir = {};  // for requests that name no folder of data sets
};

// Thread-safe. Its functions are virtual for tests of the master, which have no worker.
class Planner {
 public:
  explicit Planner(PlannerOptions options);
  virtual ~Planner() = default;
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // Makes specifications from a request for runs (schema RunRequest in api/openapi.json, without no_wait); starts
  // nothing. Throws AboveLimit, and UserError for a request that cannot be run for another reason (status 422).
  virtual PlannedRuns plan(const Json& request);
  virtual Json tasks();  // list of {name, rules, title, ...}
  // The worker's catalog, with executors and devices added. Throws UserError where no worker answers.
  virtual Json catalog();
  // The executor of requests that name none, and what its hosts have for ranks. offer() may wait seconds for an engine.
  virtual std::string executor();
  virtual ClusterOffer offer();
  // Says what obstacle_to(run) says.
  virtual std::string obstacle(const spec::RunSpec& run);
  // The nodes of the cluster that `executor` uses with the options `engine`. Waits for the engine's answer.
  virtual exec::ClusterNodes nodes(const std::string& executor, const Json& engine);

 private:
  exec::HostsOffer offer_of(const std::string& executor);

  const PlannerOptions options_;
  const SystemClock clock_;
  NodeLists nodes_;
};

}  // namespace mlbench::plan
