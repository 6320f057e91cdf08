#include "mlbench/compress/selection.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

#include "mlbench/base/errors.h"
#include "mlbench/base/vector_clones.h"

namespace mlbench::compress {

namespace {

constexpr int64_t kBlock = 32;
constexpr int64_t kSamples = 16384;
constexpr double kMargin = 1.3;  // of candidates over what is wanted
constexpr int32_t kAbsolute = 0x7fffffff;

// Absolute values compare as their bits do, NaN above infinity.
int32_t magnitude(float value) { return std::bit_cast<int32_t>(value) & kAbsolute; }

void check(std::span<const float> values, int64_t count) {
  MLBENCH_CHECK(count >= 0 && count <= static_cast<int64_t>(values.size()) && values.size() < (size_t{1} << 31),
                "so many of the largest of so many values");
}

// Whether one of kBlock values reaches the bound.
MLBENCH_VECTOR_CLONES bool any_reaches(const float* values, int32_t bound) {
  int32_t any = 0;
  for (int64_t i = 0; i < kBlock; ++i) any |= static_cast<int32_t>(magnitude(values[i]) >= bound);
  return any != 0;
}

// Returns, of evenly spread values, the one that about `count` of all values reach.
int32_t likely_bound(std::span<const float> values, double count) {
  const auto size = static_cast<int64_t>(values.size());
  const int64_t samples = std::min(kSamples, size);
  std::vector<int32_t> sample(static_cast<size_t>(samples));
  for (int64_t i = 0; i < samples; ++i) {
    sample[static_cast<size_t>(i)] = magnitude(values[static_cast<size_t>(i * (size / samples))]);
  }
  const double share = count / static_cast<double>(size);
  const auto rank = std::min(samples - 1, static_cast<int64_t>(std::ceil(share * static_cast<double>(samples))));
  std::ranges::nth_element(sample, sample.begin() + rank, std::greater<>());
  return sample[static_cast<size_t>(rank)];
}

void collect(std::span<const float> values, int32_t bound, std::vector<int32_t>& indices) {
  indices.clear();
  const auto size = static_cast<int64_t>(values.size());
  const float* data = values.data();
  const auto scan = [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      if (magnitude(data[i]) >= bound) indices.push_back(static_cast<int32_t>(i));
    }
  };
  int64_t first = 0;
  for (; first + kBlock <= size; first += kBlock) {
    if (any_reaches(data + first, bound)) scan(first, first + kBlock);
  }
  scan(first, size);
}

// Leaves of the candidates, which are in ascending order, those `count` that are largest.
void keep_largest(std::span<const float> values, int64_t count, std::vector<int32_t>& candidates) {
  if (static_cast<int64_t>(candidates.size()) == count) return;
  std::vector<int32_t> magnitudes;
  magnitudes.reserve(candidates.size());
  for (const int32_t i : candidates) magnitudes.push_back(magnitude(values[static_cast<size_t>(i)]));
  std::ranges::nth_element(magnitudes, magnitudes.begin() + (count - 1), std::greater<>());
  const int32_t bound = magnitudes[static_cast<size_t>(count - 1)];
  int64_t equal =
      count - std::count_if(magnitudes.begin(), magnitudes.begin() + count, [&](int32_t one) { return one > bound; });
  std::erase_if(candidates, [&](int32_t i) {
    const int32_t one = magnitude(values[static_cast<size_t>(i)]);
    return one < bound || (one == bound && equal-- <= 0);
  });
}

}  // namespace

std::vector<int32_t> largest_reference(std::span<const float> values, int64_t count) {
  check(values, count);
  std::vector<int32_t> indices(values.size());
  std::iota(indices.begin(), indices.end(), 0);
  std::ranges::stable_sort(indices, std::greater<>(),
                           [&](int32_t i) { return magnitude(values[static_cast<size_t>(i)]); });
  indices.resize(static_cast<size_t>(count));
  std::ranges::sort(indices);
  return indices;
}

std::vector<int32_t> largest(std::span<const float> values, int64_t count) {
  check(values, count);
  std::vector<int32_t> indices;
  if (count == 0) return indices;
  const auto size = static_cast<double>(values.size());
  indices.reserve(static_cast<size_t>(std::min(size, 2 * static_cast<double>(count))));
  for (double wanted = kMargin * static_cast<double>(count); wanted < size; wanted *= 4) {
    collect(values, likely_bound(values, wanted), indices);
    if (static_cast<int64_t>(indices.size()) >= count) {
      keep_largest(values, count, indices);
      return indices;
    }
  }
  collect(values, 0, indices);
  keep_largest(values, count, indices);
  return indices;
}

}  // namespace mlbench::compress
