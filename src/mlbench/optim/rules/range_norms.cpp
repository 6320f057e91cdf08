#include "mlbench/optim/rules/range_norms.h"

#include <cmath>

#include "mlbench/optim/gradient_norm.h"

namespace mlbench::optim {

std::vector<double> range_norms(const at::Tensor& flat, const FlatLayout& layout) {
  std::vector<double> norms(layout.ranges.size(), 0);
  if (flat.is_cpu()) {
    for (size_t i = 0; i < norms.size(); ++i) {
      const FlatRange& range = layout.ranges[i];
      if (!range.trainable) continue;
      FlatLayout alone;
      alone.ranges = {range};
      norms[i] = std::sqrt(sum_of_squares(flat.const_data_ptr<float>(), alone));
    }
    return norms;
  }
  std::vector<at::Tensor> squares;
  for (const FlatRange& range : layout.ranges) {
    if (range.trainable) squares.push_back(flat.narrow(0, range.offset, range.count).to(at::kDouble).square_().sum());
  }
  const at::Tensor host = at::stack(squares).sqrt_().to(at::kCPU);
  int64_t next = 0;
  for (size_t i = 0; i < norms.size(); ++i) {
    if (layout.ranges[i].trainable) norms[i] = host[next++].item<double>();
  }
  return norms;
}

}  // namespace mlbench::optim
