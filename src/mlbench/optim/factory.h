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

// What an optimizer is made with, beside its specification.
struct OptimizerContext {
  uint64_t seed = 42;             // the run's
  CommunicationPlace place = {};  // of the exchange's communication thread, if there is one
  // Where the framework's buffers are, and what an optimizer keeps beside them; null: in the host's memory.
  SeparateMemory* memory = nullptr;
};
// Makes the optimizer that `spec` names: the row of that name, with the options `rule`, `compression` and `pattern`
// where they are given. Its other options are those of the rule, coder and pattern, and the step's (optimizer.h):
// list_rules(), list_step_options(), compress::list_coders() and list_exchanges() have them with defaults and ranges.
// Throws UserError listing the valid names or options. `comm` and `context.memory` must outlive the optimizer.
std::unique_ptr<Optimizer> make_optimizer(const spec::OptimizerSpec& spec, const FlatLayout& layout,
                                          comm::Communicator& comm, const OptimizerContext& context = {});

// Rows for lists. An optimizer's is {name, rule, compression, pattern}, a rule's {name, source, options}; options are
// [{name, default, expected}].
Json list_optimizers();
Json list_rules();
// The options that every optimizer has, whatever its rule, coder and pattern: clipping, loss scaling, averages.
Json list_step_options();

}  // namespace mlbench::optim
