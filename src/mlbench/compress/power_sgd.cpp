#include "mlbench/compress/power_sgd.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mlbench/base/random.h"
#include "mlbench/compress/flat_values.h"

namespace mlbench::compress {

namespace {

constexpr const char* kQ = "coder/q";
constexpr const char* kPowerSteps = "coder/steps";
constexpr double kTiny = 1e-8;  // added to the norms of columns, so that a zero column stays zero

// Columns of length 1 at right angles to each other, by modified Gram-Schmidt in float64: few columns, and the same
// bits for every number of threads.
void orthogonalise(at::Tensor matrix) {
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  at::Tensor exact = matrix.to(at::kDouble).t().contiguous();  // one row per column
  auto* data = exact.data_ptr<double>();
  for (int64_t c = 0; c < columns; ++c) {
    double* column = data + c * rows;
    double square = 0;
    for (int64_t i = 0; i < rows; ++i) square += column[i] * column[i];
    const double norm = std::sqrt(square) + kTiny;
    for (int64_t i = 0; i < rows; ++i) column[i] /= norm;
    for (int64_t next = c + 1; next < columns; ++next) {
      double* other = data + next * rows;
      double product = 0;
      for (int64_t i = 0; i < rows; ++i) product += column[i] * other[i];
      for (int64_t i = 0; i < rows; ++i) other[i] -= product * column[i];
    }
  }
  matrix.copy_(exact.t());
}

}  // namespace

PowerSgdCoder::PowerSgdCoder(const PowerSgdOptions& options, const CoderContext& context)
    : options_(options), seed_(context.seed), memory_(name(), context.layout, options.error_feedback) {
  all_elements_ = context.layout.parameter_count();
  for (const FlatRange& range : context.layout.ranges) {
    if (!range.trainable) continue;
    Matrix matrix;
    if (range.shape.size() >= 2 && range.count > 0) {
      matrix.offset = range.offset;
      matrix.rows = range.shape[0];
      matrix.columns = range.count / range.shape[0];
      matrix.rank = std::min({matrix.rows, matrix.columns, options.rank});
    }
    const auto compressed = static_cast<double>((matrix.rows + matrix.columns) * matrix.rank);
    if (matrix.rank == 0 || compressed * options.min_compression >= static_cast<double>(range.count)) {
      plain_.push_back({range.offset, range.count, plain_elements_});
      plain_elements_ += range.count;
      continue;
    }
    matrix.p = p_elements_;
    matrix.q = q_elements_;
    p_elements_ += matrix.rows * matrix.rank;
    q_elements_ += matrix.columns * matrix.rank;
    matrices_.push_back(matrix);
  }
  q_ = at::zeros({q_elements_});
}

std::optional<uint64_t> PowerSgdCoder::bytes_per_step() const {
  if (options_.start_step > 0) return std::nullopt;
  return static_cast<uint64_t>(p_elements_ + q_elements_ + plain_elements_) * sizeof(float);
}

at::Tensor PowerSgdCoder::matrix_in(const at::Tensor& flat, const Matrix& matrix) const {
  return flat.narrow(0, matrix.offset, matrix.rows * matrix.columns).view({matrix.rows, matrix.columns});
}
at::Tensor PowerSgdCoder::p_of(const at::Tensor& all, const Matrix& matrix) const {
  return all.narrow(0, matrix.p, matrix.rows * matrix.rank).view({matrix.rows, matrix.rank});
}
at::Tensor PowerSgdCoder::q_of(const at::Tensor& all, const Matrix& matrix) const {
  return all.narrow(0, matrix.q, matrix.columns * matrix.rank).view({matrix.columns, matrix.rank});
}

void PowerSgdCoder::draw_q() {
  RandomSequence random(derive_key(seed_, {kCoderStream, static_cast<uint64_t>(step_.step)}));
  auto* values = q_.data_ptr<float>();
  for (int64_t i = 0; i < q_elements_; ++i) values[i] = static_cast<float>(random.normal());
  for (const Matrix& matrix : matrices_) orthogonalise(q_of(q_, matrix));
}

Payload PowerSgdCoder::encode(int round, const at::Tensor& gradient) {
  Payload payload;
  payload.kind = PayloadKind::kSum;
  if (!compresses()) {
    payload.data = round == 0 ? gradient : at::empty({0});
    payload.bytes = round == 0 ? static_cast<uint64_t>(all_elements_) * sizeof(float) : 0;
    return payload;
  }
  if (round == 0) {
    if (!options_.warm_start || steps_ == 0) draw_q();
    corrected_ = memory_.enabled() ? at::add(gradient, memory_.values()) : gradient.clone();
    payload.data = at::empty({p_elements_ + plain_elements_});
    for (const Matrix& matrix : matrices_) {
      at::Tensor p = p_of(payload.data, matrix);
      at::mm_out(p, matrix_in(corrected_, matrix), q_of(q_, matrix));
    }
    for (const Plain& plain : plain_) {
      payload.data.narrow(0, p_elements_ + plain.payload, plain.count)
          .copy_(corrected_.narrow(0, plain.offset, plain.count));
    }
  } else {
    payload.data = at::empty({q_elements_});
    for (const Matrix& matrix : matrices_) {
      at::Tensor q = q_of(payload.data, matrix);
      at::mm_out(q, matrix_in(corrected_, matrix).t(), p_of(p_, matrix));
    }
  }
  payload.bytes = static_cast<uint64_t>(payload.data.numel()) * sizeof(float);
  return payload;
}

void PowerSgdCoder::absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) {
  if (!compresses()) {
    if (round == 0 && !results[0].is_same(gradient)) gradient.copy_(results[0]);
    return;
  }
  if (round == 0) {
    p_ = results[0].narrow(0, 0, p_elements_).clone();
    for (const Matrix& matrix : matrices_) orthogonalise(p_of(p_, matrix));
    for (const Plain& plain : plain_) {
      gradient.narrow(0, plain.offset, plain.count)
          .copy_(results[0].narrow(0, p_elements_ + plain.payload, plain.count));
    }
    return;
  }
  ++steps_;
  q_.copy_(results[0]);
  at::Tensor& kept = memory_.values();
  for (const Matrix& matrix : matrices_) {
    at::Tensor sum = matrix_in(gradient, matrix);
    at::mm_out(sum, p_of(p_, matrix), q_of(q_, matrix).t());
    if (memory_.enabled()) {
      at::Tensor error = matrix_in(kept, matrix);
      at::sub_out(error, matrix_in(corrected_, matrix), sum, step_.share);
    }
  }
}

void PowerSgdCoder::export_state(NamedState& state) const {
  memory_.export_state(state);
  if (!options_.warm_start) return;
  export_values(kQ, q_, state);
  state.scalars[kPowerSteps] = steps_;
}

void PowerSgdCoder::import_state(const NamedState& state) {
  memory_.import_state(state);
  if (!options_.warm_start) return;
  import_values(kQ, state, q_);
  steps_ = state.integer(kPowerSteps);
}

}  // namespace mlbench::compress
