#pragma once

// What coders of low rank have in common: how a flat gradient is divided into matrices, with the two factors of each,
// and the rest, which is sent as it is.

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "mlbench/base/flat_layout.h"
#include "mlbench/compress/coder.h"

namespace mlbench::compress {

// Makes the columns of a float32 matrix have length 1 and stand at right angles to each other; a column of zeros stays.
void orthogonalise(at::Tensor matrix);

// A flat gradient as one square matrix: its tensors back to back, row by row, and zeros behind them. Of n elements the
// matrix has ceil(sqrt(n)) rows.
class SquareBatch {
 public:
  explicit SquareBatch(const FlatLayout& layout);
  // That of the matrix.
  FlatLayout layout() const;
  // The matrix, flat.
  at::Tensor from(const at::Tensor& gradient) const;
  // Puts its elements where the gradient has them; those behind the tensors are dropped.
  void put(const at::Tensor& matrix, at::Tensor& gradient) const;

 private:
  std::vector<FlatRange> tensors_;
  int64_t side_ = 0;
};

class LowRankParts {
 public:
  // M is `rows` x `columns` from `offset` of the flat gradient; P and Q begin at `p` and `q` of theirs.
  struct Matrix {
    int64_t offset = 0, rows = 0, columns = 0, rank = 0, p = 0, q = 0;
  };

  // A tensor of at least two dimensions is a matrix of its first dimension x all else. Its rank r is min(rows, columns,
  // rank). Sent as they are: vectors, and matrices with (rows + columns) * r * min_compression >= rows * columns.
  LowRankParts(const FlatLayout& layout, int64_t rank, double min_compression);

  const std::vector<Matrix>& matrices() const { return matrices_; }
  // How many elements the factors of all matrices have (P, Q), and how many the tensors that are sent as they are.
  int64_t p_elements() const { return p_elements_; }
  int64_t q_elements() const { return q_elements_; }
  int64_t plain_elements() const { return plain_elements_; }

  // Views: M of a flat gradient; P (rows x rank) and Q (columns x rank) of the factors of all matrices.
  static at::Tensor matrix_in(const at::Tensor& flat, const Matrix& matrix);
  static at::Tensor p_of(const at::Tensor& all, const Matrix& matrix);
  static at::Tensor q_of(const at::Tensor& all, const Matrix& matrix);

  // All Q, drawn from (seed, step), with orthogonal columns: the same on all ranks.
  at::Tensor drawn_q(uint64_t seed, int64_t step) const;
  // A payload, to be summed, of so many elements of factors, which are the caller's to set. Behind them lies what of
  // `flat` is sent as it is.
  Payload payload_of(int64_t factor_elements, const at::Tensor& flat) const;
  // From the sum of such payloads into `flat`.
  void take_plain(int64_t factor_elements, const at::Tensor& payload, at::Tensor& flat) const;
  // Sets the matrices of `flat` to P Q^T.
  void put_products(const at::Tensor& all_p, const at::Tensor& all_q, at::Tensor& flat) const;
  // Sets what is sent as it is to zero.
  void clear_plain(at::Tensor& flat) const;
  // The payload of a step that compresses nothing of so many elements, and what its sum does to the gradient.
  static Payload whole_payload(const at::Tensor& gradient, int64_t elements);
  static void take_whole(const at::Tensor& payload, at::Tensor& gradient);

 private:
  struct Plain {
    int64_t offset = 0, count = 0, payload = 0;  // behind the factors
  };

  std::vector<Matrix> matrices_;
  std::vector<Plain> plain_;
  int64_t p_elements_ = 0, q_elements_ = 0, plain_elements_ = 0;
};

}  // namespace mlbench::compress
