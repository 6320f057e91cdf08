#include <algorithm>
#include <utility>
#include <vector>

#include "mlbench/base/input.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/home/runs.h"
#include "mlbench/master/http/services.h"
#include "mlbench/master/nodes.h"
#include "mlbench/spec/hosts.h"

namespace mlbench::master {

namespace {

constexpr int64_t kMostActive = 200;  // runs that are looked at
constexpr size_t kMostRanks = 5000;

struct InUse {
  std::string executor;
  Json cluster = Json::object();
  bool usual = false;
};

// The clusters of the default executor, and of runs that run or wait.
std::vector<InUse> clusters_in_use(const Services& services, Json& ranks) {
  std::vector<InUse> clusters = {{services.planner.executor(), Json::object(), true}};
  for (const char* state : {"running", "queued"}) {
    for (const std::string& summary : services.index.newest_summaries(kMostActive, state)) {
      const std::string name = text_member(try_parse_json(summary, inputs::kSummary).value_or(Json()), "name");
      const std::filesystem::path run_dir = runs_dir(services.home) / name;
      InUse one;
      try {
        const spec::RunSpec run = home::read_spec(run_dir);
        one = {run.executor, plan::cluster_options(run.executor, run.engine)};
      } catch (const std::exception&) {
        continue;  // the run was deleted
      }
      const bool known = std::ranges::any_of(
          clusters, [&](const InUse& other) { return other.executor == one.executor && other.cluster == one.cluster; });
      if (!known) clusters.push_back(one);
      if (std::string_view(state) != "running") continue;
      for (Json& rank : ranks_on_nodes(run_dir)) {
        if (ranks.size() >= kMostRanks) break;
        rank["executor"] = one.executor;
        ranks.push_back(std::move(rank));
      }
    }
  }
  return clusters;
}

Response nodes(Services& services) {
  Json ranks = Json::array(), clusters = Json::array();
  for (const InUse& one : clusters_in_use(services, ranks)) {
    const std::string context = spec::engine_text(one.cluster, "kube_context");
    Json cluster = {
        {"executor", one.executor}, {"context", context.empty() ? Json() : Json(context)}, {"usual", one.usual}};
    cluster.update(exec::to_json(services.planner.nodes(one.executor, one.cluster)));
    clusters.push_back(std::move(cluster));
  }
  return json_response(200, {{"clusters", std::move(clusters)}, {"ranks", std::move(ranks)}});
}

}  // namespace

std::vector<Route> node_routes(Services& services) {
  Services* s = &services;
  return {{"GET", "/api/v1/nodes", Access::kToken, [s](const Call&) { return nodes(*s); }, Lane::kSlow}};
}

}  // namespace mlbench::master
