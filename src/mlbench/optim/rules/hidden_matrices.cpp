#include "mlbench/optim/rules/hidden_matrices.h"

#include <vector>

namespace mlbench::optim {

namespace {

FlatLayout ranges_of(const FlatLayout& layout, bool hidden) {
  FlatLayout part;
  part.parameter_elements = layout.parameter_elements;
  for (const FlatRange& range : layout.ranges) {
    const bool is_hidden = range.use == TensorUse::kMatrix && range.shape.size() >= 2;
    if (range.trainable && is_hidden == hidden) part.ranges.push_back(range);
  }
  return part;
}

}  // namespace

FlatLayout hidden_matrices(const FlatLayout& layout) { return ranges_of(layout, true); }

FlatLayout other_tensors(const FlatLayout& layout) { return ranges_of(layout, false); }

at::Tensor matrix_in(const at::Tensor& flat, const FlatRange& range) {
  return flat.narrow(0, range.offset, range.count).view({range.shape[0], range.count / range.shape[0]});
}

// Adam goes over the whole flat buffer in one pass. So the matrices are computed before it, and written behind it.
void update_beside_adam(FlatTensors& tensors, const FlatLayout& matrices, double gradient_scale, AdamRule& adam,
                        double adam_lr, const NewWeights& new_weights) {
  std::vector<at::Tensor> updated;
  for (size_t i = 0; i < matrices.ranges.size(); ++i) {
    const FlatRange& range = matrices.ranges[i];
    const at::Tensor gradient = at::mul(matrix_in(tensors.gradients, range), gradient_scale);
    updated.push_back(new_weights(i, matrix_in(tensors.parameters, range), gradient));
  }
  adam.update(tensors, adam_lr, gradient_scale);
  for (size_t i = 0; i < updated.size(); ++i) {
    at::Tensor place = matrix_in(tensors.parameters, matrices.ranges[i]);
    place.copy_(updated[i]);
  }
}

}  // namespace mlbench::optim
