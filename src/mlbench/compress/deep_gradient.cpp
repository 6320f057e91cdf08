#include "mlbench/compress/deep_gradient.h"

#include <cmath>

#include "mlbench/compress/flat_values.h"
#include "mlbench/compress/selection.h"
#include "mlbench/compress/sparse_payload.h"

namespace mlbench::compress {

namespace {

constexpr double kFirstShare = 0.25;

}  // namespace

DeepGradientCoder::DeepGradientCoder(const DeepGradientOptions& options, const CoderContext& context)
    : options_(options),
      layout_(context.layout),
      size_(context.size),
      momentum_(at::zeros({context.layout.parameter_elements})),
      velocity_(at::zeros_like(momentum_)) {}

int64_t DeepGradientCoder::sent_at(int64_t step) const {
  if (step >= options_.warmup_steps || options_.share >= kFirstShare) return count_of(options_.share, layout_);
  const double part = static_cast<double>(step) / static_cast<double>(options_.warmup_steps);
  return count_of(kFirstShare * std::pow(options_.share / kFirstShare, part), layout_);
}

std::optional<uint64_t> DeepGradientCoder::bytes_per_step() const {
  if (options_.warmup_steps > 0) return std::nullopt;
  return static_cast<uint64_t>(count_of(options_.share, layout_)) * 8;
}

Payload DeepGradientCoder::encode(int /*round*/, const at::Tensor& gradient) {
  double scale = 1;
  if (options_.clip > 0 && step_.share > 0) {
    const double norm = at::linalg_vector_norm(gradient.to(at::kDouble)).item<double>() / step_.share;
    const double most = options_.clip / std::sqrt(static_cast<double>(size_));
    if (norm > most) scale = most / norm;
  }
  if (options_.nesterov) {
    momentum_.add_(gradient, scale).mul_(options_.momentum);
    velocity_.add_(momentum_).add_(gradient, scale);
  } else {
    momentum_.mul_(options_.momentum).add_(gradient, scale);
    velocity_.add_(momentum_);
  }
  const std::vector<int32_t> indices = largest(values_of(velocity_), sent_at(step_.step));
  Payload payload = sparse_payload(velocity_, indices);
  clear_elements(indices, velocity_);
  clear_elements(indices, momentum_);
  return payload;
}

void DeepGradientCoder::absorb(int /*round*/, std::span<const at::Tensor> results, at::Tensor& gradient) {
  gradient.zero_();
  add_elements(results, gradient);
}

void DeepGradientCoder::export_state(NamedState& state) const {
  export_values("coder/momentum", momentum_, state);
  export_values("coder/velocity", velocity_, state);
}

void DeepGradientCoder::import_state(const NamedState& state) {
  import_values("coder/momentum", state, momentum_);
  import_values("coder/velocity", state, velocity_);
}

}  // namespace mlbench::compress
