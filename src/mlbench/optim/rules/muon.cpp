#include "mlbench/optim/rules/muon.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

namespace {

FlatLayout part_of(const FlatLayout& layout, const std::optional<FlatPart>& part) {
  return part ? vectors_of_part(layout, *part) : layout;
}

}  // namespace

MuonRule::MuonRule(const MuonOptions& options, const FlatLayout& layout, SeparateMemory* memory,
                   const MatrixDistribution& distribution)
    : options_(checked(options)),
      memory_(memory),
      matrices_(hidden_matrices(layout)),
      own_(part_of(matrices_, distribution.part)),
      others_(part_of(other_tensors(layout), distribution.part)),
      work_(distribution.work, matrices_, distribution.part, distribution.comm),
      momentum_(at::zeros({own_.parameter_elements}, options_beside(memory))),
      values_(at::zeros_like(momentum_)),
      adam_(options_.adam, others_, memory) {}

double MuonRule::scale_of(const FlatRange& matrix) const {
  const auto rows = static_cast<double>(matrix.shape.front());
  const double columns = static_cast<double>(matrix.count) / rows;
  return options_.match_rms_adamw ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
}

// Adam goes over the whole flat buffer in one pass. So the matrices are computed before it, and written behind it.
void MuonRule::update(FlatTensors& tensors, double lr, double gradient_scale) {
  for (const MatrixPiece& piece : work_.pieces()) {
    const at::Tensor gradient = at::mul(work_.in_part(tensors.gradients, piece), gradient_scale);
    at::Tensor momentum = work_.in_part(momentum_, piece), direction = work_.in_part(values_, piece);
    momentum.mul_(options_.momentum).add_(gradient, 1 - options_.momentum);
    direction.copy_(momentum);
    if (options_.nesterov) direction.mul_(options_.momentum).add_(gradient, 1 - options_.momentum);
  }
  work_.compute(values_,
                [&](const at::Tensor& direction) { return orthogonalised(direction, options_.newton_schulz_steps); });
  for (const MatrixPiece& piece : work_.pieces()) {
    at::Tensor value = work_.in_part(values_, piece);
    const at::Tensor weights = work_.in_part(tensors.parameters, piece);
    value.copy_(
        at::mul(weights, 1 - lr * options_.weight_decay).sub_(value, lr * scale_of(matrices_.ranges[piece.matrix])));
  }
  adam_.update(tensors, lr * options_.adam_rate, gradient_scale);
  for (const MatrixPiece& piece : work_.pieces()) {
    work_.in_part(tensors.parameters, piece).copy_(work_.in_part(values_, piece));
  }
}

void MuonRule::export_state(NamedState& state) const {
  adam_.export_state(state);
  export_flat(kMuonMomentum, own_, momentum_, memory_, state);
}

void MuonRule::import_state(const NamedState& state) {
  adam_.import_state(state);
  import_flat(kMuonMomentum, own_, state, memory_, momentum_);
}

}  // namespace mlbench::optim
