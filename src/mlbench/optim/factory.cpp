#include "mlbench/optim/factory.h"

#include "mlbench/base/errors.h"
#include "mlbench/base/options.h"
#include "mlbench/optim/exchange/centralized.h"
#include "mlbench/optim/rules/adam.h"
#include "mlbench/optim/rules/sgd.h"

namespace mlbench::optim {

namespace {

constexpr Range kShareRange{0, 1}, kDecayRange{0, 1e6}, kEpsRange{0, 1}, kBucketRange{0, 1 << 20};  // MiB

// What every optimizer with the centralized exchange has beside its rule.
struct CentralizedChoices {
  CentralizedOptions exchange;
  std::string compression;
};

// The last options to be read.
CentralizedChoices read_centralized(OptionReader& options) {
  CentralizedChoices choices;
  choices.exchange.by_layer = options.flag("by_layer", false);
  choices.exchange.bucket_mb = options.number("bucket_mb", 0, kBucketRange);
  choices.compression = options.text("compression", "none");
  options.finish();
  return choices;
}

std::unique_ptr<Optimizer> centralized(std::unique_ptr<UpdateRule> rule, const CentralizedChoices& choices,
                                       const FlatLayout& layout, comm::Communicator& comm) {
  auto coder = compress::make_coder(choices.compression, layout);
  auto exchange = std::make_unique<CentralizedExchange>(comm, *coder, layout, choices.exchange);
  return std::make_unique<Optimizer>(std::move(rule), std::move(coder), std::move(exchange));
}

std::unique_ptr<Optimizer> make_centralized_sgd(OptionReader& options, const FlatLayout& layout,
                                                comm::Communicator& comm) {
  SgdOptions sgd;
  sgd.momentum = options.number("momentum", 0, kDecayRange);
  sgd.dampening = options.number("dampening", 0, kShareRange);
  sgd.nesterov = options.flag("nesterov", false);
  sgd.weight_decay = options.number("weight_decay", 0, kDecayRange);
  const CentralizedChoices choices = read_centralized(options);
  return centralized(std::make_unique<SgdRule>(sgd, layout), choices, layout, comm);
}

std::unique_ptr<Optimizer> make_centralized_adam(OptionReader& options, const FlatLayout& layout,
                                                 comm::Communicator& comm) {
  AdamOptions adam;
  const std::vector<double> betas = options.numbers("betas", {adam.beta1, adam.beta2}, kShareRange);
  adam.beta1 = betas[0];
  adam.beta2 = betas[1];
  adam.eps = options.number("eps", adam.eps, kEpsRange);
  adam.weight_decay = options.number("weight_decay", 0, kDecayRange);
  adam.amsgrad = options.flag("amsgrad", false);
  const CentralizedChoices choices = read_centralized(options);
  return centralized(std::make_unique<AdamRule>(adam, layout), choices, layout, comm);
}

struct Row {
  const char* name;
  std::unique_ptr<Optimizer> (*make)(OptionReader& options, const FlatLayout& layout, comm::Communicator& comm);
};
constexpr Row kOptimizers[] = {
    {"centralized_sgd", make_centralized_sgd},
    {"centralized_adam", make_centralized_adam},
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
    if (row.name == spec.name) {
      OptionReader options("optimizer '" + spec.name + "'", spec.options);
      return row.make(options, layout, comm);
    }
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  throw UserError("unknown optimizer '" + spec.name + "'; valid: " + names);
}

}  // namespace mlbench::optim
