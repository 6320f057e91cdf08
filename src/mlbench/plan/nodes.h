#pragma once

// The nodes of executors' clusters, as their engines tell of them.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/json.h"
#include "mlbench/exec/nodes.h"

namespace mlbench::plan {

// Each cluster is asked again after so long.
inline constexpr std::chrono::seconds kNodesPeriod{10};

// Thread-safe. An engine that does not answer holds up those alone who ask for its nodes.
class NodeLists {
 public:
  using Ask = std::function<exec::ClusterNodes(const std::string& executor, const Json& engine)>;
  // `clock` outlives this.
  NodeLists(Ask ask, const Clock& clock) : ask_(std::move(ask)), clock_(clock) {}

  // Of the cluster that an executor uses that is told this. What the engine's part throws is the problem.
  exec::ClusterNodes of(const std::string& executor, const Json& engine);

 private:
  struct Entry {
    std::mutex mutex;  // held while the engine is asked
    bool asked = false;
    exec::ClusterNodes answer;
    TimePoint time;
  };

  const Ask ask_;
  const Clock& clock_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;  // by what tells clusters apart
};

// Of what an executor is told, that which says which cluster it uses; the rest has no part in what nodes there are.
Json cluster_options(const std::string& executor, const Json& engine);

}  // namespace mlbench::plan
