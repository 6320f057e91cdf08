#include "mlbench/optim/gradient_norm.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "mlbench/base/vector_clones.h"

namespace mlbench::optim {

namespace {

constexpr int64_t kBlock = 32768;
constexpr size_t kSums = 16;

double total_of(const std::array<double, kSums>& sums) {
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

MLBENCH_VECTOR_CLONES void add_squares(const float* __restrict values, int64_t count, double* __restrict sums) {
  constexpr auto kStride = static_cast<int64_t>(kSums);
  int64_t first = 0;
  for (; first + kStride <= count; first += kStride) {
    for (int64_t i = 0; i < kStride; ++i) {
      const double value = values[first + i];
      sums[i] += value * value;
    }
  }
  for (int64_t i = 0; first + i < count; ++i) {
    const double value = values[first + i];
    sums[i] += value * value;
  }
}

}  // namespace

double sum_of_squares_reference(const float* values, int64_t count) {
  std::array<double, kSums> sums{};
  for (int64_t i = 0; i < count; ++i) {
    const double value = values[i];
    sums[static_cast<size_t>(i) % kSums] += value * value;
  }
  return total_of(sums);
}

double sum_of_squares(const float* values, int64_t count) {
  std::array<double, kSums> sums{};
  add_squares(values, count, sums.data());
  return total_of(sums);
}

double sum_of_squares(const float* flat, const FlatLayout& layout) {
  struct Block {
    int64_t offset = 0, count = 0;
    double sum = 0;
  };
  std::vector<Block> blocks;
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    for (int64_t done = 0; done < range.count; done += kBlock) {
      blocks.push_back({range.offset + done, std::min(kBlock, range.count - done)});
    }
  }
  at::parallel_for(0, static_cast<int64_t>(blocks.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      blocks[i].sum = sum_of_squares(flat + blocks[i].offset, blocks[i].count);
    }
  });
  double sum = 0;
  for (const Block& block : blocks) sum += block.sum;
  return sum;
}

GradientNorm::GradientNorm(FlatLayout layout, const SeparateMemory* memory)
    : layout_(std::move(layout)), arithmetic_(arithmetic_for(memory)) {}

double GradientNorm::of(const at::Tensor& gradients) const {
  return std::sqrt(arithmetic_.sum_of_squares(gradients, layout_));
}

}  // namespace mlbench::optim
