#include "mlbench/compress/packed_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "mlbench/base/random.h"
#include "mlbench/base/test_layout.h"
#include "mlbench/compress/coder.h"
#include "mlbench/compress/packed_bits.h"

namespace mlbench::compress {
namespace {

using ::testing::ElementsAre;

// Lengths around groups of eight elements, and around the eight bytes that are read at once.
const std::vector<int64_t> kCounts = {0, 1, 7, 8, 9, 15, 16, 17, 23, 63, 64, 65, 100, 1000, 4099};

std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

std::vector<float> some_sums(int64_t count) {
  RandomSequence random(static_cast<uint64_t>(count));
  std::vector<float> sums(static_cast<size_t>(count));
  for (float& sum : sums) sum = static_cast<float>(random.normal());
  return sums;
}

// Exactly as long as the numbers need, so that a sanitizer sees a byte too many that is read.
std::vector<uint8_t> packed(int64_t count, int width) {
  std::vector<uint8_t> codes(static_cast<size_t>(count));
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>((i * 37 + 5) % (size_t{1} << width));
  std::vector<uint8_t> bytes(static_cast<size_t>(packed_bytes(count, width)));
  pack_bits(codes, width, bytes.data());
  return bytes;
}

TEST(PackedSums, SignsComputedByHand) {
  const uint8_t bits[] = {0b00000101, 0b1};
  std::vector<float> sums(9, 1);
  add_signs(bits, 9, 2, -0.5, sums.data());
  EXPECT_THAT(sums, ElementsAre(3, 0.5, 3, 0.5, 0.5, 0.5, 0.5, 0.5, 3));
}

// 3 bits: the codes 0 to 7 are 0, -0, 1, -1, 2, -2, 3, -3 steps.
TEST(PackedSums, LevelsComputedByHand) {
  const std::vector<uint8_t> codes = {0, 1, 2, 3, 4, 5, 6, 7, 2};
  std::vector<uint8_t> bytes(4);
  pack_bits(codes, 3, bytes.data());
  std::vector<float> sums(9, 1);
  add_levels(bytes.data(), 3, 9, 0.5, sums.data());
  EXPECT_THAT(sums, ElementsAre(1, 1, 1.5, 0.5, 2, 0, 2.5, -0.5, 1.5));
}

TEST(PackedSums, SignsEqualTheirReferenceToTheBit) {
  for (const int64_t count : kCounts) {
    const std::vector<uint8_t> bits = packed(count, 1);
    for (const auto& [positive, other] : {std::pair{0.1F, -0.1F}, {3e-39F, -1e30F}, {INFINITY, -2}, {-0.0F, 0}}) {
      std::vector<float> fast = some_sums(count), plain = fast;
      add_signs(bits.data(), count, positive, other, fast.data());
      add_signs_reference(bits.data(), count, positive, other, plain.data());
      EXPECT_EQ(bits_of(fast), bits_of(plain)) << count << " elements, " << positive;
    }
  }
}

TEST(PackedSums, LevelsEqualTheirReferenceToTheBit) {
  for (int width = 1; width <= 8; ++width) {
    for (const int64_t count : kCounts) {
      const std::vector<uint8_t> bytes = packed(count, width);
      for (const float step : {0.1F, 1e-42F, 0.0F, INFINITY}) {
        std::vector<float> fast = some_sums(count), plain = fast;
        add_levels(bytes.data(), width, count, step, fast.data());
        add_levels_reference(bytes.data(), width, count, step, plain.data());
        // Infinity times zero is NaN, whose sign the processor chooses.
        for (auto* sums : {&fast, &plain}) {
          for (float& sum : *sums) sum = std::isnan(sum) ? NAN : sum;
        }
        EXPECT_EQ(bits_of(fast), bits_of(plain)) << width << " bits, " << count << " elements, step " << step;
      }
    }
  }
}

// What a coder makes of the payloads of three ranks, beside their plain sum. Some tensors are longer than a run.
void compare_with_plain_sums(const std::string& name, int scales, int width, int64_t bucket) {
  const FlatLayout layout = layout_with_buffer({5, 9001, 1, 4096});
  const Json none = Json::object();
  OptionReader options("coder", none);
  const MakeCoder make_coder = read_coder(name, options);
  std::vector<at::Tensor> payloads;
  at::Tensor result = at::zeros({layout.parameter_elements}), plain = result.clone();
  for (int rank = 0; rank < 3; ++rank) {
    at::Tensor gradient = at::zeros({layout.parameter_elements});
    for (const FlatRange& range : layout.ranges) {
      if (!range.trainable) continue;
      const std::vector<float> drawn = some_sums(range.count + rank);
      std::copy_n(drawn.begin(), range.count, gradient.data_ptr<float>() + range.offset);
    }
    const auto coder = make_coder({layout, 42, rank, 3});
    payloads.push_back(coder->encode(0, gradient).data);
    const auto* bytes = payloads.back().const_data_ptr<uint8_t>();
    for (const FlatRange& range : layout.ranges) {
      if (!range.trainable) continue;
      for (int64_t first = 0; first < range.count; first += bucket) {
        const int64_t count = std::min(bucket, range.count - first);
        float* sums = plain.data_ptr<float>() + range.offset + first;
        float means[2] = {1, -1};
        std::memcpy(means, bytes, static_cast<size_t>(scales) * sizeof(float));
        bytes += static_cast<size_t>(scales) * sizeof(float);
        if (width > 1) {
          add_levels_reference(bytes, width, count, means[0] / static_cast<float>((1 << (width - 1)) - 1), sums);
        } else {
          add_signs_reference(bytes, count, means[0], scales == 2 ? means[1] : -means[0], sums);
        }
        bytes += packed_bytes(count, width);
      }
    }
    EXPECT_EQ(bytes, payloads.back().const_data_ptr<uint8_t>() + payloads.back().numel());
  }
  make_coder({layout, 42, 0, 3})->absorb(0, payloads, result);
  if (name == "sign_vote") plain.sign_();
  EXPECT_EQ(std::memcmp(result.const_data_ptr<float>(), plain.const_data_ptr<float>(), plain.nbytes()), 0) << name;
}

TEST(PackedSums, CodersGiveThePlainSumToTheBit) {
  compare_with_plain_sums("sign_vote", 0, 1, 1 << 20);
  compare_with_plain_sums("ef_sign", 1, 1, 1 << 20);
  compare_with_plain_sums("one_bit", 2, 1, 1 << 20);
  compare_with_plain_sums("qsgd", 1, 4, 512);
}

}  // namespace
}  // namespace mlbench::compress
