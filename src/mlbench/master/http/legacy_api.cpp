#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/run_folder.h"
#include "mlbench/home/runs.h"
#include "mlbench/master/http/legacy.h"

namespace mlbench::master {

namespace legacy {
namespace {

Response pods(const Services& services, const Call& call) {
  format_of(call.request, "", false);
  int64_t held = 0;
  for (const std::string& name : services.index.names_in_state("running")) {
    try {
      held += home::read_spec(runs_dir(services.home) / name).workers;
    } catch (const std::exception&) {
      continue;  // it was just deleted
    }
  }
  Json list = Json::array();
  for (int64_t slot = 0; slot < services.hosts.cores(); ++slot) {
    list.push_back({{"name", pod_name(services, slot)},
                    {"labels", labels_of(services, slot)},
                    {"phase", slot < held ? "Running" : "Pending"},
                    {"ip", "127.0.0.1"}});
  }
  return json_response(200, list);
}

Response root(const Call& call) {
  const std::string base =
      fmt::format("{}://{}/api/", call.request.secure ? "https" : "http", call.request.header("Host"));
  return json_response(200, {{"pods", base + "pods/"}, {"runs", base + "runs/"}, {"metrics", base + "metrics/"}});
}

}  // namespace
}  // namespace legacy

std::vector<Route> legacy_routes(Services& services) {
  Services* s = &services;
  std::vector<Route> routes = {
      {"GET", "/api/", Access::kLegacy, [](const Call& call) { return legacy::root(call); }, Lane::kAtOnce},
      {"GET", "/api/pods/", Access::kLegacy, [s](const Call& call) { return legacy::pods(*s, call); }},
      {"GET", "/api/runs/", Access::kLegacy, [s](const Call& call) { return legacy::all_runs(*s, call); }, Lane::kSlow},
      {"POST", "/api/runs/", Access::kLegacy, [s](const Call& call) { return legacy::create_run(*s, call); },
       Lane::kSlow, Body::kForm},
      {"GET", "/api/runs/{id}/", Access::kLegacy, [s](const Call& call) { return legacy::one_run(*s, call); }},
      {"DELETE", "/api/runs/{id}/", Access::kLegacy, [s](const Call& call) { return legacy::delete_run(*s, call); },
       Lane::kSlow},
      {"GET", "/api/metrics/", Access::kLegacy, [s](const Call& call) { return legacy::all_metrics(*s, call); },
       Lane::kSlow},
      {"POST", "/api/metrics/", Access::kLegacy, [s](const Call& call) { return legacy::post_metric(*s, call); },
       Lane::kQuick, Body::kForm},
      {"GET", "/api/metrics/{key}/", Access::kLegacy,
       [s](const Call& call) { return legacy::metrics_of_key(*s, call); }, Lane::kSlow},
  };
  for (const char* path : {"pods", "runs", "metrics"}) {  // "/api/runs.json"
    Route json = *std::find_if(routes.begin(), routes.end(), [&](const Route& route) {
      return route.method == "GET" && route.pattern == fmt::format("/api/{}/", path);
    });
    json.pattern = fmt::format("/api/{}.json", path);
    routes.push_back(std::move(json));
  }
  return routes;
}

}  // namespace mlbench::master
