#include "mlbench/plan/nodes.h"

#include <exception>

#include "mlbench/catalog/options/options.h"

namespace mlbench::plan {

namespace {

constexpr size_t kMostClusters = 100;  // above this, old answers are forgotten

}  // namespace

Json cluster_options(const std::string& executor, const Json& engine) {
  Json those = Json::object();
  for (const spec::RunOption& option : catalog::options_of(executor)) {
    const auto told = engine.find(option.name);
    if (option.names_cluster && told != engine.end()) those[std::string(option.name)] = *told;
  }
  return those;
}

exec::ClusterNodes NodeLists::of(const std::string& executor, const Json& engine) {
  const Json cluster = cluster_options(executor, engine);
  std::unique_lock all(mutex_);
  if (entries_.size() >= kMostClusters) {
    std::erase_if(entries_, [&](auto& one) {
      const std::unique_lock idle(one.second->mutex, std::try_to_lock);
      return idle && clock_.now() - one.second->time > kNodesPeriod;
    });
  }
  auto& known = entries_[executor + " " + cluster.dump()];
  if (!known) known = std::make_shared<Entry>();
  const std::shared_ptr<Entry> entry = known;
  all.unlock();
  const std::lock_guard asking(entry->mutex);
  if (!entry->asked || clock_.now() - entry->time >= kNodesPeriod) {
    try {
      entry->answer = ask_(executor, cluster);
    } catch (const std::exception& error) {
      entry->answer = {.nodes = {}, .problem = error.what()};
    }
    entry->asked = true;
    entry->time = clock_.now();
  }
  return entry->answer;
}

}  // namespace mlbench::plan
