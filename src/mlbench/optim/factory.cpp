#include "mlbench/optim/factory.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/options.h"
#include "mlbench/optim/exchange/exchange.h"
#include "mlbench/optim/rules/adam.h"
#include "mlbench/optim/rules/dion.h"
#include "mlbench/optim/rules/lamb.h"
#include "mlbench/optim/rules/lars.h"
#include "mlbench/optim/rules/lion.h"
#include "mlbench/optim/rules/muon.h"
#include "mlbench/optim/rules/schedule_free.h"
#include "mlbench/optim/rules/sgd.h"
#include "mlbench/spec/algorithm.h"

namespace mlbench::optim {

namespace {

constexpr Range kShareRange{0, 1}, kDecayRange{0, 1e6}, kEpsRange{0, 1}, kFractionRange{1e-9, 1}, kNormRange{0, 1e30};
constexpr Range kPatienceRange{0, 1e6}, kDenominatorRange{1e-9, 1e12};

// Rules are made when all options are read: a misspelt option is then reported before what its absence does to others.
struct RuleContext {
  const FlatLayout& layout;
  std::optional<FlatPart> part;  // which the rule updates; empty: all
  comm::Communicator& comm;
  bool replicated = true;  // all ranks have the same gradient and parameters, or parts of them
  SeparateMemory* memory = nullptr;
};
using MakeRule = std::function<std::unique_ptr<UpdateRule>(const RuleContext&)>;

// A rule of that kind from its options.
template <typename Rule, typename Options>
MakeRule maker_of(const Options& rule) {
  return [rule](const RuleContext& context) {
    const FlatLayout layout = context.part ? vectors_of_part(context.layout, *context.part) : context.layout;
    return std::make_unique<Rule>(rule, layout, context.memory);
  };
}

MakeRule read_sgd(OptionReader& options) {
  SgdOptions sgd;
  sgd.momentum = options.number("momentum", 0, kDecayRange);
  sgd.dampening = options.number("dampening", 0, kShareRange);
  sgd.nesterov = options.flag("nesterov", false);
  sgd.weight_decay = options.number("weight_decay", 0, kDecayRange);
  return maker_of<SgdRule>(sgd);
}

template <typename Options>
void read_betas(OptionReader& options, Options& rule) {
  const std::vector<double> betas = options.numbers("betas", {rule.beta1, rule.beta2}, kShareRange);
  rule.beta1 = betas[0];
  rule.beta2 = betas[1];
}

AdamOptions read_adam_options(OptionReader& options) {
  AdamOptions adam;
  read_betas(options, adam);
  adam.eps = options.number("eps", adam.eps, kEpsRange);
  adam.amsgrad = options.flag("amsgrad", false);
  return adam;
}

MakeRule read_adam(OptionReader& options) {
  AdamOptions adam = read_adam_options(options);
  adam.weight_decay = options.number("weight_decay", 0, kDecayRange);
  return maker_of<AdamRule>(adam);
}

MakeRule read_adamw(OptionReader& options) {
  AdamOptions adam = read_adam_options(options);
  adam.decoupled = true;
  adam.weight_decay = options.number("weight_decay", 0.01, kDecayRange);
  return maker_of<AdamRule>(adam);
}

MakeRule read_lars(OptionReader& options) {
  LarsOptions lars;
  lars.momentum = options.number("momentum", lars.momentum, kDecayRange);
  lars.weight_decay = options.number("weight_decay", lars.weight_decay, kDecayRange);
  lars.trust_coefficient = options.number("trust_coefficient", lars.trust_coefficient, kDecayRange);
  return maker_of<LarsRule>(lars);
}

MakeRule read_lamb(OptionReader& options) {
  LambOptions lamb;
  read_betas(options, lamb);
  lamb.eps = options.number("eps", lamb.eps, kEpsRange);
  lamb.weight_decay = options.number("weight_decay", lamb.weight_decay, kDecayRange);
  return maker_of<LambRule>(lamb);
}

MakeRule read_lion(OptionReader& options) {
  LionOptions lion;
  read_betas(options, lion);
  lion.weight_decay = options.number("weight_decay", lion.weight_decay, kDecayRange);
  return maker_of<LionRule>(lion);
}

MakeRule read_muon(OptionReader& options) {
  MuonOptions muon;
  muon.momentum = options.number("momentum", muon.momentum, kShareRange);
  muon.nesterov = options.flag("nesterov", muon.nesterov);
  muon.weight_decay = options.number("weight_decay", muon.weight_decay, kDecayRange);
  muon.match_rms_adamw =
      options.choice("adjust_lr", "match_rms_adamw", {"match_rms_adamw", "original"}) == "match_rms_adamw";
  muon.adam_rate = options.number("adam_rate", muon.adam_rate, kDecayRange);
  muon.adam = read_adam_options(options);
  const std::vector<std::string> works = {"replicated", "owner", "gather", "all_to_all"};
  const auto found = std::ranges::find(works, options.choice("orthogonalise", works.front(), works));
  const auto work = static_cast<MatrixWork>(found - works.begin());
  return [muon, work](const RuleContext& context) {
    if (work != MatrixWork::kReplicated && (!context.replicated || context.memory != nullptr)) {
      throw UserError(
          "orthogonalise with ranks that have gradients of their own, or with a GPU's memory; expected replicated");
    }
    return std::make_unique<MuonRule>(muon, context.layout, context.memory,
                                      MatrixDistribution{work, &context.comm, context.part});
  };
}

MakeRule read_dion(OptionReader& options) {
  DionOptions dion;
  dion.momentum = options.number("momentum", dion.momentum, kShareRange);
  dion.rank_fraction = options.number("rank_fraction", dion.rank_fraction, kFractionRange);
  dion.weight_decay = options.number("weight_decay", dion.weight_decay, kDecayRange);
  dion.adam_rate = options.number("adam_rate", dion.adam_rate, kDecayRange);
  dion.adam = read_adam_options(options);
  return maker_of<DionRule>(dion);
}

MakeRule read_schedule_free_sgd(OptionReader& options) {
  ScheduleFreeOptions free;
  free.beta1 = options.number("momentum", free.beta1, kShareRange);
  free.weight_decay = options.number("weight_decay", free.weight_decay, kDecayRange);
  return maker_of<ScheduleFreeRule>(free);
}

MakeRule read_schedule_free_adamw(OptionReader& options) {
  ScheduleFreeOptions free;
  free.adam = true;
  read_betas(options, free);
  free.eps = options.number("eps", free.eps, kEpsRange);
  free.weight_decay = options.number("weight_decay", free.weight_decay, kDecayRange);
  return maker_of<ScheduleFreeRule>(free);
}

StepOptions read_step_options(OptionReader& options, int workers) {
  StepOptions step;
  step.clip_norm = options.number("clip_norm", 0, kNormRange);
  const bool mean = options.choice("reduce", "sum", {"sum", "mean"}) == "mean";
  if (mean) step.reduce_divisor = workers;
  step.denominator = options.number("denominator", step.denominator, kDenominatorRange);
  if (mean && step.denominator != 1) {
    throw UserError(
        "denominator with reduce \"mean\", whose denominator is the number of workers; expected reduce \"sum\"");
  }
  step.averaging_patience = options.integer("averaging_patience", 0, kPatienceRange);
  step.loss_scale = read_loss_scale(options);
  return step;
}

struct RuleRow {
  const char* name;
  MakeRule (*read)(OptionReader& options);
  const char* source;  // paper, or the implementation that it equals
};
constexpr RuleRow kRules[] = {
    {"sgd", read_sgd, "torch.optim.SGD"},
    {"adam", read_adam, "Kingma & Ba 2015, torch.optim.Adam"},
    {"adamw", read_adamw, "Loshchilov & Hutter 2019, torch.optim.AdamW"},
    {"lars", read_lars, "You et al. 2017"},
    {"lamb", read_lamb, "You et al. 2020"},
    {"lion", read_lion, "Chen et al. 2023"},
    {"muon", read_muon, "Jordan et al. 2024, Liu et al. 2025, torch.optim.Muon"},
    {"dion", read_dion, "Ahn et al. 2025"},
    {"schedule_free_sgd", read_schedule_free_sgd, "Defazio et al. 2024, schedulefree.SGDScheduleFree"},
    {"schedule_free_adamw", read_schedule_free_adamw, "Defazio et al. 2024, schedulefree.AdamWScheduleFree"},
};

}  // namespace

Json list_optimizers() {
  Json rows = Json::array();
  for (const spec::NamedAlgorithm& row : spec::named_algorithms()) {
    rows.push_back({{"name", row.name}, {"rule", row.rule}, {"compression", row.coder}, {"pattern", row.pattern}});
  }
  return rows;
}

Json list_rules() {
  Json rows = Json::array();
  for (const RuleRow& row : kRules) {
    rows.push_back({{"name", row.name}, {"source", row.source}, {"options", options_asked_by(row.read)}});
  }
  return rows;
}

Json list_step_options() {
  return options_asked_by([](OptionReader& reader) { read_step_options(reader, 1); });
}

std::unique_ptr<Optimizer> make_optimizer(const spec::OptimizerSpec& spec, const FlatLayout& layout,
                                          comm::Communicator& comm, const OptimizerContext& context) {
  const spec::Algorithm algorithm = spec::algorithm_of(spec);
  OptionReader options("optimizer '" + spec.name + "'", spec.options);
  // The three choices are read: what is left is theirs.
  options.text("rule", "");
  const MakeRule make_rule = row_named(kRules, "rule", algorithm.rule).read(options);
  const StepOptions step = read_step_options(options, comm.size());
  options.text("pattern", "");
  const MakeExchange make_exchange = read_exchange(algorithm.pattern, options);
  options.text("compression", "");
  const compress::MakeCoder make_coder = compress::read_coder(algorithm.coder, options);
  options.finish();
  if (step.denominator != 1 && !keeps_replicas(algorithm.pattern)) {
    throw UserError(fmt::format(
        "denominator with the pattern {}, whose ranks step by the mean of their own samples; expected denominator 1",
        algorithm.pattern));
  }
  const FlatLayout nothing;
  auto coder = make_coder({codes_parts(algorithm.pattern) ? nothing : layout, context.seed, comm.rank(), comm.size()});
  if (coder->has_momentum() && spec.options.value("momentum", 0.0) != 0) {
    throw UserError(
        fmt::format("compression '{}' has the momentum itself: its rule must have none; expected "
                    "--set optimizer.momentum=0 --set optimizer.nesterov=false",
                    coder->name()));
  }
  auto exchange = make_exchange({comm, *coder, layout, context.seed, context.place, context.memory, make_coder});
  const std::optional<FlatPart> part = exchange->own_part();
  auto rule = make_rule({layout, part, comm, exchange->promise().replicated, context.memory});
  return std::make_unique<Optimizer>(std::move(rule), std::move(coder), std::move(exchange), layout, step,
                                     context.memory);
}

}  // namespace mlbench::optim
