#include "mlbench/compress/rows.h"

#include <ATen/Parallel.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mlbench/compress/magnitude.h"

namespace mlbench::compress {

namespace {

constexpr int64_t kRowsAtATime = 64;

float largest_of(RowFormat format) {
  return format == RowFormat::kInt8 ? 127.0F : format == RowFormat::kE4m3 ? 448.0F : 57344.0F;
}

uint8_t code_of(RowFormat format, float value) {
  switch (format) {
    case RowFormat::kInt8:
      return static_cast<uint8_t>(static_cast<int8_t>(std::clamp(std::nearbyint(value), -127.0F, 127.0F)));
    case RowFormat::kE4m3:
      return c10::Float8_e4m3fn(value).x;
    case RowFormat::kE5m2:
      return c10::Float8_e5m2(value).x;
  }
  return 0;
}

float value_of(RowFormat format, uint8_t code) {
  switch (format) {
    case RowFormat::kInt8:
      return static_cast<int8_t>(code);
    case RowFormat::kE4m3:
      return c10::Float8_e4m3fn(code, c10::Float8_e4m3fn::from_bits());
    case RowFormat::kE5m2:
      return c10::Float8_e5m2(code, c10::Float8_e5m2::from_bits());
  }
  return 0;
}

}  // namespace

RowCoder::RowCoder(const RowOptions& options, const CoderContext& context)
    : options_(options), memory_(name(), context.layout, options.error_feedback) {
  for (const FlatRange& range : context.layout.ranges) {
    if (!range.trainable || range.count == 0) continue;
    const int64_t rows = range.shape.size() > 1 ? range.shape.front() : 1;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t count = range.count / rows;
      rows_.push_back({range.offset + row * count, count, payload_bytes_});
      payload_bytes_ += static_cast<int64_t>(sizeof(float)) + count;
    }
  }
}

Payload RowCoder::encode(int /*round*/, const at::Tensor& gradient) {
  const float* values = memory_.with(gradient).const_data_ptr<float>();
  float* left = memory_.enabled() ? memory_.values().data_ptr<float>() : nullptr;
  Payload payload;
  payload.kind = PayloadKind::kGather;
  payload.bytes = static_cast<uint64_t>(payload_bytes_);
  payload.data = at::empty({payload_bytes_}, at::kByte);
  auto* bytes = payload.data.data_ptr<uint8_t>();
  const RowFormat format = options_.format;
  at::parallel_for(0, static_cast<int64_t>(rows_.size()), kRowsAtATime, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      const Row& row = rows_[static_cast<size_t>(number)];
      const float scale = largest_magnitude(values + row.offset, row.count) / largest_of(format);
      // Of a scale that is not finite, nothing but the scale arrives: infinity or NaN times zero is NaN.
      const float inverse = scale > 0 && std::isfinite(scale) ? 1 / scale : 0;
      std::memcpy(bytes + row.payload, &scale, sizeof scale);
      uint8_t* codes = bytes + row.payload + sizeof scale;
      for (int64_t i = 0; i < row.count; ++i) {
        const float value = values[row.offset + i];
        codes[i] = code_of(format, inverse > 0 ? value * inverse : 0);
        if (left != nullptr) left[row.offset + i] = value - scale * value_of(format, codes[i]);
      }
    }
  });
  return payload;
}

void RowCoder::absorb(int /*round*/, std::span<const at::Tensor> results, at::Tensor& gradient) {
  gradient.zero_();
  auto* sums = gradient.data_ptr<float>();
  const RowFormat format = options_.format;
  at::parallel_for(0, static_cast<int64_t>(rows_.size()), kRowsAtATime, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      const Row& row = rows_[static_cast<size_t>(number)];
      for (const at::Tensor& result : results) {
        const uint8_t* bytes = result.const_data_ptr<uint8_t>() + row.payload;
        float scale = 0;
        std::memcpy(&scale, bytes, sizeof scale);
        for (int64_t i = 0; i < row.count; ++i) {
          sums[row.offset + i] += scale * value_of(format, bytes[sizeof scale + static_cast<size_t>(i)]);
        }
      }
    }
  });
}

}  // namespace mlbench::compress
