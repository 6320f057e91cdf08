#include "mlbench/master/nodes.h"

#include <exception>
#include <string_view>

#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/usage_lines.h"
#include "mlbench/report/records.h"

namespace mlbench::master {

namespace {

constexpr size_t kMostClusters = 100;  // that are remembered

}  // namespace

Json cluster_options(const Json& engine) {
  Json those = Json::object();
  for (const char* name : {"hosts", "ranks_per_host", "kube_context", "namespace"}) {
    const bool counts = name != std::string_view("ranks_per_host") || engine.contains("hosts");
    if (counts && engine.contains(name)) those[name] = engine.at(name);
  }
  return those;
}

Json NodeLists::of(const std::string& executor, const Json& engine) {
  const Json cluster = cluster_options(engine);
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
  if (entry->answer.is_null() || clock_.now() - entry->time >= kNodesPeriod) {
    try {
      entry->answer = ask_(executor, cluster);
    } catch (const std::exception& error) {
      entry->answer = {{"nodes", Json::array()}, {"problem", error.what()}};
    }
    entry->time = clock_.now();
  }
  return entry->answer;
}

Json ranks_on_nodes(const std::filesystem::path& run_dir) {
  Json ranks = Json::array();
  try {
    const record::Record record = report::read_record(run_dir);
    record::UsageLine usage;
    const auto lines = report::last_lines(usage_path(run_dir), 1);
    if (!lines.empty()) usage = record::parse_usage_line(lines.back()).value_or(record::UsageLine{});
    for (const record::RankPlace& place : record.placement.value_or(std::vector<record::RankPlace>{})) {
      if (place.rank < 0) continue;
      static const record::UsageLine::Rank kUnseen;
      const auto index = static_cast<size_t>(place.rank);
      const record::UsageLine::Rank& seen = index < usage.ranks.size() ? usage.ranks[index] : kUnseen;
      ranks.push_back({{"run", run_dir.filename().string()},
                       {"rank", place.rank},
                       {"node", place.host},
                       {"cpu_cores", or_null(seen.cpu_cores)},
                       {"memory_bytes", or_null(seen.memory_bytes)},
                       {"network_in_bytes_per_s", or_null(seen.network_in)},
                       {"network_out_bytes_per_s", or_null(seen.network_out)}});
    }
  } catch (const std::exception&) {
    // It has none yet, or none any more.
  }
  return ranks;
}

}  // namespace mlbench::master
