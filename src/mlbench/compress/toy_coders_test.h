#pragma once

// For tests: coders of the smallest kind that use everything that the contract allows: payloads of integers whose
// length differs by rank and step, and a memory on each rank.

#include <cmath>
#include <cstring>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/compress/coder.h"

namespace mlbench::compress {

// Sends elements whose remembered sum has reached one half, in quarters, and remembers the rest.
class ErrorMemoryCoder final : public GradientCoder {
 public:
  explicit ErrorMemoryCoder(const CoderContext& context) : error_(at::zeros({context.layout.parameter_elements})) {}

  std::string name() const override { return "error memory"; }
  bool one_collective() const override { return false; }
  std::optional<uint64_t> bytes_per_step() const override { return std::nullopt; }

  Payload encode(int, const at::Tensor& gradient) override {
    error_ += gradient;
    std::vector<int32_t> cells;  // element, quarters; ...
    float* left = error_.data_ptr<float>();
    for (int64_t i = 0; i < error_.numel(); ++i) {
      if (std::abs(left[i]) < 0.5F) continue;
      const auto quarters = static_cast<int32_t>(std::lround(4 * left[i]));
      left[i] -= static_cast<float>(quarters) / 4;
      cells.insert(cells.end(), {static_cast<int32_t>(i), quarters});
    }
    Payload payload;
    payload.kind = PayloadKind::kGather;
    payload.data = at::empty({static_cast<int64_t>(cells.size())}, at::kInt);
    if (!cells.empty()) std::memcpy(payload.data.data_ptr<int32_t>(), cells.data(), cells.size() * sizeof(int32_t));
    payload.bytes = cells.size() * sizeof(int32_t);
    payload.uneven = true;
    return payload;
  }

  void absorb(int, std::span<const at::Tensor> results, at::Tensor& gradient) override {
    gradient.zero_();
    float* sum = gradient.data_ptr<float>();
    for (const at::Tensor& result : results) {
      const int32_t* cells = result.const_data_ptr<int32_t>();
      for (int64_t i = 0; i < result.numel(); i += 2) sum[cells[i]] += static_cast<float>(cells[i + 1]) / 4;
    }
  }

  void export_state(NamedState& state) const override {
    const auto* bytes = reinterpret_cast<const std::byte*>(error_.const_data_ptr<float>());
    state.tensors["coder/error"] = {
        DType::kFloat32, {error_.numel()}, {bytes, bytes + static_cast<size_t>(error_.numel()) * sizeof(float)}};
    state.scalars["coder/name"] = name();
  }
  void import_state(const NamedState& state) override {
    const HostTensor& stored = state.tensor("coder/error");
    MLBENCH_CHECK(state.text("coder/name") == name() && stored.shape == std::vector<int64_t>{error_.numel()},
                  "the memory of another coder");
    std::memcpy(error_.data_ptr<float>(), stored.bytes.data(), stored.bytes.size());
  }

  const at::Tensor& error() const { return error_; }

 private:
  at::Tensor error_;
};

}  // namespace mlbench::compress
