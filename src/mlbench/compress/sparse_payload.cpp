#include "mlbench/compress/sparse_payload.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mlbench/base/errors.h"

namespace mlbench::compress {

int64_t count_of(double share, int64_t count) {
  return std::clamp<int64_t>(std::llround(share * static_cast<double>(count)), std::min<int64_t>(1, count), count);
}

int64_t count_of(double share, const FlatLayout& layout) { return count_of(share, layout.parameter_count()); }

Payload sparse_payload(const at::Tensor& whole, const std::vector<int32_t>& indices) {
  Payload payload;
  payload.kind = PayloadKind::kGather;
  payload.bytes = indices.size() * (sizeof(int32_t) + sizeof(float));
  payload.data = at::empty({2 * static_cast<int64_t>(indices.size())}, at::kInt);
  auto* words = payload.data.data_ptr<int32_t>();
  const float* values = whole.const_data_ptr<float>();
  std::ranges::copy(indices, words);
  for (size_t i = 0; i < indices.size(); ++i) std::memcpy(words + indices.size() + i, values + indices[i], 4);
  return payload;
}

void add_elements(std::span<const at::Tensor> payloads, at::Tensor& sums) {
  auto* to = sums.data_ptr<float>();
  for (const at::Tensor& payload : payloads) {
    const auto* words = payload.const_data_ptr<int32_t>();
    const int64_t count = payload.numel() / 2;
    for (int64_t i = 0; i < count; ++i) {
      float value = 0;
      std::memcpy(&value, words + count + i, 4);
      MLBENCH_CHECK(words[i] >= 0 && words[i] < sums.numel(), "an index outside of the gradient");
      to[words[i]] += value;
    }
  }
}

void clear_elements(const std::vector<int32_t>& indices, at::Tensor& flat) {
  for (const int32_t index : indices) flat.data_ptr<float>()[index] = 0;
}

std::span<const float> values_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

}  // namespace mlbench::compress
