#include "mlbench/base/build_info.h"
#include "mlbench/base/embedded_file.h"
#include "mlbench/master/http/dates.h"
#include "mlbench/master/http/openapi.h"
#include "mlbench/master/http/services.h"
#include "mlbench/master/run_list.h"

namespace mlbench::master {

namespace {

Response version() {
  const BuildInfo& build = build_info();
  return json_response(
      200,
      {{"version", build.version}, {"git_describe", build.git_describe}, {"build_id", build.build_id}, {"api", 1}});
}

Response clusters(const Services& services) {
  const Cluster& cluster = services.scheduler.cluster();
  return json_response(200, {{"clusters",
                              {{{"name", cluster.name},
                                {"slots", cluster.slots},
                                {"oversubscribes", cluster.oversubscribes},
                                {"waiting", services.scheduler.waiting()}}}}});
}

Response hosts(const Services& services, const Request& request) {
  const int64_t from = whole_number(request, "from_time_us", 0, 0, INT64_MAX);
  Json columns = {{"time_us", Json::array()}};
  for (const char* name : kHostSeries) columns[name] = Json::array();
  const std::vector<HostSample> samples = services.hosts.samples(from);
  for (const HostSample& sample : samples) {
    columns["time_us"].push_back(sample.time_us);
    for (size_t i = 0; i < kHostSeries.size(); ++i) columns[kHostSeries[i]].push_back(value_of(sample, i));
  }
  Json gpus = Json::array();
  for (const Gpu& gpu : services.gpus.gpus(from)) {
    Json time = Json::array(), utilisation = Json::array(), memory = Json::array();
    for (const GpuSample& sample : gpu.samples) {
      time.push_back(sample.time_us);
      utilisation.push_back(sample.utilisation);
      memory.push_back(sample.memory);
    }
    const Json one = {
        {"time_us", std::move(time)}, {"utilisation", std::move(utilisation)}, {"memory", std::move(memory)}};
    gpus.push_back({{"name", gpu.name}, {"memory_mib", gpu.memory_mib}, {"samples", one}});
  }
  const Json host = {{"host", services.hosts.host()},
                     {"cores", services.hosts.cores()},
                     {"memory_mib", samples.empty() ? Json(nullptr) : Json(samples.back().memory_total)},
                     {"gpus", std::move(gpus)},
                     {"samples", std::move(columns)}};
  return json_response(200, {{"hosts", Json::array({host})}});
}

}  // namespace

std::string openapi_document() { return std::string(openapi_files().front().text); }

std::vector<Route> system_routes(Services& services) {
  Services* s = &services;
  return {
      {"GET", "/api/v1/health", Access::kOpen,
       [](const Call&) {
         return json_response(200, {{"status", "ok"}});
       },
       Lane::kAtOnce},
      {"GET", "/api/v1/version", Access::kToken, [](const Call&) { return version(); }, Lane::kAtOnce},
      {"GET", "/api/v1/openapi.json", Access::kToken,
       [](const Call&) {
         return Response{200, "application/json", {}, openapi_document(), {}};
       },
       Lane::kAtOnce},
      {"GET", "/api/v1/tasks", Access::kToken,
       [s](const Call&) {
         return json_response(200, {{"tasks", s->planner.tasks()}});
       }},
      {"GET", "/api/v1/catalog", Access::kToken, [s](const Call&) { return json_response(200, s->planner.catalog()); },
       Lane::kSlow},
      {"GET", "/api/v1/figures", Access::kToken,
       [](const Call&) {
         return json_response(200, {{"figures", list_figures()}});
       },
       Lane::kAtOnce},
      {"GET", "/api/v1/clusters", Access::kToken, [s](const Call&) { return clusters(*s); }},
      {"GET", "/api/v1/hosts", Access::kToken, [s](const Call& call) { return hosts(*s, call.request); }},
  };
}

}  // namespace mlbench::master
