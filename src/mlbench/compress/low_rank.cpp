#include "mlbench/compress/low_rank.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "mlbench/base/random.h"

namespace mlbench::compress {

namespace {

constexpr double kTiny = 1e-8;  // added to the norms of columns, so that a zero column stays zero

}  // namespace

// By modified Gram-Schmidt in float64: few columns, and the same bits for every number of threads.
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

SquareBatch::SquareBatch(const FlatLayout& layout)
    : side_(static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(layout.parameter_count()))))) {
  std::ranges::copy_if(layout.ranges, std::back_inserter(tensors_), &FlatRange::trainable);
}

FlatLayout SquareBatch::layout() const {
  const int64_t elements = side_ * side_;
  return {.ranges = {{"batch", {side_, side_}, 0, elements}}, .parameter_elements = elements};
}

at::Tensor SquareBatch::from(const at::Tensor& gradient) const {
  at::Tensor matrix = at::zeros({side_ * side_});
  int64_t done = 0;
  for (const FlatRange& tensor : tensors_) {
    matrix.narrow(0, done, tensor.count).copy_(gradient.narrow(0, tensor.offset, tensor.count));
    done += tensor.count;
  }
  return matrix;
}

void SquareBatch::put(const at::Tensor& matrix, at::Tensor& gradient) const {
  int64_t done = 0;
  for (const FlatRange& tensor : tensors_) {
    gradient.narrow(0, tensor.offset, tensor.count).copy_(matrix.narrow(0, done, tensor.count));
    done += tensor.count;
  }
}

LowRankParts::LowRankParts(const FlatLayout& layout, int64_t rank, double min_compression) {
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    Matrix matrix;
    if (range.shape.size() >= 2 && range.count > 0) {
      matrix.offset = range.offset;
      matrix.rows = range.shape[0];
      matrix.columns = range.count / range.shape[0];
      matrix.rank = std::min({matrix.rows, matrix.columns, rank});
    }
    const auto compressed = static_cast<double>((matrix.rows + matrix.columns) * matrix.rank);
    if (matrix.rank == 0 || compressed * min_compression >= static_cast<double>(range.count)) {
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
}

at::Tensor LowRankParts::matrix_in(const at::Tensor& flat, const Matrix& matrix) {
  return flat.narrow(0, matrix.offset, matrix.rows * matrix.columns).view({matrix.rows, matrix.columns});
}
at::Tensor LowRankParts::p_of(const at::Tensor& all, const Matrix& matrix) {
  return all.narrow(0, matrix.p, matrix.rows * matrix.rank).view({matrix.rows, matrix.rank});
}
at::Tensor LowRankParts::q_of(const at::Tensor& all, const Matrix& matrix) {
  return all.narrow(0, matrix.q, matrix.columns * matrix.rank).view({matrix.columns, matrix.rank});
}

at::Tensor LowRankParts::drawn_q(uint64_t seed, int64_t step) const {
  at::Tensor all = at::empty({q_elements_});
  RandomSequence random(derive_key(seed, {kCoderStream, static_cast<uint64_t>(step)}));
  auto* values = all.data_ptr<float>();
  for (int64_t i = 0; i < q_elements_; ++i) values[i] = static_cast<float>(random.normal());
  for (const Matrix& matrix : matrices_) orthogonalise(q_of(all, matrix));
  return all;
}

Payload LowRankParts::payload_of(int64_t factor_elements, const at::Tensor& flat) const {
  Payload payload;
  payload.kind = PayloadKind::kSum;
  payload.data = at::empty({factor_elements + plain_elements_});
  payload.bytes = payload.data.nbytes();
  for (const Plain& plain : plain_) {
    payload.data.narrow(0, factor_elements + plain.payload, plain.count)
        .copy_(flat.narrow(0, plain.offset, plain.count));
  }
  return payload;
}

void LowRankParts::take_plain(int64_t factor_elements, const at::Tensor& payload, at::Tensor& flat) const {
  for (const Plain& plain : plain_) {
    flat.narrow(0, plain.offset, plain.count).copy_(payload.narrow(0, factor_elements + plain.payload, plain.count));
  }
}

void LowRankParts::put_products(const at::Tensor& all_p, const at::Tensor& all_q, at::Tensor& flat) const {
  for (const Matrix& matrix : matrices_) {
    at::Tensor product = matrix_in(flat, matrix);
    at::mm_out(product, p_of(all_p, matrix), q_of(all_q, matrix).t());
  }
}

void LowRankParts::clear_plain(at::Tensor& flat) const {
  for (const Plain& plain : plain_) flat.narrow(0, plain.offset, plain.count).zero_();
}

Payload LowRankParts::whole_payload(const at::Tensor& gradient, int64_t elements) {
  Payload payload;
  payload.kind = PayloadKind::kSum;
  payload.data = gradient;
  payload.bytes = static_cast<uint64_t>(elements) * sizeof(float);
  return payload;
}

void LowRankParts::take_whole(const at::Tensor& payload, at::Tensor& gradient) {
  if (!payload.is_same(gradient)) gradient.copy_(payload);
}

}  // namespace mlbench::compress
