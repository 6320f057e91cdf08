#include "mlbench/compress/natural.h"

#include <array>
#include <bit>

#include "mlbench/base/random.h"
#include "mlbench/compress/packed_bits.h"

namespace mlbench::compress {

namespace {

constexpr uint32_t kMantissaBits = 23, kMantissa = (1U << kMantissaBits) - 1, kInfinite = 255;

// The exponent of a float32, raised by one with the probability that its mantissa says. The largest finite one stays.
uint8_t drawn_exponent(uint32_t bits, uint32_t drawn) {
  const uint32_t exponent = (bits >> kMantissaBits) & kInfinite;
  const bool up = (drawn >> (32 - kMantissaBits)) < (bits & kMantissa);
  return static_cast<uint8_t>(exponent + static_cast<uint32_t>(up && exponent + 1 < kInfinite));
}

}  // namespace

NaturalCoder::NaturalCoder(const CoderContext& context) : seed_(context.seed), rank_(context.rank) {
  for (const FlatRange& range : context.layout.ranges) {
    if (!range.trainable) continue;
    ranges_.push_back(range);
    elements_ += range.count;
  }
}

std::optional<uint64_t> NaturalCoder::bytes_per_step() const {
  return static_cast<uint64_t>(elements_ + packed_bytes(elements_, 1));
}

// The exponents, then the packed signs.
Payload NaturalCoder::encode(int /*round*/, const at::Tensor& gradient) {
  Payload payload;
  payload.kind = PayloadKind::kGather;
  payload.bytes = bytes_per_step().value();
  payload.data = at::empty({static_cast<int64_t>(payload.bytes)}, at::kByte);
  auto* exponents = payload.data.data_ptr<uint8_t>();
  std::vector<uint8_t> signs(static_cast<size_t>(elements_));
  const uint64_t key = derive_key(seed_, {kCoderStream, static_cast<uint64_t>(rank_), static_cast<uint64_t>(step_)});
  std::array<uint32_t, 4> drawn{};
  size_t next = 0;
  for (const FlatRange& range : ranges_) {
    const float* values = gradient.const_data_ptr<float>() + range.offset;
    for (int64_t i = 0; i < range.count; ++i, ++next) {
      if (next % drawn.size() == 0) drawn = philox(key, next, 0);
      const auto bits = std::bit_cast<uint32_t>(values[i]);
      exponents[next] = drawn_exponent(bits, drawn[next % drawn.size()]);
      signs[next] = static_cast<uint8_t>(bits >> 31);
    }
  }
  pack_bits(signs, 1, exponents + elements_);
  return payload;
}

void NaturalCoder::absorb(int /*round*/, std::span<const at::Tensor> results, at::Tensor& gradient) {
  gradient.zero_();
  std::vector<uint8_t> signs(static_cast<size_t>(elements_));
  for (const at::Tensor& result : results) {
    const auto* exponents = result.const_data_ptr<uint8_t>();
    unpack_bits(exponents + elements_, 1, signs);
    size_t next = 0;
    for (const FlatRange& range : ranges_) {
      float* sums = gradient.data_ptr<float>() + range.offset;
      for (int64_t i = 0; i < range.count; ++i, ++next) {
        const uint32_t bits =
            (static_cast<uint32_t>(signs[next]) << 31) | (static_cast<uint32_t>(exponents[next]) << kMantissaBits);
        sums[i] += std::bit_cast<float>(bits);
      }
    }
  }
}

}  // namespace mlbench::compress
