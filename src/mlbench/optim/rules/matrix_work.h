#pragma once

// Which rank computes which matrix, where a rule makes a direction into a step that needs all of the matrix.
//
//   replicated   every rank has all directions, and computes all matrices
//   owner        every rank has all directions; each matrix is computed by one rank, its owner, and an all-gather
//                brings the results to all (as in Jordan et al. 2024)
//   gather       every rank has its part of the directions (pattern "sharded"); an all-gather brings all directions to
//                all ranks, and each computes the matrices that its part has some of (Liu et al. 2025)
//   all_to_all   the same parts; an all-to-all brings each matrix to its owner, and a second one brings the results
//                back to the parts (Ahn et al. 2025)
//
// With one rank nothing is sent. Owners are chosen by the cost of Newton-Schulz steps, the largest matrices first, so
// that all have about as much to do. Bytes per rank and step, 4 for each element: owner, those of the matrices that the
// rank owns; gather, of what its part has of matrices; all_to_all, the sum of both.

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "mlbench/base/flat_layout.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/optim/flat_parts.h"

namespace mlbench::optim {

enum class MatrixWork { kReplicated, kOwner, kGather, kAllToAll };

// What a part has of a matrix.
struct MatrixPiece {
  size_t matrix = 0;
  int64_t offset = 0, count = 0;  // in the whole buffer
};

class DistributedMatrices {
 public:
  // `matrices` are the ranges of matrices in the whole buffer. `part` is what this rank has of it; empty: all. `comm`
  // may be null where there is one rank, and must outlive this. Throws UserError for kOwner with a part, and for
  // kGather and kAllToAll of several ranks without one.
  DistributedMatrices(MatrixWork work, FlatLayout matrices, const std::optional<FlatPart>& part,
                      comm::Communicator* comm);

  // Whether ranks work on parts.
  bool of_parts() const { return work_ == MatrixWork::kGather || work_ == MatrixWork::kAllToAll; }
  // Whether compute() is a collective of several ranks, and the bytes that this one hands to the transport.
  bool collective() const { return ranks_ > 1; }
  uint64_t bytes_per_step() const;
  // What this rank has of the matrices.
  std::span<const MatrixPiece> pieces() const { return pieces_[own_]; }
  // The place of a piece in this rank's part of a flat tensor.
  at::Tensor in_part(const at::Tensor& flat, const MatrixPiece& piece) const {
    return flat.narrow(0, piece.offset - base_, piece.count);
  }
  // `values` are what this rank has of all directions, as long as the part. On return, they are what it has of the
  // results, compute(matrix) of each matrix of directions.
  using Compute = std::function<at::Tensor(const at::Tensor& matrix)>;
  void compute(at::Tensor& values, const Compute& compute);

 private:
  void compute_owned(at::Tensor& whole, const Compute& compute) const;
  void gather_results(at::Tensor& whole) const;
  void gather_and_compute(at::Tensor& values, const Compute& compute);
  void send_to_owners(at::Tensor& values, const Compute& compute);
  // The pieces of rank `of` in matrices that `owner` has, in the order of matrices.
  std::vector<MatrixPiece> pieces_of(size_t of, size_t owner) const;

  MatrixWork work_;
  FlatLayout matrices_;
  comm::Communicator* comm_;
  size_t own_ = 0, ranks_ = 1;
  int64_t base_ = 0;
  std::vector<size_t> owners_;                    // of each matrix
  std::vector<std::vector<MatrixPiece>> pieces_;  // of each rank's part
  at::Tensor whole_;                              // directions or results of all matrices, where a rank has a part
};

}  // namespace mlbench::optim
