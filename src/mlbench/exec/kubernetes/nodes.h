#pragma once

// Reads what Kubernetes says of its nodes.

#include <optional>
#include <string>

#include "mlbench/exec/kubernetes/api.h"
#include "mlbench/exec/nodes.h"

namespace mlbench::exec::kubernetes {

// The amount of a quantity: "2500m" is 2.5, "4Gi" is 4 x 2^30, "1e3" is 1000. Empty for text that is no quantity.
std::optional<double> amount_of(const std::string& quantity);

// The node of an object of the kind Node: what its pods may have, and whether it takes pods.
ClusterNode node_of(const Json& object);

// All nodes. Where the server does not let them be listed, those that have ranks of the namespace, and a `problem`.
ClusterNodes nodes_of(Api& api, const std::string& name_space);

}  // namespace mlbench::exec::kubernetes
