#include "mlbench/compress/qsgd.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "mlbench/base/random.h"
#include "mlbench/compress/magnitude.h"
#include "mlbench/compress/packed_bits.h"
#include "mlbench/compress/packed_sums.h"

namespace mlbench::compress {

namespace {

constexpr int64_t kBucketsAtATime = 64;

float norm_of(const float* values, int64_t count, bool largest) {
  if (largest) return largest_magnitude(values, count);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]) * values[i];
  return static_cast<float>(std::sqrt(sum));
}

// Uniform in [0, 1) from 24 bits.
float uniform_of(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }

}  // namespace

QsgdCoder::QsgdCoder(const QsgdOptions& options, const CoderContext& context)
    : options_(options), seed_(context.seed), rank_(context.rank) {
  for (const FlatRange& range : context.layout.ranges) {
    if (!range.trainable) continue;
    for (int64_t done = 0; done < range.count; done += options.bucket) {
      const int64_t count = std::min(options.bucket, range.count - done);
      buckets_.push_back({range.offset + done, count, payload_bytes_});
      payload_bytes_ += static_cast<int64_t>(sizeof(float)) + packed_bytes(count, options.bits);
    }
  }
}

Payload QsgdCoder::encode(int /*round*/, const at::Tensor& gradient) {
  Payload payload;
  payload.kind = PayloadKind::kGather;
  payload.bytes = static_cast<uint64_t>(payload_bytes_);
  payload.data = at::empty({payload_bytes_}, at::kByte);
  auto* bytes = payload.data.data_ptr<uint8_t>();
  const float* values = gradient.const_data_ptr<float>();
  const uint64_t key = derive_key(seed_, {kCoderStream, static_cast<uint64_t>(rank_), static_cast<uint64_t>(step_)});
  const int levels = (1 << (options_.bits - 1)) - 1;
  at::parallel_for(0, static_cast<int64_t>(buckets_.size()), kBucketsAtATime, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> codes(static_cast<size_t>(options_.bucket));
    for (int64_t number = begin; number < end; ++number) {
      const Bucket& bucket = buckets_[static_cast<size_t>(number)];
      const float* from = values + bucket.offset;
      const float norm = norm_of(from, bucket.count, options_.largest);
      // Of a norm that is not finite, nothing but the norm arrives: infinity or NaN times zero is NaN.
      const float scale = norm > 0 && std::isfinite(norm) ? static_cast<float>(levels) / norm : 0;
      std::array<uint32_t, 4> drawn{};
      for (int64_t i = 0; i < bucket.count; ++i) {
        if (i % 4 == 0) drawn = philox(key, static_cast<uint64_t>(bucket.offset + i), 0);
        const float exact = scale > 0 ? std::abs(from[i]) * scale : 0;
        const float below = std::floor(exact);
        const bool up = uniform_of(drawn[static_cast<size_t>(i % 4)]) < exact - below;
        const int level = std::clamp(static_cast<int>(below) + static_cast<int>(up), 0, levels);
        codes[static_cast<size_t>(i)] = static_cast<uint8_t>(level * 2 + static_cast<int>(std::signbit(from[i])));
      }
      std::memcpy(bytes + bucket.payload, &norm, sizeof norm);
      pack_bits({codes.data(), static_cast<size_t>(bucket.count)}, options_.bits, bytes + bucket.payload + sizeof norm);
    }
  });
  return payload;
}

void QsgdCoder::absorb(int /*round*/, std::span<const at::Tensor> results, at::Tensor& gradient) {
  auto* sums = gradient.data_ptr<float>();
  const auto levels = static_cast<float>((1 << (options_.bits - 1)) - 1);
  at::parallel_for(0, static_cast<int64_t>(buckets_.size()), kBucketsAtATime, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      const Bucket& bucket = buckets_[static_cast<size_t>(number)];
      float* to = sums + bucket.offset;
      std::fill_n(to, bucket.count, 0.0F);
      for (const at::Tensor& result : results) {
        const uint8_t* bytes = result.const_data_ptr<uint8_t>() + bucket.payload;
        float norm = 0;
        std::memcpy(&norm, bytes, sizeof norm);
        add_levels(bytes + sizeof norm, options_.bits, bucket.count, norm / levels, to);
      }
    }
  });
}

}  // namespace mlbench::compress
