#pragma once

// What the handlers of requests work with. All of it is thread-safe and outlives the server.

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "mlbench/master/gpus.h"
#include "mlbench/master/hosts.h"
#include "mlbench/master/http/api.h"
#include "mlbench/master/http/session.h"
#include "mlbench/master/ingest.h"
#include "mlbench/master/last_steps.h"
#include "mlbench/master/live.h"
#include "mlbench/master/sched/scheduler.h"
#include "mlbench/master/watch.h"
#include "mlbench/plan/planner.h"
#include "mlbench/store/journal.h"
#include "mlbench/store/run_index.h"
#include "mlbench/store/tracking.h"

namespace mlbench::master {

struct Services {
  std::filesystem::path home;
  plan::Planner& planner;
  store::RunIndex& index;
  store::SeriesStore& series;
  store::Journal& journal;
  store::Tracking& tracking;
  Scheduler& scheduler;
  Watcher& watcher;
  LastSteps& last_steps;
  Ingest& ingest;
  LiveFeed& live;
  HostSampler& hosts;
  GpuSampler& gpus;
  Sessions& sessions;
  std::string token;
};

std::vector<Route> system_routes(Services& services);   // health, version, tasks, catalog, clusters, hosts
std::vector<Route> metrics_routes(Services& services);  // /metrics
std::vector<Route> node_routes(Services& services);     // /api/v1/nodes
std::vector<Route> run_routes(Services& services);      // /api/v1/runs
std::vector<Route> legacy_routes(Services& services);   // /api/: MLBench's clients
std::vector<Route> mlflow_routes(Services& services);   // /api/2.0/mlflow/: MLflow's clients
std::vector<Route> page_routes(Services& services);     // /, /assets, /api/v1/session: the dashboard

// ---- shared by both APIs -------------------------------------------------------------------------------------------

// The folder of the run with this name or id. Throws HttpError 404 where there is none.
std::filesystem::path find_run_folder(const Services& services, const std::string& name_or_id);

// Makes and queues the planned runs: all or none. `values` are those of the variables that the runs only name; they
// stay in memory. Throws NameTaken (409), and HttpError 422 where a run does not fit, lacks a value or cannot start.
std::vector<spec::RunSpec> submit(Services& services, std::vector<spec::RunSpec> runs, bool no_wait,
                                  const std::map<std::string, std::string>& values = {});

// Deletes a run's folder and what the store holds of the run. Throws HttpError 409 while the run is active.
void delete_everywhere(Services& services, const std::filesystem::path& run_dir);

}  // namespace mlbench::master
