#include "mlbench/optim/rules/dion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/optim/rules/flat_state.h"
#include "mlbench/optim/rules/hidden_matrices.h"

namespace mlbench::optim {

namespace {

constexpr double kLeastColumn = 1e-8;  // added to the norms of columns
constexpr uint64_t kBasisKey = 250405295;
const std::string kDionMomentum = "optimizer/momentum";
const std::string kDionBasis = "optimizer/basis";

DionOptions checked_dion(DionOptions options) {
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    throw UserError(fmt::format("Dion: momentum is {}; expected 0 or more and less than 1", options.momentum));
  }
  if (!(options.rank_fraction > 0 && options.rank_fraction <= 1)) {
    throw UserError(fmt::format("Dion: rank_fraction is {}; expected above 0 and at most 1", options.rank_fraction));
  }
  options.adam.decoupled = true;
  options.adam.weight_decay = options.weight_decay;
  return options;
}

FlatLayout bases_of(const FlatLayout& matrices, double rank_fraction) {
  FlatLayout bases;
  for (const FlatRange& matrix : matrices.ranges) {
    const int64_t rows = matrix.shape[0], columns = matrix.count / rows;
    const auto rank = static_cast<int64_t>(std::ceil(rank_fraction * static_cast<double>(std::min(rows, columns))));
    bases.ranges.push_back({matrix.name, {columns, rank}, bases.parameter_elements, columns * rank});
    bases.parameter_elements += columns * rank;
  }
  return bases;
}

at::Tensor first_basis(int64_t elements, const SeparateMemory* memory) {
  at::Tensor drawn = at::empty({elements});
  RandomSequence random(kBasisKey);
  for (int64_t i = 0; i < elements; ++i) drawn.data_ptr<float>()[i] = static_cast<float>(random.normal());
  return drawn.to(options_beside(memory));
}

}  // namespace

DionRule::DionRule(const DionOptions& options, const FlatLayout& layout, SeparateMemory* memory)
    : options_(checked_dion(options)),
      memory_(memory),
      matrices_(hidden_matrices(layout)),
      others_(other_tensors(layout)),
      bases_(bases_of(matrices_, options.rank_fraction)),
      momentum_(at::zeros({layout.parameter_elements}, options_beside(memory))),
      basis_(first_basis(bases_.parameter_elements, memory)),
      adam_(options_.adam, others_, memory) {}

at::Tensor DionRule::step_of(const at::Tensor& weights, const at::Tensor& gradient, at::Tensor momentum,
                             at::Tensor basis, double lr) const {
  const at::Tensor shrunk = at::mul(weights, 1 - lr * options_.weight_decay);
  momentum.add_(gradient);  // B
  if (!momentum.any().item<bool>()) return shrunk;
  const at::Tensor product = at::mm(momentum, basis).to(at::kDouble);
  const at::Tensor p = std::get<0>(at::linalg_qr(product)).to(at::kFloat);
  const at::Tensor r = at::mm(momentum.t(), p);
  momentum.addmm_(p, r.t(), 1, options_.momentum - 1);
  basis.copy_(at::div(r, at::norm(r, 2, at::IntArrayRef{0}, true).add_(kLeastColumn)));
  const auto ratio = static_cast<double>(weights.size(0)) / static_cast<double>(weights.size(1));
  return at::addmm(shrunk, p, basis.t(), 1, -lr * std::sqrt(ratio));
}

// Adam goes over the whole flat buffer in one pass. So the matrices are computed before it, and written behind it.
void DionRule::update(FlatTensors& tensors, double lr, double gradient_scale) {
  std::vector<at::Tensor> updated;
  for (size_t i = 0; i < matrices_.ranges.size(); ++i) {
    const FlatRange& range = matrices_.ranges[i];
    const at::Tensor gradient = at::mul(matrix_in(tensors.gradients, range), gradient_scale);
    updated.push_back(step_of(matrix_in(tensors.parameters, range), gradient, matrix_in(momentum_, range),
                              matrix_in(basis_, bases_.ranges[i]), lr));
  }
  adam_.update(tensors, lr * options_.adam_rate, gradient_scale);
  for (size_t i = 0; i < updated.size(); ++i) {
    at::Tensor place = matrix_in(tensors.parameters, matrices_.ranges[i]);
    place.copy_(updated[i]);
  }
}

void DionRule::export_state(NamedState& state) const {
  adam_.export_state(state);
  export_flat(kDionMomentum, matrices_, momentum_, memory_, state);
  export_flat(kDionBasis, bases_, basis_, memory_, state);
}

void DionRule::import_state(const NamedState& state) {
  adam_.import_state(state);
  import_flat(kDionMomentum, matrices_, state, memory_, momentum_);
  import_flat(kDionBasis, bases_, state, memory_, basis_);
}

}  // namespace mlbench::optim
