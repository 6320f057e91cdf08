#include "mlbench/optim/factory.h"

#include <functional>
#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/options.h"
#include "mlbench/optim/exchange/exchange.h"
#include "mlbench/optim/rules/adam.h"
#include "mlbench/optim/rules/sgd.h"

namespace mlbench::optim {

namespace {

constexpr Range kShareRange{0, 1}, kDecayRange{0, 1e6}, kEpsRange{0, 1}, kNormRange{0, 1e30};
constexpr Range kPatienceRange{0, 1e6};

// Rules are made when all options are read: a misspelt option is then reported before what its absence does to others.
using MakeRule = std::function<std::unique_ptr<UpdateRule>(const FlatLayout&, SeparateMemory*)>;

MakeRule read_sgd(OptionReader& options) {
  SgdOptions sgd;
  sgd.momentum = options.number("momentum", 0, kDecayRange);
  sgd.dampening = options.number("dampening", 0, kShareRange);
  sgd.nesterov = options.flag("nesterov", false);
  sgd.weight_decay = options.number("weight_decay", 0, kDecayRange);
  return [sgd](const FlatLayout& layout, SeparateMemory* memory) {
    return std::make_unique<SgdRule>(sgd, layout, memory);
  };
}

MakeRule read_adam(OptionReader& options) {
  AdamOptions adam;
  const std::vector<double> betas = options.numbers("betas", {adam.beta1, adam.beta2}, kShareRange);
  adam.beta1 = betas[0];
  adam.beta2 = betas[1];
  adam.eps = options.number("eps", adam.eps, kEpsRange);
  adam.weight_decay = options.number("weight_decay", 0, kDecayRange);
  adam.amsgrad = options.flag("amsgrad", false);
  return [adam](const FlatLayout& layout, SeparateMemory* memory) {
    return std::make_unique<AdamRule>(adam, layout, memory);
  };
}

StepOptions read_step_options(OptionReader& options, int workers) {
  StepOptions step;
  step.clip_norm = options.number("clip_norm", 0, kNormRange);
  const std::string reduce = options.text("reduce", "sum");
  check_choice("reduce", reduce, {"sum", "mean"});
  if (reduce == "mean") step.reduce_divisor = workers;
  step.averaging_patience = options.integer("averaging_patience", 0, kPatienceRange);
  step.loss_scale = read_loss_scale(options);
  return step;
}

struct Row {
  const char* name;
  MakeRule (*read_rule)(OptionReader& options);
  const char* exchange;
};
constexpr Row kOptimizers[] = {
    {"centralized_sgd", read_sgd, "centralized"},
    {"centralized_adam", read_adam, "centralized"},
};

}  // namespace

std::vector<std::string> optimizer_names() { return names_of(kOptimizers); }

std::unique_ptr<Optimizer> make_optimizer(const spec::OptimizerSpec& spec, const FlatLayout& layout,
                                          comm::Communicator& comm, const OptimizerContext& context) {
  const Row& row = row_named(kOptimizers, "optimizer", spec.name);
  OptionReader options("optimizer '" + spec.name + "'", spec.options);
  const MakeRule make_rule = row.read_rule(options);
  const StepOptions step = read_step_options(options, comm.size());
  const MakeExchange make_exchange = read_exchange(row.exchange, options);
  const compress::MakeCoder make_coder = compress::read_coder(options.text("compression", "none"), options);
  options.finish();
  auto rule = make_rule(layout, context.memory);
  auto coder = make_coder({layout, context.seed, comm.rank(), comm.size()});
  auto exchange = make_exchange({comm, *coder, layout, context.seed, context.place, context.memory});
  return std::make_unique<Optimizer>(std::move(rule), std::move(coder), std::move(exchange), layout, step,
                                     context.memory);
}

}  // namespace mlbench::optim
