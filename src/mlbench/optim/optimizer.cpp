#include "mlbench/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::optim {

namespace {

constexpr double kClipEpsilon = 1e-6;

}  // namespace

Optimizer::Optimizer(std::unique_ptr<UpdateRule> rule, std::unique_ptr<compress::GradientCoder> coder,
                     std::unique_ptr<Exchange> exchange, const FlatLayout& layout, const StepOptions& options,
                     SeparateMemory* memory)
    : rule_(std::move(rule)),
      coder_(std::move(coder)),
      exchange_(std::move(exchange)),
      part_(exchange_->own_part()),
      clip_norm_(options.clip_norm),
      reduce_divisor_(options.reduce_divisor),
      denominator_(options.denominator) {
  if (options.loss_scale.initial != 0) {
    scaler_.emplace(options.loss_scale);
    if (!promise().exact || !promise().replicated) {
      throw UserError(
          "loss_scale with gradients that are not summed exactly over all ranks: these would not agree on which steps "
          "to skip; expected compression \"none\" in a centralized optimizer, or loss_scale 0");
    }
  }
  if (part_ && (scaler_ || clip_norm_ > 0 || options.averaging_patience > 0 || !rule_->updates_parts())) {
    throw UserError(
        "ranks that have a part of the gradient each, with what needs the whole; expected the rule sgd, adam, adamw, "
        "lion, or muon with orthogonalise gather or all_to_all; without loss_scale, clip_norm and averaging_patience");
  }
  if (scaler_ || clip_norm_ > 0) norm_.emplace(layout, memory);
  if (options.averaging_patience > 0 && rule_->swaps()) {
    throw UserError("averaging_patience with a rule that averages by itself; expected 0");
  }
  if (options.averaging_patience > 0) average_.emplace(options.averaging_patience, layout, memory);
}

Promise Optimizer::promise() const {
  Promise promise = exchange_->promise();
  if (promise.bytes_per_step) *promise.bytes_per_step += rule_->bytes_per_step();
  return promise;
}

StepOutcome Optimizer::step(FlatTensors& tensors, double lr, double sum_divisor) {
  StepOutcome outcome;
  double gradient_scale = 1 / (loss_scale() * static_cast<double>(reduce_divisor_) * denominator_ * sum_divisor);
  if (norm_) {
    const double norm = norm_->of(tensors.gradients) * gradient_scale;
    outcome.gradient_norm = norm;
    if (scaler_) {
      outcome.skipped = !std::isfinite(norm);
      scaler_->update(!outcome.skipped);
      if (outcome.skipped) return outcome;
    }
    if (clip_norm_ > 0) {
      const double factor = clip_norm_ / (norm + kClipEpsilon);
      outcome.clipped = factor < 1;
      gradient_scale *= std::min(1.0, factor);
    }
  }
  FlatTensors own = tensors;
  if (part_) {
    for (at::Tensor* flat : {&own.parameters, &own.gradients}) *flat = flat->narrow(0, part_->offset, part_->count);
  }
  rule_->update(own, lr, gradient_scale);
  bytes_of_rule_ = rule_->bytes_per_step();
  if (average_) average_->add(tensors.parameters);
  return outcome;
}

Json Optimizer::effective() const {
  Json effective = exchange_->effective();
  if (!promise().replicated) effective["replicated"] = false;
  if (rule_->collective()) effective["one_collective"] = false;
  return effective;
}

void Optimizer::export_rule_state(NamedState& state) const {
  rule_->export_state(state);
  if (scaler_) scaler_->export_state(state);
  if (average_) average_->export_state(state);
}

void Optimizer::import_rule_state(const NamedState& state) {
  rule_->import_state(state);
  if (scaler_) scaler_->import_state(state);
  if (average_) average_->import_state(state);
}

void Optimizer::export_state(NamedState& state) const {
  if (rule_is_replicated()) export_rule_state(state);
}

void Optimizer::import_state(const NamedState& state) {
  if (rule_is_replicated()) import_rule_state(state);
}

void Optimizer::export_own_state(NamedState& state) const {
  if (!rule_is_replicated()) export_rule_state(state);
  coder_->export_state(state);
  exchange_->export_state(state);
}

void Optimizer::import_own_state(const NamedState& state) {
  if (!rule_is_replicated()) import_rule_state(state);
  coder_->import_state(state);
  exchange_->import_state(state);
}

}  // namespace mlbench::optim
