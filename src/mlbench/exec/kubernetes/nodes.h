#pragma once

// What Kubernetes says of its nodes.

#include <optional>
#include <string>

#include "mlbench/exec/kubernetes/api.h"
#include "mlbench/exec/nodes.h"

namespace mlbench::exec::kubernetes {

// Of a quantity: "2500m" is 2.5, "4Gi" 4 x 2^30, "1e3" 1000. Empty for what is none.
std::optional<double> amount_of(const std::string& quantity);

// Of an object Node: what its pods may have, and whether it takes some.
ClusterNode node_of(const Json& object);

// All nodes. Where they may not be listed, those on which ranks of the namespace are.
ClusterNodes nodes_of(Api& api, const std::string& name_space);

}  // namespace mlbench::exec::kubernetes
