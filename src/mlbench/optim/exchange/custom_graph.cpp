#include "mlbench/optim/exchange/custom_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/text.h"

namespace mlbench::optim {

namespace {

constexpr double kSumTolerance = 1e-6;
constexpr Range kWeightRange{0, 1};

// Element [i][j] says whether rank i receives from rank j.
using Receives = std::vector<std::vector<bool>>;

int rank_of(const std::string& text, const std::string& edge, int size) {
  const Range ranks{0, static_cast<double>(size - 1)};
  return static_cast<int>(parse_count(trimmed(text), "a rank of the edge '" + trimmed(edge) + "'", ranks));
}

Receives read_edges(const std::string& edges, bool directed, int size) {
  Receives receives(static_cast<size_t>(size), std::vector<bool>(static_cast<size_t>(size)));
  for (const std::string& edge : split_at(edges, ',')) {
    const bool one_way = directed && edge.find('>') != std::string::npos;
    const std::vector<std::string> ends = split_at(edge, one_way ? '>' : '-');
    if (ends.size() != 2) {
      throw UserError(fmt::format("edge '{}'; expected two ranks such as 0-1{}", shortened(trimmed(edge)),
                                  directed ? ", or 0>1 for one direction" : ""));
    }
    const int from = rank_of(ends[0], edge, size), to = rank_of(ends[1], edge, size);
    if (from == to) throw UserError(fmt::format("edge '{}' joins a rank to itself", trimmed(edge)));
    receives[static_cast<size_t>(to)][static_cast<size_t>(from)] = true;
    if (!one_way) receives[static_cast<size_t>(from)][static_cast<size_t>(to)] = true;
  }
  return receives;
}

at::Tensor zero_matrix(int size) { return at::zeros({size, size}, at::kDouble); }

at::Tensor metropolis_weights(const Receives& receives) {
  const auto size = static_cast<int>(receives.size());
  at::Tensor matrix = zero_matrix(size);
  auto weights = matrix.accessor<double, 2>();
  const auto degree = [&](int rank) { return std::ranges::count(receives[static_cast<size_t>(rank)], true); };
  for (int i = 0; i < size; ++i) {
    double others = 0;
    for (int j = 0; j < size; ++j) {
      if (!receives[static_cast<size_t>(i)][static_cast<size_t>(j)]) continue;
      weights[i][j] = 1 / static_cast<double>(1 + std::max(degree(i), degree(j)));
      others += weights[i][j];
    }
    weights[i][i] = 1 - others;
  }
  return matrix;
}

at::Tensor even_shares(const Receives& receives) {
  const auto size = static_cast<int>(receives.size());
  at::Tensor matrix = zero_matrix(size);
  auto weights = matrix.accessor<double, 2>();
  for (int j = 0; j < size; ++j) {
    const auto takes = [&](int i) { return i == j || receives[static_cast<size_t>(i)][static_cast<size_t>(j)]; };
    int shares = 0;
    for (int i = 0; i < size; ++i) shares += takes(i) ? 1 : 0;
    for (int i = 0; i < size; ++i) weights[i][j] = takes(i) ? 1 / static_cast<double>(shares) : 0;
  }
  return matrix;
}

at::Tensor read_matrix(const std::string& text, int size) {
  const std::vector<std::string> rows = split_at(text, ';');
  if (std::ssize(rows) != size) {
    throw UserError(
        fmt::format("weights has {} for {}; expected a row of {} numbers for each rank, such as "
                    "\"0.5 0.5; 0.5 0.5\" for two",
                    counted(std::ssize(rows), "row"), counted(size, "rank"), size));
  }
  at::Tensor matrix = zero_matrix(size);
  auto weights = matrix.accessor<double, 2>();
  for (int i = 0; i < size; ++i) {
    const std::vector<std::string> row = split_words(rows[static_cast<size_t>(i)]);
    if (std::ssize(row) != size) {
      throw UserError(fmt::format("row {} of weights has {}; expected {}, one for each rank", i,
                                  counted(std::ssize(row), "number"), size));
    }
    for (int j = 0; j < size; ++j) {
      weights[i][j] = parse_real(row[static_cast<size_t>(j)], fmt::format("row {} of weights", i), kWeightRange);
    }
  }
  return matrix;
}

void check_sums(const at::Tensor& matrix, int64_t summed, const char* what) {
  const at::Tensor sums = matrix.sum(summed);
  for (int64_t i = 0; i < sums.numel(); ++i) {
    const auto sum = sums[i].item<double>();
    if (std::abs(sum - 1) > kSumTolerance) {
      throw UserError(fmt::format("{} {} of weights sums to {:g}; expected 1", what, i, sum));
    }
  }
}

void check_demand(const at::Tensor& matrix, MixingDemand demand) {
  if (demand != MixingDemand::kColumnStochastic) check_sums(matrix, 1, "row");
  check_sums(matrix, 0, "column");
  if (demand != MixingDemand::kSymmetric) return;
  auto weights = matrix.accessor<double, 2>();
  for (int64_t i = 0; i < matrix.size(0); ++i) {
    for (int64_t j = 0; j < i; ++j) {
      if (weights[i][j] == weights[j][i]) continue;
      throw UserError(
          fmt::format("weights has {} at row {}, column {}, but {} at row {}, column {}; expected a "
                      "symmetric matrix",
                      weights[i][j], i, j, weights[j][i], j, i));
    }
  }
}

// All ranks come together if and only if some power of W has no zero, and that of (k - 1)^2 + 1 is such a one (Wielandt
// 1950), as are all above it.
void check_brings_together(const at::Tensor& matrix) {
  const int64_t size = matrix.size(0), wielandt = (size - 1) * (size - 1) + 1;
  at::Tensor reached = (matrix > 0).to(at::kFloat);
  for (int64_t power = 1; power < wielandt; power *= 2) reached = (reached.matmul(reached) > 0).to(at::kFloat);
  const at::Tensor missing = (reached == 0).nonzero();
  if (missing.size(0) == 0) return;
  throw UserError(
      fmt::format("the graph never brings all ranks together: however many rounds there are, rank {} may "
                  "have nothing of rank {}; expected a connected graph, in which some rank keeps a part of "
                  "its own values",
                  missing[0][0].item<int64_t>(), missing[0][1].item<int64_t>()));
}

}  // namespace

at::Tensor matrix_of_edges(const std::string& edges, MixingDemand demand, int size) {
  const bool directed = demand == MixingDemand::kColumnStochastic;
  const Receives receives = read_edges(edges, directed, size);
  const at::Tensor matrix = directed ? even_shares(receives) : metropolis_weights(receives);
  check_brings_together(matrix);
  return matrix;
}

at::Tensor matrix_of_weights(const std::string& weights, MixingDemand demand, int size) {
  const at::Tensor matrix = read_matrix(weights, size);
  check_demand(matrix, demand);
  check_brings_together(matrix);
  return matrix;
}

}  // namespace mlbench::optim
