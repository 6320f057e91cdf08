#include "mlbench/compress/rows.h"

#include <ATen/Parallel.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mlbench/compress/magnitude.h"
#include "mlbench/compress/packed_bits.h"

namespace mlbench::compress {

namespace {

constexpr int64_t kRowsAtATime = 64;

// What e3m0 has for its exponents 1 to 7, and 0.
constexpr float kE3m0Values[] = {0, 1 / 64.0F, 1 / 32.0F, 1 / 16.0F, 1 / 8.0F, 1 / 4.0F, 1 / 2.0F, 1};
constexpr int kE3m0Bias = 7;
constexpr uint8_t kE3m0Sign = 8;

int bits_of(RowFormat format) { return format == RowFormat::kE3m0 ? 4 : 8; }

float largest_of(RowFormat format) {
  switch (format) {
    case RowFormat::kInt8:
      return 127;
    case RowFormat::kE4m3:
      return 448;
    case RowFormat::kE5m2:
      return 57344;
    case RowFormat::kE3m0:
      return 1;
  }
  return 0;
}

uint8_t e3m0_of(float value) {
  const float magnitude = std::abs(value);
  if (magnitude < kE3m0Values[1] / 2) return 0;
  int exponent = 0;
  if (std::frexp(magnitude, &exponent) < 0.75F) --exponent;  // the nearest power of two is 2^exponent
  const auto code = static_cast<uint8_t>(std::clamp(exponent + kE3m0Bias, 1, kE3m0Bias));
  return value < 0 ? code | kE3m0Sign : code;
}

uint8_t code_of(RowFormat format, float value) {
  switch (format) {
    case RowFormat::kInt8:
      return static_cast<uint8_t>(static_cast<int8_t>(std::clamp(std::nearbyint(value), -127.0F, 127.0F)));
    case RowFormat::kE4m3:
      return c10::Float8_e4m3fn(value).x;
    case RowFormat::kE5m2:
      return c10::Float8_e5m2(value).x;
    case RowFormat::kE3m0:
      return e3m0_of(value);
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
    case RowFormat::kE3m0:
      return (code & kE3m0Sign) != 0 ? -kE3m0Values[code - kE3m0Sign] : kE3m0Values[code];
  }
  return 0;
}

}  // namespace

std::string RowCoder::name() const {
  if (options_.format == RowFormat::kInt8) return "int8";
  return bits_of(options_.format) == 4 ? "fp4" : "fp8";
}

RowCoder::RowCoder(const RowOptions& options, const CoderContext& context)
    : options_(options), memory_(name(), context.layout, options.error_feedback) {
  for (const FlatRange& range : context.layout.ranges) {
    if (!range.trainable || range.count == 0) continue;
    const int64_t rows = range.shape.size() > 1 ? range.shape.front() : 1;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t count = range.count / rows;
      rows_.push_back({range.offset + row * count, count, payload_bytes_});
      payload_bytes_ += static_cast<int64_t>(sizeof(float)) + packed_bytes(count, bits_of(options.format));
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
  const bool packed = bits_of(format) < 8;
  at::parallel_for(0, static_cast<int64_t>(rows_.size()), kRowsAtATime, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> unpacked;
    for (int64_t number = begin; number < end; ++number) {
      const Row& row = rows_[static_cast<size_t>(number)];
      const float scale = largest_magnitude(values + row.offset, row.count) / largest_of(format);
      // Where the scale is not finite, nothing but the scale arrives: infinity or NaN times zero is NaN.
      const float inverse = scale > 0 && std::isfinite(scale) ? 1 / scale : 0;
      std::memcpy(bytes + row.payload, &scale, sizeof scale);
      unpacked.resize(packed ? static_cast<size_t>(row.count) : 0);
      uint8_t* codes = packed ? unpacked.data() : bytes + row.payload + sizeof scale;
      for (int64_t i = 0; i < row.count; ++i) {
        const float value = values[row.offset + i];
        codes[i] = code_of(format, inverse > 0 ? value * inverse : 0);
        if (left != nullptr) left[row.offset + i] = value - scale * value_of(format, codes[i]);
      }
      if (packed) pack_bits(unpacked, bits_of(format), bytes + row.payload + sizeof scale);
    }
  });
  return payload;
}

void RowCoder::absorb(int /*round*/, std::span<const at::Tensor> results, at::Tensor& gradient) {
  gradient.zero_();
  auto* sums = gradient.data_ptr<float>();
  const RowFormat format = options_.format;
  const bool packed = bits_of(format) < 8;
  at::parallel_for(0, static_cast<int64_t>(rows_.size()), kRowsAtATime, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> unpacked;
    for (int64_t number = begin; number < end; ++number) {
      const Row& row = rows_[static_cast<size_t>(number)];
      unpacked.resize(packed ? static_cast<size_t>(row.count) : 0);
      for (const at::Tensor& result : results) {
        const uint8_t* bytes = result.const_data_ptr<uint8_t>() + row.payload;
        float scale = 0;
        std::memcpy(&scale, bytes, sizeof scale);
        if (packed) unpack_bits(bytes + sizeof scale, bits_of(format), unpacked);
        const uint8_t* codes = packed ? unpacked.data() : bytes + sizeof scale;
        for (int64_t i = 0; i < row.count; ++i) sums[row.offset + i] += scale * value_of(format, codes[i]);
      }
    }
  });
}

}  // namespace mlbench::compress
