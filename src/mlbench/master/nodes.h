#pragma once

// What nodes the clusters of executors have, and what ranks use of them.

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/json.h"

namespace mlbench::master {

// Each cluster is asked again after so long.
inline constexpr std::chrono::seconds kNodesPeriod{10};

// Thread-safe. An engine that does not answer holds up those alone who ask for its nodes.
class NodeLists {
 public:
  // {"nodes": [...], "problem"} as exec::to_json(ClusterNodes) has it.
  using Ask = std::function<Json(const std::string& executor, const Json& engine)>;
  // `clock` outlives this.
  NodeLists(Ask ask, const Clock& clock) : ask_(std::move(ask)), clock_(clock) {}

  // Of the cluster that an executor with these options uses. What the engine's part throws is the problem.
  Json of(const std::string& executor, const Json& engine);

 private:
  struct Entry {
    std::mutex mutex;  // held while the engine is asked
    Json answer;
    TimePoint time;
  };

  const Ask ask_;
  const Clock& clock_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;  // by what tells clusters apart
};

// Of the options, those that say which cluster it is; the others have no part in what nodes there are.
Json cluster_options(const Json& engine);

// Of a run that goes on: [{"run", "rank", "node", "cpu_cores", "memory_bytes", "network_in_bytes_per_s",
// "network_out_bytes_per_s"}] of each rank whose place is known, as the supervisor saw it last; null is what it did not
// see. Empty where nothing can be read.
Json ranks_on_nodes(const std::filesystem::path& run_dir);

}  // namespace mlbench::master
