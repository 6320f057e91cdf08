#pragma once

#include <memory>

#include "mlbench/base/availability.h"
#include "mlbench/base/json.h"
#include "mlbench/exec/executor.h"

namespace mlbench::exec::kubernetes {

// Ranks as the pods of one Indexed Job (docs/executors/kubernetes.md), each under a guard in a container. Of the
// options: ranks_per_host, image, and all of Kubernetes'.
std::unique_ptr<Executor> make(const Json& engine);
// Where a kubeconfig or a service account is; whether its server answers is not asked.
Availability available();

}  // namespace mlbench::exec::kubernetes
