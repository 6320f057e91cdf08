#include "mlbench/optim/rules/hidden_matrices.h"

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

}  // namespace mlbench::optim
