#pragma once

#include <memory>

#include "mlbench/base/availability.h"
#include "mlbench/base/json.h"
#include "mlbench/exec/executor.h"
#include "mlbench/exec/kubernetes/options.h"
#include "mlbench/exec/row.h"

namespace mlbench::exec::kubernetes {

// Makes the executor whose ranks are the pods of one Indexed Job (docs/executors/kubernetes.md), each under a guard in
// a container. `engine` has the options of kubernetes/options.h. Throws UserError as read_options().
std::unique_ptr<Executor> make(const Json& engine);
// Whether there is a kubeconfig or a service account. Whether the server answers is not asked.
Availability available();

inline constexpr ExecutorRow kExecutor = {"kubernetes", "pods of a Job of Kubernetes", kFacts, kOptions, available,
                                          make};

}  // namespace mlbench::exec::kubernetes
