#include "mlbench/compress/sign.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "mlbench/compress/packed_bits.h"
#include "mlbench/compress/packed_sums.h"

namespace mlbench::compress {

namespace {

int scales_of(SignScale scale) {
  switch (scale) {
    case SignScale::kNone:
      return 0;
    case SignScale::kMeanMagnitude:
      return 1;
    case SignScale::kMeanOfEachSign:
      return 2;
  }
  return 0;
}

bool is_positive(float value) { return value >= 0; }

// What a positive and another element become. Sums are in float64, in the order of the elements.
std::array<float, 2> means_of(const float* values, int64_t count, SignScale scale) {
  if (scale == SignScale::kNone) return {1, -1};
  std::array<double, 2> sums{};
  std::array<int64_t, 2> counts{};
  for (int64_t i = 0; i < count; ++i) {
    const size_t kind = is_positive(values[i]) ? 0 : 1;
    sums[kind] += values[i];
    ++counts[kind];
  }
  if (scale == SignScale::kMeanMagnitude) {
    const auto mean = static_cast<float>((sums[0] - sums[1]) / static_cast<double>(count));
    return {mean, -mean};
  }
  std::array<float, 2> means{};
  for (size_t kind = 0; kind < 2; ++kind) {
    if (counts[kind] > 0) means[kind] = static_cast<float>(sums[kind] / static_cast<double>(counts[kind]));
  }
  return means;
}

void pack_signs(const float* values, int64_t count, uint8_t* bytes) {
  for (int64_t first = 0; first < count; first += 8) {
    uint8_t byte = 0;
    const int64_t length = std::min<int64_t>(8, count - first);
    for (int64_t i = 0; i < length; ++i) byte |= static_cast<uint8_t>(is_positive(values[first + i]) << i);
    bytes[first / 8] = byte;
  }
}

void subtract_means(float* values, int64_t count, float positive, float other) {
  for (int64_t i = 0; i < count; ++i) values[i] -= is_positive(values[i]) ? positive : other;
}

// In elements: what stays in a core's first cache while the payloads of all ranks are added.
constexpr int64_t kRun = 4096;
constexpr int64_t kRunsAtATime = 8;

}  // namespace

SignCoder::SignCoder(SignScale scale, const CoderContext& context)
    : scale_(scale), memory_(name(), context.layout, scale != SignScale::kNone) {
  for (const FlatRange& range : context.layout.ranges) {
    if (!range.trainable) continue;
    parts_.push_back({range.offset, range.count, payload_bytes_});
    payload_bytes_ += scales_of(scale) * static_cast<int64_t>(sizeof(float)) + packed_bytes(range.count, 1);
    for (int64_t first = 0; first < range.count; first += kRun) {
      runs_.push_back({parts_.size() - 1, first, std::min(kRun, range.count - first)});
    }
  }
}

std::string SignCoder::name() const {
  switch (scale_) {
    case SignScale::kNone:
      return "sign_vote";
    case SignScale::kMeanMagnitude:
      return "ef_sign";
    case SignScale::kMeanOfEachSign:
      return "one_bit";
  }
  return "";
}

Payload SignCoder::encode(int /*round*/, const at::Tensor& gradient) {
  const float* values = memory_.with(gradient).const_data_ptr<float>();
  float* left = memory_.enabled() ? memory_.values().data_ptr<float>() : nullptr;
  Payload payload;
  payload.kind = PayloadKind::kGather;
  payload.bytes = static_cast<uint64_t>(payload_bytes_);
  payload.data = at::empty({payload_bytes_}, at::kByte);
  auto* bytes = payload.data.data_ptr<uint8_t>();
  const auto header = static_cast<size_t>(scales_of(scale_)) * sizeof(float);
  at::parallel_for(0, static_cast<int64_t>(parts_.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      const Part& part = parts_[static_cast<size_t>(number)];
      const std::array<float, 2> means = means_of(values + part.offset, part.count, scale_);
      std::memcpy(bytes + part.payload, means.data(), header);
      pack_signs(values + part.offset, part.count, bytes + part.payload + header);
      if (left == nullptr) continue;
      subtract_means(left + part.offset, part.count, means[0], means[1]);
    }
  });
  return payload;
}

void SignCoder::absorb(int /*round*/, std::span<const at::Tensor> results, at::Tensor& gradient) {
  auto* sums = gradient.data_ptr<float>();
  const auto header = static_cast<size_t>(scales_of(scale_)) * sizeof(float);
  at::parallel_for(0, static_cast<int64_t>(runs_.size()), kRunsAtATime, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      const Run& run = runs_[static_cast<size_t>(number)];
      const Part& part = parts_[run.part];
      float* to = sums + part.offset + run.first;
      std::fill_n(to, run.count, 0.0F);
      for (const at::Tensor& result : results) {
        const uint8_t* bytes = result.const_data_ptr<uint8_t>() + part.payload;
        std::array<float, 2> means = {1, -1};
        std::memcpy(means.data(), bytes, header);
        if (scale_ == SignScale::kMeanMagnitude) means[1] = -means[0];
        add_signs(bytes + header + run.first / 8, run.count, means[0], means[1], to);
      }
      if (scale_ == SignScale::kNone) take_signs(run.count, to);
    }
  });
}

}  // namespace mlbench::compress
