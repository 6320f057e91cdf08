#pragma once

// The nodes of the clusters of executors, as their engines report them.

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

// A cluster is asked again when its answer is older than this.
inline constexpr std::chrono::seconds kNodesPeriod{10};

// Keeps the nodes of clusters. Thread-safe. An engine that does not answer blocks only callers that ask for its nodes.
class NodeLists {
 public:
  using Ask = std::function<exec::ClusterNodes(const std::string& executor, const Json& engine)>;
  // `ask` asks an engine for its nodes. Precondition: `clock` outlives this object.
  NodeLists(Ask ask, const Clock& clock) : ask_(std::move(ask)), clock_(clock) {}

  // The nodes of the cluster that `executor` uses with the options `engine`. Asks the engine where the answer is too
  // old. What `ask` throws becomes ClusterNodes::problem.
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
  std::map<std::string, std::shared_ptr<Entry>> entries_;  // by executor and cluster_options()
};

// The options among `engine` that say which cluster the executor uses; others have no influence on its nodes.
Json cluster_options(const std::string& executor, const Json& engine);

}  // namespace mlbench::plan
