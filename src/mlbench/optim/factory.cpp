#include "mlbench/optim/factory.h"

#include "mlbench/base/errors.h"
#include "mlbench/base/options.h"
#include "mlbench/optim/exchange/centralized.h"
#include "mlbench/optim/rules/sgd.h"

namespace mlbench::optim {

namespace {

std::unique_ptr<Optimizer> make_centralized_sgd(const spec::OptimizerSpec& spec, const FlatLayout& layout,
                                                comm::Communicator& comm) {
  OptionReader options("optimizer '" + spec.name + "'", spec.options);
  SgdOptions sgd;
  sgd.momentum = options.number("momentum", 0);
  sgd.dampening = options.number("dampening", 0);
  sgd.nesterov = options.flag("nesterov", false);
  sgd.weight_decay = options.number("weight_decay", 0);
  const bool by_layer = options.flag("by_layer", false);
  const std::string compression = options.text("compression", "none");
  options.finish();
  if (by_layer && compression != "none") {
    throw UserError("optimizer '" + spec.name + "': by_layer is true with compression '" + compression +
                    "'; expected compression \"none\", or by_layer false");
  }
  auto coder = compress::make_coder(compression, layout);
  auto exchange = std::make_unique<CentralizedExchange>(comm, *coder, layout, by_layer);
  return std::make_unique<Optimizer>(std::make_unique<SgdRule>(sgd, layout), std::move(coder), std::move(exchange));
}

struct Row {
  const char* name;
  std::unique_ptr<Optimizer> (*make)(const spec::OptimizerSpec& spec, const FlatLayout& layout,
                                     comm::Communicator& comm);
};
constexpr Row kOptimizers[] = {
    {"centralized_sgd", make_centralized_sgd},
};

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Row& row : kOptimizers) names.emplace_back(row.name);
  return names;
}

std::unique_ptr<Optimizer> make_optimizer(const spec::OptimizerSpec& spec, const FlatLayout& layout,
                                          comm::Communicator& comm) {
  std::string names;
  for (const Row& row : kOptimizers) {
    if (row.name == spec.name) return row.make(spec, layout, comm);
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  throw UserError("unknown optimizer '" + spec.name + "'; valid: " + names);
}

}  // namespace mlbench::optim
