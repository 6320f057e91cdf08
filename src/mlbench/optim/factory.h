#pragma once

// The table of optimizers.

#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/flat_layout.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/optim/optimizer.h"
#include "mlbench/spec/task.h"

namespace mlbench::optim {

// "centralized_sgd": SGD on the gradient averaged over all ranks. Options (defaults): momentum (0), dampening (0),
// nesterov (false), weight_decay (0), by_layer (false: one all-reduce per step; true: one per tensor), compression
// ("none").
//
// UserError listing the valid names or options. `comm` outlives the optimizer.
std::unique_ptr<Optimizer> make_optimizer(const spec::OptimizerSpec& spec, const FlatLayout& layout,
                                          comm::Communicator& comm);
std::vector<std::string> optimizer_names();

}  // namespace mlbench::optim
