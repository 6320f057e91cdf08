#include "mlbench/compress/ef21.h"

#include "mlbench/compress/flat_values.h"
#include "mlbench/compress/selection.h"
#include "mlbench/compress/sparse_payload.h"

namespace mlbench::compress {

Ef21Coder::Ef21Coder(double share, const CoderContext& context)
    : sent_(count_of(share, context.layout)),
      estimate_(at::zeros({context.layout.parameter_elements})),
      estimates_(at::zeros_like(estimate_)) {}

Payload Ef21Coder::encode(int /*round*/, const at::Tensor& gradient) {
  const at::Tensor difference = at::sub(gradient, estimate_);
  const std::vector<int32_t> indices = largest(values_of(difference), sent_);
  Payload payload = sparse_payload(difference, indices);
  add_elements(std::span(&payload.data, 1), estimate_);
  return payload;
}

void Ef21Coder::absorb(int /*round*/, std::span<const at::Tensor> results, at::Tensor& gradient) {
  add_elements(results, estimates_);
  gradient.copy_(estimates_);
}

void Ef21Coder::export_state(NamedState& state) const {
  export_values("coder/estimate", estimate_, state);
  export_values("coder/estimates", estimates_, state);
}

void Ef21Coder::import_state(const NamedState& state) {
  import_values("coder/estimate", state, estimate_);
  import_values("coder/estimates", state, estimates_);
}

}  // namespace mlbench::compress
