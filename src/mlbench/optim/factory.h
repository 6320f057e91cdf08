#pragma once

// The table of optimizers.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/flat_layout.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/optim/optimizer.h"
#include "mlbench/spec/task.h"

namespace mlbench::optim {

// Makes the optimizer that `spec` names, on the gradient averaged over all ranks. Options (defaults in parentheses):
// - "centralized_sgd": momentum (0), dampening (0), nesterov (false), weight_decay (0);
// - "centralized_adam": betas ([0.9, 0.999]), eps (1e-8), weight_decay (0), amsgrad (false);
// - both: clip_norm (0: none), reduce ("sum" | "mean"), averaging_patience (0: never) (optimizer.h); loss_scale (0:
//   none) and how it changes (loss_scaler.h); those of the exchange (exchange/exchange.h), compression ("none") and the
//   coder's.
//
// Throws UserError listing the valid names or options. `comm` and `memory` must outlive the optimizer.
struct OptimizerContext {
  uint64_t seed = 42;             // the run's
  CommunicationPlace place = {};  // of the exchange's communication thread, if there is one
  // Where the framework's buffers are, and what an optimizer keeps beside them; null: in the host's memory.
  SeparateMemory* memory = nullptr;
};
std::unique_ptr<Optimizer> make_optimizer(const spec::OptimizerSpec& spec, const FlatLayout& layout,
                                          comm::Communicator& comm, const OptimizerContext& context = {});
std::vector<std::string> optimizer_names();

}  // namespace mlbench::optim
