#include "mlbench/compress/qsgd.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/compress/elias_codes.h"
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

double deviation_of(const float* values, int64_t count) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; ++i) sum += values[i];
  const double mean = sum / static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) squares += (values[i] - mean) * (values[i] - mean);
  return std::sqrt(squares / static_cast<double>(count));
}

// Uniform in [0, 1) from 24 bits.
float uniform_of(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }

void put_bucket(std::span<const uint8_t> codes, BitWriter& writer) {
  size_t next = 0;  // behind the last element that was not 0
  for (size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] / 2 == 0) continue;
    writer.put_elias(i + 1 - next);
    writer.put(codes[i] % 2, 1);
    writer.put_elias(codes[i] / 2);
    next = i + 1;
  }
  if (next < codes.size()) writer.put_elias(codes.size() + 1 - next);
}

// Adds what put_bucket() wrote of `count` elements, in units of `step`.
void add_bucket(BitReader& reader, int64_t count, float step, float* sums) {
  for (int64_t next = 0; next < count;) {
    next += static_cast<int64_t>(reader.elias());
    if (next > count) break;
    const bool negative = reader.bit();
    const float magnitude = step * static_cast<float>(reader.elias());
    sums[next - 1] += negative ? -magnitude : magnitude;
  }
}

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

std::optional<uint64_t> QsgdCoder::bytes_per_step() const {
  if (options_.elias) return std::nullopt;
  return static_cast<uint64_t>(payload_bytes_);
}

float QsgdCoder::quantise(const Bucket& bucket, const float* values, uint64_t key, uint8_t* codes) const {
  const float* from = values + bucket.offset;
  float norm = norm_of(from, bucket.count, options_.largest);
  if (options_.clip > 0 && std::isfinite(norm)) {
    const auto bound = static_cast<float>(options_.clip * deviation_of(from, bucket.count));
    if (bound > 0) norm = std::min(norm, bound);
  }
  // Where the norm is not finite, nothing but the norm arrives: infinity or NaN times zero is NaN.
  const float scale = norm > 0 && std::isfinite(norm) ? static_cast<float>(levels()) / norm : 0;
  std::array<uint32_t, 4> drawn{};
  for (int64_t i = 0; i < bucket.count; ++i) {
    if (i % 4 == 0) drawn = philox(key, static_cast<uint64_t>(bucket.offset + i), 0);
    const float exact = scale > 0 ? std::min(static_cast<float>(levels()), std::abs(from[i]) * scale) : 0;
    const float below = std::floor(exact);
    const bool up = uniform_of(drawn[static_cast<size_t>(i % 4)]) < exact - below;
    const int level = std::clamp(static_cast<int>(below) + static_cast<int>(up), 0, levels());
    codes[i] = static_cast<uint8_t>(level * 2 + static_cast<int>(std::signbit(from[i])));
  }
  return norm;
}

at::Tensor QsgdCoder::encode_fixed(const float* values, uint64_t key) const {
  at::Tensor payload = at::empty({payload_bytes_}, at::kByte);
  auto* bytes = payload.data_ptr<uint8_t>();
  at::parallel_for(0, static_cast<int64_t>(buckets_.size()), kBucketsAtATime, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> codes(static_cast<size_t>(options_.bucket));
    for (int64_t number = begin; number < end; ++number) {
      const Bucket& bucket = buckets_[static_cast<size_t>(number)];
      const float norm = quantise(bucket, values, key, codes.data());
      std::memcpy(bytes + bucket.payload, &norm, sizeof norm);
      pack_bits({codes.data(), static_cast<size_t>(bucket.count)}, options_.bits, bytes + bucket.payload + sizeof norm);
    }
  });
  return payload;
}

at::Tensor QsgdCoder::encode_elias(const float* values, uint64_t key) const {
  std::vector<float> norms(buckets_.size());
  std::vector<std::vector<uint8_t>> codes(buckets_.size());
  at::parallel_for(0, static_cast<int64_t>(buckets_.size()), kBucketsAtATime, [&](int64_t begin, int64_t end) {
    for (auto number = static_cast<size_t>(begin); number < static_cast<size_t>(end); ++number) {
      codes[number].resize(static_cast<size_t>(buckets_[number].count));
      norms[number] = quantise(buckets_[number], values, key, codes[number].data());
    }
  });
  BitWriter writer;
  for (const std::vector<uint8_t>& bucket : codes) put_bucket(bucket, writer);
  const std::vector<uint8_t> bits = writer.finish();
  const size_t header = norms.size() * sizeof(float);
  at::Tensor payload = at::empty({static_cast<int64_t>(header + bits.size())}, at::kByte);
  auto* bytes = payload.data_ptr<uint8_t>();
  std::memcpy(bytes, norms.data(), header);
  std::ranges::copy(bits, bytes + header);
  return payload;
}

Payload QsgdCoder::encode(int /*round*/, const at::Tensor& gradient) {
  const float* values = gradient.const_data_ptr<float>();
  const uint64_t key = derive_key(seed_, {kCoderStream, static_cast<uint64_t>(rank_), static_cast<uint64_t>(step_)});
  Payload payload;
  payload.kind = PayloadKind::kGather;
  payload.data = options_.elias ? encode_elias(values, key) : encode_fixed(values, key);
  payload.bytes = payload.data.nbytes();
  payload.uneven = options_.elias;
  return payload;
}

void QsgdCoder::add_fixed(std::span<const at::Tensor> results, float* sums) const {
  at::parallel_for(0, static_cast<int64_t>(buckets_.size()), kBucketsAtATime, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      const Bucket& bucket = buckets_[static_cast<size_t>(number)];
      float* to = sums + bucket.offset;
      std::fill_n(to, bucket.count, 0.0F);
      for (const at::Tensor& result : results) {
        const uint8_t* bytes = result.const_data_ptr<uint8_t>() + bucket.payload;
        float norm = 0;
        std::memcpy(&norm, bytes, sizeof norm);
        add_levels(bytes + sizeof norm, options_.bits, bucket.count, norm / static_cast<float>(levels()), to);
      }
    }
  });
}

// Where a bucket begins in the bits is known when those before it are read: so one thread reads.
void QsgdCoder::add_elias(const at::Tensor& result, float* sums) const {
  const auto* bytes = result.const_data_ptr<uint8_t>();
  const size_t header = buckets_.size() * sizeof(float);
  BitReader reader({bytes + header, static_cast<size_t>(result.numel()) - header});
  for (size_t number = 0; number < buckets_.size(); ++number) {
    const Bucket& bucket = buckets_[number];
    float* to = sums + bucket.offset;
    float norm = 0;
    std::memcpy(&norm, bytes + number * sizeof norm, sizeof norm);
    if (!std::isfinite(norm)) {
      for (int64_t i = 0; i < bucket.count; ++i) to[i] += norm * 0;
    }
    add_bucket(reader, bucket.count, norm / static_cast<float>(levels()), to);
  }
  MLBENCH_CHECK(!reader.is_behind_end(), "a payload whose bits end too early");
}

void QsgdCoder::absorb(int /*round*/, std::span<const at::Tensor> results, at::Tensor& gradient) {
  if (!options_.elias) return add_fixed(results, gradient.data_ptr<float>());
  gradient.zero_();
  for (const at::Tensor& result : results) add_elias(result, gradient.data_ptr<float>());
}

}  // namespace mlbench::compress
