#include "mlbench/optim/rules/matrix_work.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/optim/exchange/combine.h"
#include "mlbench/optim/rules/hidden_matrices.h"

namespace mlbench::optim {

namespace {

// Multiplications of a Newton-Schulz step of m x n, m <= n: m m n, m m m and m m n.
double cost_of(const FlatRange& range) {
  const int64_t rows = range.shape.front(), columns = range.count / rows;
  const auto m = static_cast<double>(std::min(rows, columns)), n = static_cast<double>(std::max(rows, columns));
  return m * m * (2 * n + m);
}

// Each matrix, the most expensive first, goes to the rank that has the least to do.
std::vector<size_t> choose_owners(const FlatLayout& matrices, size_t ranks) {
  std::vector<size_t> order(matrices.ranges.size()), owners(order.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return cost_of(matrices.ranges[i]); });
  std::vector<double> work(ranks);
  for (const size_t matrix : order) {
    const auto least = std::ranges::min_element(work);
    owners[matrix] = static_cast<size_t>(least - work.begin());
    *least += cost_of(matrices.ranges[matrix]);
  }
  return owners;
}

std::vector<MatrixPiece> cut(const FlatLayout& matrices, const FlatPart& part) {
  std::vector<MatrixPiece> pieces;
  for (size_t matrix = 0; matrix < matrices.ranges.size(); ++matrix) {
    const FlatRange& range = matrices.ranges[matrix];
    const int64_t begin = std::max(range.offset, part.offset);
    const int64_t end = std::min(range.offset + range.count, part.offset + part.count);
    if (begin < end) pieces.push_back({matrix, begin, end - begin});
  }
  return pieces;
}

int64_t elements_of(std::span<const MatrixPiece> pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), int64_t{0},
                         [](int64_t sum, const MatrixPiece& piece) { return sum + piece.count; });
}

// Copies between pieces of a flat tensor that begins at the element `base` of the whole buffer, and packed values.
void pack(const at::Tensor& flat, int64_t base, std::span<const MatrixPiece> pieces, const at::Tensor& packed) {
  int64_t first = 0;
  for (const MatrixPiece& piece : pieces) {
    packed.narrow(0, first, piece.count).copy_(flat.narrow(0, piece.offset - base, piece.count));
    first += piece.count;
  }
}

void unpack(const at::Tensor& packed, std::span<const MatrixPiece> pieces, const at::Tensor& flat, int64_t base) {
  int64_t first = 0;
  for (const MatrixPiece& piece : pieces) {
    flat.narrow(0, piece.offset - base, piece.count).copy_(packed.narrow(0, first, piece.count));
    first += piece.count;
  }
}

void append(std::vector<MatrixPiece>& all, const std::vector<MatrixPiece>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

DistributedMatrices::DistributedMatrices(MatrixWork work, FlatLayout matrices, const std::optional<FlatPart>& part,
                                         comm::Communicator* comm)
    : work_(work), matrices_(std::move(matrices)), comm_(comm) {
  if (comm != nullptr && work != MatrixWork::kReplicated) {
    own_ = static_cast<size_t>(comm->rank());
    ranks_ = static_cast<size_t>(comm->size());
  }
  if (work == MatrixWork::kOwner && part) {
    throw UserError(
        "orthogonalise \"owner\" where ranks have a part of the gradient each; expected gather or all_to_all");
  }
  if (of_parts() && ranks_ > 1 && !part) {
    throw UserError(
        "orthogonalise \"gather\" or \"all_to_all\" where each rank has the whole gradient; expected the pattern "
        "sharded, or owner");
  }
  const int64_t elements = matrices_.parameter_elements;
  if (of_parts() && ranks_ > 1 && *part != part_of_rank(elements, comm->rank(), comm->size())) {
    throw UserError(
        "orthogonalise \"gather\" or \"all_to_all\" where not all ranks have equal parts of the gradient; expected the "
        "pattern sharded, or server with as many servers as ranks");
  }
  for (size_t rank = 0; rank < ranks_; ++rank) {
    const FlatPart whole{0, elements};
    pieces_.push_back(
        cut(matrices_, of_parts() ? part_of_rank(elements, static_cast<int>(rank), static_cast<int>(ranks_)) : whole));
  }
  if (part && ranks_ > 1) base_ = part->offset;
  owners_ = choose_owners(matrices_, ranks_);
  if (of_parts() && ranks_ > 1) whole_ = at::zeros({elements});
}

std::vector<MatrixPiece> DistributedMatrices::pieces_of(size_t of, size_t owner) const {
  std::vector<MatrixPiece> pieces;
  for (const MatrixPiece& piece : pieces_[of]) {
    if (owners_[piece.matrix] == owner) pieces.push_back(piece);
  }
  return pieces;
}

uint64_t DistributedMatrices::bytes_per_step() const {
  if (ranks_ == 1) return 0;
  int64_t owned = 0;
  for (size_t matrix = 0; matrix < owners_.size(); ++matrix) {
    if (owners_[matrix] == own_) owned += matrices_.ranges[matrix].count;
  }
  int64_t sent = 0;
  if (work_ != MatrixWork::kGather) sent += owned;
  if (of_parts()) sent += elements_of(pieces());
  return static_cast<uint64_t>(sent) * sizeof(float);
}

void DistributedMatrices::compute_owned(at::Tensor& whole, const Compute& compute) const {
  for (size_t matrix = 0; matrix < owners_.size(); ++matrix) {
    if (owners_[matrix] != own_) continue;
    at::Tensor place = matrix_in(whole, matrices_.ranges[matrix]);
    place.copy_(compute(place));
  }
}

void DistributedMatrices::gather_results(at::Tensor& whole) const {
  std::vector<int64_t> counts;
  std::vector<MatrixPiece> all;
  for (size_t rank = 0; rank < ranks_; ++rank) {
    const std::vector<MatrixPiece> owned = pieces_of(own_, rank);  // this rank has all of each matrix
    counts.push_back(elements_of(owned));
    append(all, owned);
  }
  const at::Tensor sent = at::empty({counts[own_]}), received = at::empty({elements_of(all)});
  pack(whole, 0, pieces_of(own_, own_), sent);
  comm_->all_gather_v(view_of(sent), view_of(received), counts);
  unpack(received, all, whole, 0);
}

void DistributedMatrices::gather_and_compute(at::Tensor& values, const Compute& compute) {
  std::vector<int64_t> counts;
  std::vector<MatrixPiece> all;
  for (const std::vector<MatrixPiece>& of_rank : pieces_) {
    counts.push_back(elements_of(of_rank));
    append(all, of_rank);
  }
  const at::Tensor sent = at::empty({counts[own_]}), received = at::empty({elements_of(all)});
  pack(values, base_, pieces(), sent);
  comm_->all_gather_v(view_of(sent), view_of(received), counts);
  unpack(received, all, whole_, 0);
  for (const MatrixPiece& piece : pieces()) {
    at::Tensor place = matrix_in(whole_, matrices_.ranges[piece.matrix]);
    place.copy_(compute(place));
    in_part(values, piece).copy_(whole_.narrow(0, piece.offset, piece.count));
  }
}

void DistributedMatrices::send_to_owners(at::Tensor& values, const Compute& compute) {
  std::vector<int64_t> to_owners, from_parts;
  std::vector<MatrixPiece> given, taken;
  for (size_t rank = 0; rank < ranks_; ++rank) {
    const std::vector<MatrixPiece> out = pieces_of(own_, rank), in = pieces_of(rank, own_);
    to_owners.push_back(elements_of(out));
    from_parts.push_back(elements_of(in));
    append(given, out);
    append(taken, in);
  }
  const at::Tensor own = at::empty({elements_of(given)}), owned = at::empty({elements_of(taken)});
  pack(values, base_, given, own);
  comm_->all_to_all_v(view_of(own), view_of(owned), to_owners, from_parts);
  unpack(owned, taken, whole_, 0);
  compute_owned(whole_, compute);
  pack(whole_, 0, taken, owned);
  comm_->all_to_all_v(view_of(owned), view_of(own), from_parts, to_owners);
  unpack(own, given, values, base_);
}

void DistributedMatrices::compute(at::Tensor& values, const Compute& compute) {
  if (ranks_ == 1) return compute_owned(values, compute);
  switch (work_) {
    case MatrixWork::kReplicated:
      return;  // has one rank
    case MatrixWork::kOwner:
      compute_owned(values, compute);
      return gather_results(values);
    case MatrixWork::kGather:
      return gather_and_compute(values, compute);
    case MatrixWork::kAllToAll:
      return send_to_owners(values, compute);
  }
}

}  // namespace mlbench::optim
