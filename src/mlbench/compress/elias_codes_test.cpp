#include "mlbench/compress/elias_codes.h"

#include <gtest/gtest.h>

#include <bitset>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "mlbench/base/random.h"
#include "mlbench/base/test_layout.h"
#include "mlbench/compress/coder.h"

namespace mlbench::compress {
namespace {

// The paper's recursion, on text.
std::string elias_text(uint64_t number) {
  std::string code = "0";
  while (number > 1) {
    std::string digits = std::bitset<64>(number).to_string();
    digits = digits.substr(digits.find('1'));
    code = digits + code;
    number = digits.size() - 1;
  }
  return code;
}

std::string text_of(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += std::bitset<8>(byte).to_string();
  return text;
}

std::string filled_up(std::string bits) { return bits.append((8 - bits.size() % 8) % 8, '0'); }

TEST(EliasCodes, AreThoseOfThePaper) {
  EXPECT_EQ(elias_text(1), "0");
  EXPECT_EQ(elias_text(4), "101000");
  BitWriter writer;
  std::string expected;
  for (const uint64_t number : {1, 2, 3, 4, 7, 8, 15, 16, 100, 65536, 1 << 20}) {
    writer.put_elias(number);
    expected += elias_text(number);
  }
  EXPECT_EQ(text_of(writer.finish()), filled_up(expected));
}

TEST(EliasCodes, ComeOutAsTheyWentIn) {
  std::vector<uint64_t> numbers;
  for (uint64_t number = 1; number < 3000; ++number) numbers.push_back(number);
  for (int digits = 12; digits <= 32; ++digits) {
    for (const int64_t beside : {-1, 0, 1})
      numbers.push_back((uint64_t{1} << digits) - 1 + static_cast<uint64_t>(beside));
  }
  std::erase_if(numbers, [](uint64_t number) { return number >= uint64_t{1} << 32; });
  BitWriter writer;
  for (const uint64_t number : numbers) {
    writer.put_elias(number);
    writer.put(number % 2, 1);
  }
  const std::vector<uint8_t> bytes = writer.finish();
  BitReader reader(bytes);
  for (const uint64_t number : numbers) {
    ASSERT_EQ(reader.elias(), number);
    ASSERT_EQ(reader.bit(), number % 2 == 1);
  }
  EXPECT_FALSE(reader.is_behind_end());
  for (int i = 0; i < 8; ++i) reader.bit();
  EXPECT_TRUE(reader.is_behind_end());
}

// ---- QSGD with these codes beside QSGD with numbers of a fixed width ------------------------------------------------

std::unique_ptr<GradientCoder> make_qsgd(Json given, const std::string& coding, const FlatLayout& layout, int rank) {
  given["coding"] = coding;
  OptionReader options("coder", given);
  const MakeCoder make_coder = read_coder("qsgd", options);
  options.finish();
  return make_coder({layout, 42, rank, 3});
}

struct Coded {
  std::vector<uint8_t> payload;  // with Elias codes
  at::Tensor fixed, elias;       // what comes out
};

Coded code_both(const Json& options, const FlatLayout& layout, const at::Tensor& gradient, int rank = 0) {
  const auto decoded = [&](const std::string& coding, std::vector<uint8_t>* bytes) {
    const auto coder = make_qsgd(options, coding, layout, rank);
    coder->begin({.step = 3});
    const Payload payload = coder->encode(0, gradient);
    EXPECT_EQ(payload.bytes, payload.data.nbytes());
    if (bytes != nullptr) {
      const auto* data = payload.data.const_data_ptr<uint8_t>();
      bytes->assign(data, data + payload.data.numel());
    }
    at::Tensor out = gradient.clone();
    coder->absorb(0, std::span(&payload.data, 1), out);
    return out;
  };
  Coded coded;
  coded.fixed = decoded("fixed", nullptr);
  coded.elias = decoded("elias", &coded.payload);
  return coded;
}

at::Tensor drawn_gradient(const FlatLayout& layout, double share) {
  RandomSequence random(17);
  at::Tensor gradient = at::zeros({layout.parameter_elements});
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    for (int64_t i = 0; i < range.count; ++i) {
      const double value = random.normal();
      if (random.uniform() < share) gradient[range.offset + i] = value;
    }
  }
  return gradient;
}

// From what came out with the fixed width: the norms, and the bits that the paper writes for each bucket.
std::string encoded_again(const at::Tensor& gradient, const at::Tensor& out, const FlatLayout& layout, int bits,
                          int64_t bucket, std::vector<float>* norms) {
  std::string text;
  const double levels = std::pow(2.0, bits - 1) - 1;
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    for (int64_t first = 0; first < range.count; first += bucket) {
      const int64_t count = std::min(bucket, range.count - first);
      const float norm = gradient.narrow(0, range.offset + first, count).abs().max().item<float>();
      norms->push_back(norm);
      int64_t before = -1;
      for (int64_t i = 0; i < count; ++i) {
        const double value = out[range.offset + first + i].item<float>();
        const auto level = norm > 0 ? std::llround(std::abs(value) * levels / norm) : 0;
        if (level == 0) continue;
        text += elias_text(static_cast<uint64_t>(i - before)) + (value < 0 ? "1" : "0");
        text += elias_text(static_cast<uint64_t>(level));
        before = i;
      }
      if (before != count - 1) text += elias_text(static_cast<uint64_t>(count - before));
    }
  }
  return filled_up(text);
}

// With 2 bits (0, 1, -1) few elements are not zero; with 8 bits nearly all are. A tensor of zeros is part of it.
TEST(QsgdElias, IsWhatThePaperWritesOfTheLevelsOfTheFixedWidth) {
  const FlatLayout layout = layout_with_buffer({5, 1, 700, 17, 3});
  for (const double share : {1.0, 0.01}) {
    at::Tensor gradient = drawn_gradient(layout, share);
    gradient.narrow(0, layout.ranges[3].offset, 17).zero_();
    for (const int bits : {2, 4, 8}) {
      for (const int64_t bucket : {int64_t{1}, int64_t{64}, int64_t{512}, int64_t{100000}}) {
        SCOPED_TRACE(std::to_string(bits) + " bits, buckets of " + std::to_string(bucket));
        const Coded coded = code_both({{"bits", bits}, {"bucket", bucket}}, layout, gradient);
        EXPECT_EQ(
            std::memcmp(coded.elias.const_data_ptr<float>(), coded.fixed.const_data_ptr<float>(), coded.fixed.nbytes()),
            0);
        std::vector<float> norms;
        const std::string text = encoded_again(gradient, coded.fixed, layout, bits, bucket, &norms);
        const size_t header = norms.size() * sizeof(float);
        ASSERT_EQ(coded.payload.size(), header + text.size() / 8);
        EXPECT_EQ(std::memcmp(coded.payload.data(), norms.data(), header), 0);
        EXPECT_EQ(text_of(std::span(coded.payload).subspan(header)), text);
      }
    }
  }
}

// Two levels of sign and 1 step: with the norm 1, elements of magnitude 1 and 0 are exact. Of (0, -1, 1, 0) come 2, 1
// and 1, then 1, 0 and 1, then 2 to the end: 100 1 0, 0 0 0, 100.
TEST(QsgdElias, BitsComputedByHand) {
  const FlatLayout layout = layout_with_buffer({4});
  at::Tensor gradient = at::zeros({16});
  gradient[1] = -1;
  gradient[2] = 1;
  const Coded coded = code_both({{"bits", 2}}, layout, gradient);
  ASSERT_EQ(coded.payload.size(), 6U);
  EXPECT_EQ(text_of(std::span(coded.payload).subspan(4)), "1001000010000000");
  EXPECT_TRUE(at::equal(coded.elias, gradient));
}

TEST(QsgdElias, SumsOfRanksEqualThoseOfTheFixedWidth) {
  const FlatLayout layout = layout_with_buffer({700, 5});
  std::vector<at::Tensor> outs;
  for (const std::string coding : {"fixed", "elias"}) {
    std::vector<at::Tensor> payloads;
    for (int rank = 0; rank < 3; ++rank) {
      payloads.push_back(make_qsgd(Json::object(), coding, layout, rank)->encode(0, drawn_gradient(layout, 1)).data);
    }
    at::Tensor out = at::zeros({layout.parameter_elements});
    make_qsgd(Json::object(), coding, layout, 0)->absorb(0, payloads, out);
    outs.push_back(out);
  }
  EXPECT_EQ(std::memcmp(outs[0].const_data_ptr<float>(), outs[1].const_data_ptr<float>(), outs[0].nbytes()), 0);
}

TEST(QsgdElias, WhatIsNotFiniteArrives) {
  const FlatLayout layout = layout_with_buffer({2});
  for (const float odd : {std::nanf(""), INFINITY, -INFINITY}) {
    at::Tensor gradient = at::zeros({16});
    gradient[0] = odd;
    gradient[1] = 1;
    EXPECT_FALSE(std::isfinite(code_both(Json::object(), layout, gradient).elias[0].item<float>())) << odd;
  }
}

}  // namespace
}  // namespace mlbench::compress
