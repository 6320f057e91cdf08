#include "mlbench/optim/rules/muon.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/optim/rules/flat_state.h"
#include "mlbench/optim/rules/hidden_matrices.h"

namespace mlbench::optim {

namespace {

constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr double kLeastNorm = 1e-7;
const std::string kMuonMomentum = "optimizer/momentum";

MuonOptions checked(MuonOptions options) {
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    throw UserError(fmt::format("Muon: momentum is {}; expected 0 or more and less than 1", options.momentum));
  }
  options.adam.decoupled = true;
  options.adam.weight_decay = options.weight_decay;
  return options;
}

}  // namespace

at::Tensor orthogonalised(const at::Tensor& matrix, int64_t steps) {
  const bool transposed = matrix.size(0) > matrix.size(1);
  at::Tensor x = transposed ? matrix.t() : matrix;
  const double norm = matrix.to(at::kDouble).norm().item<double>();
  x = x.div(std::max(norm, kLeastNorm));
  for (int64_t step = 0; step < steps; ++step) {
    const at::Tensor gram = at::mm(x, x.t());
    const at::Tensor polynomial = at::mul(gram, kB).add_(at::mm(gram, gram), kC);
    x = at::mul(x, kA).add_(at::mm(polynomial, x));
  }
  return transposed ? x.t().contiguous() : x;
}

MuonRule::MuonRule(const MuonOptions& options, const FlatLayout& layout, SeparateMemory* memory)
    : options_(checked(options)),
      memory_(memory),
      matrices_(hidden_matrices(layout)),
      others_(other_tensors(layout)),
      momentum_(at::zeros({layout.parameter_elements}, options_beside(memory))),
      adam_(options_.adam, others_, memory) {}

at::Tensor MuonRule::step_of(const at::Tensor& weights, const at::Tensor& gradient, at::Tensor momentum,
                             double lr) const {
  const int64_t rows = weights.size(0), columns = weights.size(1);
  momentum.mul_(options_.momentum).add_(gradient, 1 - options_.momentum);
  const at::Tensor direction =
      options_.nesterov ? at::mul(momentum, options_.momentum).add_(gradient, 1 - options_.momentum) : momentum;
  const auto ratio = static_cast<double>(rows) / static_cast<double>(columns);
  const double scale = options_.match_rms_adamw ? 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)))
                                                : std::sqrt(std::max(1.0, ratio));
  return at::mul(weights, 1 - lr * options_.weight_decay)
      .sub_(orthogonalised(direction, options_.newton_schulz_steps), lr * scale);
}

void MuonRule::update(FlatTensors& tensors, double lr, double gradient_scale) {
  update_beside_adam(tensors, matrices_, gradient_scale, adam_, lr * options_.adam_rate,
                     [&](size_t i, const at::Tensor& weights, const at::Tensor& gradient) {
                       return step_of(weights, gradient, matrix_in(momentum_, matrices_.ranges[i]), lr);
                     });
}

void MuonRule::export_state(NamedState& state) const {
  adam_.export_state(state);
  export_flat(kMuonMomentum, matrices_, momentum_, memory_, state);
}

void MuonRule::import_state(const NamedState& state) {
  adam_.import_state(state);
  import_flat(kMuonMomentum, matrices_, state, memory_, momentum_);
}

}  // namespace mlbench::optim
