#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::Pointwise;

std::unique_ptr<GradientCoder> make(const std::string& name, const Json& given, const FlatLayout& layout, int rank = 0,
                                    int size = 1) {
  OptionReader options("coder", given);
  const MakeCoder make_coder = read_coder(name, options);
  options.finish();
  return make_coder({layout, 42, rank, size});
}

at::Tensor flat_of(const std::vector<float>& values) {
  at::Tensor flat = at::zeros({16});
  for (size_t i = 0; i < values.size(); ++i) flat[static_cast<int64_t>(i)] = values[i];
  return flat;
}

std::vector<float> first_of(const at::Tensor& flat, size_t count) {
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + count};
}

// What comes out in steps of one rank with these gradients.
std::vector<std::vector<float>> steps_of(GradientCoder& coder, const std::vector<std::vector<float>>& gradients) {
  std::vector<std::vector<float>> results;
  for (const auto& values : gradients) {
    at::Tensor gradient = flat_of(values);
    coder.begin({.step = static_cast<int64_t>(results.size())});
    const Payload payload = coder.encode(0, gradient);
    coder.absorb(0, std::span(&payload.data, 1), gradient);
    results.push_back(first_of(gradient, values.size()));
  }
  return results;
}

// Kept: (1, 0, 0.5), then (0, 1, 0).
TEST(TopK, ThreeStepsComputedByHand) {
  const FlatLayout layout = layout_with_buffer({3});
  const auto coder = make("top_k", {{"share", 0.34}}, layout);
  EXPECT_EQ(coder->bytes_per_step(), 8U);
  EXPECT_THAT(steps_of(*coder, {{1, -2, 0.5}, {1, 1, -0.5}, {0, 0, 0.25}}),
              ElementsAre(ElementsAre(0, -2, 0), ElementsAre(2, 0, 0), ElementsAre(0, 1, 0)));
  const auto forgets = make("top_k", {{"share", 0.34}, {"error_feedback", false}}, layout);
  EXPECT_THAT(steps_of(*forgets, {{1, -2, 0.5}, {1, 1, -0.5}, {0, 0, 0.25}}),
              ElementsAre(ElementsAre(0, -2, 0), ElementsAre(1, 0, 0), ElementsAre(0, 0, 0.25)));
}

// Two of four elements are sent, and one of the other two: an index has two bits, and two means each are sent twice.
//
//   step  to send                      chosen         first means  left            second means
//   1     1, -4, 0.5, 2; 0.25, -8      -4, 2, -8      2, -6        2, 0, -2        1, -2
//   2     2, 1, 0.5, -1; 0.25, 3       2, 1, 3        2            0, -1, 1        0.5, -1
//   3     -0.5, 0, 0.5, -1; 0.25, 0.5  -0.5, -1, 0.5  0.5, -0.75   0.25, -0.25, 0  0.125, -0.25
//
// Kept: 1, 1, 0.5, -1; 0.25, 0, which the second gradient is added to; then what the third step chooses from.
TEST(TopK, ThreeStepsWithinChunksAndOfTwoBitsComputedByHand) {
  const auto coder = make("top_k", {{"share", 0.5}, {"chunk", 4}, {"bits", 2}}, layout_with_buffer({6}));
  EXPECT_EQ(coder->bytes_per_step(), 1U + 2U * (8U + 1U));
  EXPECT_THAT(steps_of(*coder, {{1, -4, 0.5, 2, 0.25, -8}, {1, 0, 0, 0, 0, 3}, {0, 0, 0, 0, 0, 0}}),
              ElementsAre(ElementsAre(0, -5, 0, 3, 0, -8), ElementsAre(2.5, 1, 0, 0, 0, 2.5),
                          ElementsAre(-0.625, 0, 0, -1, 0, 0.625)));
}

// Chunks of 4,096, 904, 100 and 10 elements send 64, 14, 2 and 1 of them, with indices of 12 bits.
TEST(TopK, BytesOfChunksAndBitsAreThoseOfTheFormula) {
  const FlatLayout layout = layout_with_buffer({5000, 100, 10});
  Json options = {{"share", 1 / 64.0}, {"chunk", 4096}};
  EXPECT_EQ(make("top_k", options, layout)->bytes_per_step(), 122U + 4U * 81U);
  options["bits"] = 2;
  EXPECT_EQ(make("top_k", options, layout)->bytes_per_step(), 122U + 2U * (8U + 10U + 8U + 1U + 8U + 1U));
  options["chunk"] = 0;
  EXPECT_EQ(make("top_k", options, layout)->bytes_per_step(), 4U * 80U + 2U * (8U + 10U));
}

at::Tensor normal_values(int64_t count) {
  RandomSequence random(8);
  at::Tensor values = at::empty({count});
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(random.normal());
  return values;
}

at::Tensor decoded(GradientCoder& coder, const at::Tensor& gradient) {
  at::Tensor out = at::empty_like(gradient);
  const Payload payload = coder.encode(0, gradient);
  EXPECT_EQ(payload.bytes, coder.bytes_per_step());
  coder.absorb(0, std::span(&payload.data, 1), out);
  return out;
}

TEST(TopK, ChoosesTheLargestOfEachChunk) {
  const at::Tensor values = normal_values(1024);
  Json options = {{"share", 0.0625}, {"chunk", 64}, {"error_feedback", false}};
  const at::Tensor out = decoded(*make("top_k", options, layout_with_buffer({1024})), values);
  for (int64_t first = 0; first < 1024; first += 64) {
    const at::Tensor part = values.narrow(0, first, 64), sent = out.narrow(0, first, 64);
    EXPECT_TRUE(at::equal(sent, at::where(part.abs() >= std::get<0>(part.abs().topk(4)).min(), part, 0.0F))) << first;
  }
  const at::Tensor whole = decoded(*make("top_k", {{"share", 0.0625}}, layout_with_buffer({1024})), values);
  EXPECT_FALSE(at::equal(out, whole));
  options["chunk"] = 1024;
  EXPECT_TRUE(at::equal(decoded(*make("top_k", options, layout_with_buffer({1024})), values), whole));
}

// Each bit leaves less of the values that are sent; the first leaves less than all of them, and two a twentieth.
TEST(TopK, EachBitLeavesLessOfTheValues) {
  const FlatLayout layout = layout_with_buffer({4096, 1024});
  const at::Tensor values = normal_values(5120);
  Json options = {{"share", 1 / 64.0}, {"chunk", 1024}, {"error_feedback", false}};
  const at::Tensor exact = decoded(*make("top_k", options, layout), values);
  double before = exact.square().sum().item<double>();
  for (int bits = 1; bits <= 8; ++bits) {
    options["bits"] = bits;
    const auto coder = make("top_k", options, layout);
    EXPECT_TRUE(coder->decodes_alone());
    const at::Tensor out = decoded(*coder, values);
    EXPECT_TRUE(at::equal(out == 0, exact == 0)) << bits;
    const double left = (out - exact).square().sum().item<double>();
    EXPECT_LT(left, before) << bits;
    if (bits == 2) {
      EXPECT_LT(std::sqrt(left / exact.square().sum().item<double>()), 0.1);
    }
    before = left;
  }
}

// Kept: (0.5, 0, 0), then (0, 0, -0.75): the third step sends nothing.
TEST(Threshold, ThreeStepsComputedByHand) {
  const auto coder = make("threshold", {{"threshold", 1}}, layout_with_buffer({3}));
  EXPECT_EQ(coder->bytes_per_step(), std::nullopt);
  EXPECT_THAT(steps_of(*coder, {{0.5, -2, 1}, {0.75, 0, -0.75}, {0.25, 0, 0.5}}),
              ElementsAre(ElementsAre(0, -2, 1), ElementsAre(1.25, 0, 0), ElementsAre(0, 0, 0)));
}

// With 12 elements, each of up to 5 that are not zero takes 8 bytes; beyond, all together take 48, without the padding.
TEST(NonZero, ThreeStepsComputedByHandAndBytesByTheFormula) {
  const FlatLayout layout = layout_with_buffer({12});
  const auto coder = make("nonzero", Json::object(), layout);
  EXPECT_EQ(coder->bytes_per_step(), std::nullopt);
  EXPECT_THAT(steps_of(*coder, {{0.5, -2, 0}, {0, 0, 0}, {0, 1e-40F, 3}}),
              ElementsAre(ElementsAre(0.5, -2, 0), ElementsAre(0, 0, 0), ElementsAre(0, 1e-40F, 3)));
  for (const auto& [filled, bytes] : {std::pair{0, 0U}, {1, 8U}, {5, 40U}, {6, 48U}, {12, 48U}}) {
    const Payload payload = coder->encode(0, flat_of(std::vector<float>(static_cast<size_t>(filled), 2)));
    EXPECT_EQ(payload.bytes, bytes) << filled;
    EXPECT_TRUE(payload.uneven);
  }
}

// One rank sends elements, the other the gradient: the sum is that of both, with the bits of an addition.
TEST(NonZero, RanksChooseTheSmallerFormEachForItself) {
  const FlatLayout layout = layout_with_buffer({12});
  const auto coder = make("nonzero", Json::object(), layout);
  std::vector<float> few(12), all(12);
  few[3] = 0.1F;
  few[11] = -7;
  for (size_t i = 0; i < all.size(); ++i) all[i] = 0.3F * static_cast<float>(i + 1);
  const std::vector<at::Tensor> payloads = {coder->encode(0, flat_of(few)).data, coder->encode(0, flat_of(all)).data};
  EXPECT_EQ(payloads[0].numel(), 4);
  at::Tensor gradient = flat_of(few);
  coder->absorb(0, payloads, gradient);
  EXPECT_TRUE(at::equal(gradient, flat_of(few) + flat_of(all)));
}

// Estimates: (0, -2, 0), (1, -2, 0), (1, 0, 0): where the gradient is furthest from them.
TEST(Ef21, ThreeStepsComputedByHand) {
  const auto coder = make("ef21", {{"share", 0.34}}, layout_with_buffer({3}));
  EXPECT_EQ(coder->bytes_per_step(), 8U);
  EXPECT_THAT(steps_of(*coder, {{1, -2, 0.5}, {1, -1.5, 0.25}, {0.5, 0, 0}}),
              ElementsAre(ElementsAre(0, -2, 0), ElementsAre(1, -2, 0), ElementsAre(1, 0, 0)));
}

// u and v at first (1, -2); the second is sent. Then u = (1.5, 1), v = (2.5, 1), then u = (1, 1.5), v = (1, 2.5).
TEST(DeepGradient, ThreeStepsComputedByHand) {
  const Json options = {{"share", 0.5}, {"coder_momentum", 0.5}};
  const auto coder = make("deep_gradient", options, layout_with_buffer({2}));
  EXPECT_EQ(coder->bytes_per_step(), 8U);
  EXPECT_THAT(steps_of(*coder, {{1, -2}, {1, 1}, {1, 1}}),
              ElementsAre(ElementsAre(0, -2), ElementsAre(2.5, 0), ElementsAre(0, 2.5)));
  // u = 0.5 (0 + g), v = u + g: (1.5, -3), then u = (0.75, 0.5), v = (3.25, 1.5).
  const auto nesterov = make("deep_gradient", {{"share", 0.5}, {"coder_momentum", 0.5}, {"coder_nesterov", true}},
                             layout_with_buffer({2}));
  EXPECT_THAT(steps_of(*nesterov, {{1, -2}, {1, 1}}), ElementsAre(ElementsAre(0, -3), ElementsAre(3.25, 0)));
}

// The norm 5 of the mean gradient is clipped to 2.5; with four ranks, the share of each to half of it.
TEST(DeepGradient, ClipsTheMeanGradientOfARank) {
  const Json options = {{"share", 1}, {"coder_clip", 2.5}};
  const auto clipped = [&](int size, float share) {
    const auto coder = make("deep_gradient", options, layout_with_buffer({2}), 0, size);
    at::Tensor gradient = flat_of({3 * share, -4 * share});
    coder->begin({.step = 0, .share = share});
    const Payload payload = coder->encode(0, gradient);
    coder->absorb(0, std::span(&payload.data, 1), gradient);
    return first_of(gradient, 2);
  };
  EXPECT_THAT(clipped(1, 1), ElementsAre(FloatEq(1.5), FloatEq(-2)));
  EXPECT_THAT(clipped(4, 0.25), ElementsAre(FloatEq(0.1875), FloatEq(-0.25)));
}

// The steps send these of 1,000 elements: 250, then 25 % times (0.01 / 0.25)^(1/2), then 10.
TEST(DeepGradient, SendsLessFromStepToStepOfItsWarmUp) {
  const auto coder = make("deep_gradient", {{"share", 0.01}, {"coder_warmup_steps", 2}}, layout_with_buffer({1000}));
  EXPECT_EQ(coder->bytes_per_step(), std::nullopt);
  std::vector<uint64_t> bytes;
  for (int64_t step = 0; step < 3; ++step) {
    coder->begin({.step = step});
    bytes.push_back(coder->encode(0, at::ones({1008})).bytes);
  }
  EXPECT_THAT(bytes, ElementsAre(8 * 250, 8 * 50, 8 * 10));
}

// The scale is 2 / 127: 1 is 63.5 of it, which rounds to 64. Left: 1 - 128 / 127.
TEST(Int8, ThreeStepsComputedByHand) {
  const auto coder = make("int8", Json::object(), layout_with_buffer({2}));
  EXPECT_EQ(coder->bytes_per_step(), 6U);
  const auto near = [](float a, float b) { return ElementsAre(FloatNear(a, 1e-6F), FloatNear(b, 1e-6F)); };
  EXPECT_THAT(steps_of(*coder, {{2, 1}, {0, 0}, {127, 1.4F}}),
              ElementsAre(near(2, 128 / 127.0F), near(0, -1 / 127.0F), near(127, 1)));
  EXPECT_THAT(steps_of(*make("int8", {{"error_feedback", false}}, layout_with_buffer({2})), {{2, 1}, {0, 0}}),
              ElementsAre(near(2, 128 / 127.0F), near(0, 0)));
}

// Each row of a matrix has a scale, so that a small row keeps its digits.
TEST(Int8, RowsHaveScalesOfTheirOwn) {
  FlatLayout layout = layout_with_buffer({4});
  layout.ranges[0].shape = {2, 2};
  const auto coder = make("int8", Json::object(), layout);
  EXPECT_EQ(coder->bytes_per_step(), 12U);
  EXPECT_THAT(steps_of(*coder, {{1000, 0, 0.001F, -0.001F}}).front(),
              ElementsAre(1000, 0, FloatNear(0.001F, 1e-9F), FloatNear(-0.001F, 1e-9F)));
}

// e4m3 has 3 bits of mantissa: of 448, 100 is 96 or 104, and 3 / 448 of the scale exact.
TEST(Fp8, RoundsToThreeBitsOfMantissa) {
  const auto coder = make("fp8", {{"error_feedback", false}}, layout_with_buffer({4}));
  EXPECT_THAT(steps_of(*coder, {{448, 101, 3, -0.01F}}).front(),
              ElementsAre(FloatEq(448), FloatEq(104), FloatEq(3), FloatNear(-0.01F, 0.001F)));
  const auto e5m2 = make("fp8", {{"type", "e5m2"}, {"error_feedback", false}}, layout_with_buffer({2}));
  EXPECT_THAT(steps_of(*e5m2, {{57344, 101}}).front(), ElementsAre(FloatEq(57344), FloatEq(96)));
}

// The largest, 4, is the scale: of it 1, 1 / 2, ... 1 / 64 and 0 stay; 0.75 of a power is the next one.
TEST(Fp4, ThreeStepsComputedByHand) {
  const auto coder = make("fp4", {{"error_feedback", true}}, layout_with_buffer({3}));
  EXPECT_EQ(coder->bytes_per_step(), 6U);
  const auto near = [](float a, float b, float c) {
    return ElementsAre(FloatNear(a, 1e-6F), FloatNear(b, 1e-6F), FloatNear(c, 1e-6F));
  };
  // Left behind the first step: 0, 0.9, 1; behind the second: 0, -0.1, 0.
  EXPECT_THAT(steps_of(*coder, {{4, 2.9F, -3}, {0, 0, 0}, {0.1F, 0.1F, -4}}),
              ElementsAre(near(4, 2, -4), near(0, 1, 1), near(0.125F, 0, -4)));
}

TEST(Fp4, RoundsToPowersOfTwoWithinItsBound) {
  const auto coder = make("fp4", Json::object(), layout_with_buffer({6}));
  EXPECT_EQ(coder->bytes_per_step(), 7U);
  EXPECT_TRUE(coder->decodes_alone());
  EXPECT_THAT(steps_of(*coder, {{-64, 47, 48, 1, 0.5F, -0.49F}}).front(), ElementsAre(-64, 32, 64, 1, 1, 0));
  constexpr int64_t kCount = 1008;
  const auto many = make("fp4", Json::object(), layout_with_buffer({kCount}));
  RandomSequence random(5);
  at::Tensor values = at::zeros({kCount});
  for (int64_t i = 0; i < kCount; ++i) values[i] = random.normal() * std::pow(random.uniform(), 8);
  at::Tensor decoded = values.clone();
  const Payload payload = many->encode(0, values);
  many->absorb(0, std::span(&payload.data, 1), decoded);
  const at::Tensor bound = at::max(values.abs() / 3, values.abs().max() / 128);
  EXPECT_TRUE(((values - decoded).abs() <= bound * 1.000001).all().item<bool>());
  EXPECT_GT((decoded == 0).sum().item<int64_t>(), 100);
}

// Powers of two stay; 3 becomes 2 or 4, 0 stays; what is infinite stays so.
TEST(Natural, DrawsOneOfTheTwoPowersAround) {
  const auto coder = make("natural", Json::object(), layout_with_buffer({4}));
  EXPECT_EQ(coder->bytes_per_step(), 5U);
  int up = 0;
  const std::vector<std::vector<float>> gradients(1000, {-0.25F, 3, 0, INFINITY});
  for (const std::vector<float>& step : steps_of(*coder, gradients)) {
    EXPECT_EQ(step[0], -0.25F);
    EXPECT_TRUE(step[1] == 2 || step[1] == 4) << step[1];
    EXPECT_EQ(step[2], 0);
    EXPECT_EQ(step[3], INFINITY);
    up += static_cast<int>(step[1] == 4);
  }
  EXPECT_NEAR(up, 500, 4 * std::sqrt(250.0));
}

// Means of magnitudes 2, 0 and 1.5; kept (-1, -1), then nothing.
TEST(EfSign, ThreeStepsComputedByHand) {
  const auto coder = make("ef_sign", Json::object(), layout_with_buffer({2}));
  EXPECT_EQ(coder->bytes_per_step(), 5U);
  EXPECT_THAT(steps_of(*coder, {{1, -3}, {1, 1}, {-1, 2}}),
              ElementsAre(ElementsAre(2, -2), ElementsAre(0, 0), ElementsAre(-1.5, 1.5)));
}

// Kept (-1, 1, 0) behind the first two steps.
TEST(OneBit, ThreeStepsComputedByHand) {
  const auto coder = make("one_bit", Json::object(), layout_with_buffer({3}));
  EXPECT_EQ(coder->bytes_per_step(), 9U);
  EXPECT_THAT(steps_of(*coder, {{1, 3, -2}, {1, 1, 1}, {0, 0, 0}}),
              ElementsAre(ElementsAre(2, 2, -2), ElementsAre(1, 1, 1), ElementsAre(-1, 0.5, 0.5)));
}

TEST(SignVote, IsTheMajority) {
  const FlatLayout layout = layout_with_buffer({4});
  const std::vector<std::vector<float>> gradients = {{1, -2, 3, -9}, {0.1F, 5, -1, -9}, {-7, 1, 1, -9}};
  std::vector<at::Tensor> payloads;
  for (int rank = 0; rank < 3; ++rank) {
    const auto coder = make("sign_vote", Json::object(), layout, rank, 3);
    payloads.push_back(coder->encode(0, flat_of(gradients[static_cast<size_t>(rank)])).data);
    EXPECT_EQ(payloads.back().nbytes(), 1U);
  }
  const auto coder = make("sign_vote", Json::object(), layout);
  at::Tensor sum = at::empty({16});
  coder->absorb(0, payloads, sum);
  EXPECT_THAT(first_of(sum, 4), ElementsAre(1, 1, 1, -1));
  coder->absorb(0, std::span(payloads).first(2), sum);
  EXPECT_THAT(first_of(sum, 4), ElementsAre(1, 0, 0, -1)) << "a tie is zero";
}

// 1 + 2^-8 lies between two bfloat16 and goes to the even one; 1 + 3 * 2^-8 likewise, to the upper one.
TEST(Half, RoundsToNearestEvenAndKeepsTheRest) {
  const float tie = 1 + 0x1p-8F, odd = 1 + 3 * 0x1p-8F;
  const FlatLayout layout = layout_with_buffer({2});
  EXPECT_THAT(steps_of(*make("half", Json::object(), layout), {{tie, odd}}), ElementsAre(ElementsAre(1, 1 + 0x1p-6F)));
  EXPECT_THAT(steps_of(*make("half", {{"type", "float16"}}, layout), {{tie, odd}}), ElementsAre(ElementsAre(tie, odd)));
  // Kept 2^-8 and -2^-8: 1 + 2^-7, which a bfloat16 holds, and 1 + 2^-7.
  EXPECT_THAT(steps_of(*make("half", {{"error_feedback", true}}, layout), {{tie, odd}, {tie, odd}}),
              ElementsAre(ElementsAre(1, 1 + 0x1p-6F), ElementsAre(1 + 0x1p-7F, 1 + 0x1p-7F)));
}

TEST(Qsgd, IsOnTheGridNextToTheValue) {
  RandomSequence random(3);
  std::vector<float> values(16);
  for (float& value : values) value = static_cast<float>(random.normal());
  for (const bool largest : {true, false}) {
    double norm = 0;
    for (const float value : values) {
      norm = largest ? std::max<double>(norm, std::abs(value)) : std::hypot(norm, static_cast<double>(value));
    }
    const double step = norm / 7;  // 2^(4 - 1) - 1 levels
    const auto coder = make("qsgd", {{"norm", largest ? "largest" : "euclidean"}}, layout_with_buffer({16}));
    EXPECT_EQ(coder->bytes_per_step(), 4U + 8U);
    const auto results = steps_of(*coder, {values});
    for (size_t i = 0; i < values.size(); ++i) {
      const double level = results[0][i] / step;
      EXPECT_NEAR(level, std::round(level), 1e-5);
      EXPECT_LE(std::abs(results[0][i] - values[i]), step * 1.00001);
    }
  }
}

TEST(Qsgd, WhatIsNotFiniteArrives) {
  const auto coder = make("qsgd", Json::object(), layout_with_buffer({2}));
  for (const float odd : {std::nanf(""), INFINITY, -INFINITY}) {
    EXPECT_FALSE(std::isfinite(steps_of(*coder, {{odd, 1}})[0][0])) << odd;
  }
}

// A first tensor of 50 elements and a second of 2. What is 0, or at least the scale, leaves nothing to draw.
//
//   step  first tensor           mean  sigma  2.5 sigma  scale           second  sigma  scale
//   1     5 and -5, else 0       0     1      2.5        2.5: clipped    1, -1   1      1
//   2     2 and -2 nine times    0     1.2    3          2               1, -1   1      1
//   3     4 at 45 places         3.6   1.2    3          3: clipped      3, 3    0      3: not clipped
TEST(TernGrad, ThreeStepsComputedByHand) {
  const FlatLayout layout = layout_with_buffer({50, 2});
  const auto coder = make("terngrad", Json::object(), layout);
  EXPECT_EQ(coder->bytes_per_step(), 4U + 13U + 4U + 1U);
  std::vector<std::vector<float>> given(3, std::vector<float>(50)), expected = given;
  given[0][0] = 5;
  given[0][7] = -5;
  expected[0][0] = 2.5;
  expected[0][7] = -2.5;
  for (size_t i = 0; i < 18; ++i) given[1][i * 2] = expected[1][i * 2] = i % 2 == 0 ? 2 : -2;
  std::fill_n(given[2].begin(), 45, 4.0F);
  std::fill_n(expected[2].begin(), 45, 3.0F);
  const std::vector<float> second[] = {{1, -1}, {1, -1}, {3, 3}};
  for (size_t step = 0; step < 3; ++step) {
    at::Tensor gradient = at::zeros({layout.parameter_elements});
    at::Tensor behind = gradient.narrow(0, layout.ranges[1].offset, 2);
    std::ranges::copy(given[step], gradient.data_ptr<float>());
    std::ranges::copy(second[step], behind.data_ptr<float>());
    coder->begin({.step = static_cast<int64_t>(step)});
    const Payload payload = coder->encode(0, gradient);
    EXPECT_EQ(payload.bytes, 22U);
    coder->absorb(0, std::span(&payload.data, 1), gradient);
    EXPECT_EQ(first_of(gradient, 50), expected[step]) << "step " << step + 1;
    EXPECT_EQ(first_of(behind, 2), second[step]) << "step " << step + 1;
  }
}

TEST(RandomK, AllRanksDrawTheSameElements) {
  const FlatLayout layout = layout_with_buffer({10});
  for (const char* name : {"random_k", "random_block"}) {
    SCOPED_TRACE(name);
    const auto first = make(name, {{"share", 0.3}}, layout, 0, 2), second = make(name, {{"share", 0.3}}, layout, 1, 2);
    bool differs = false;
    std::vector<float> before;
    for (int step = 0; step < 5; ++step) {
      for (auto* coder : {first.get(), second.get()}) coder->begin({.step = step});
      at::Tensor one = at::ones({16}), other = at::full({16}, 2.0F);
      const Payload of_one = first->encode(0, one), of_other = second->encode(0, other);
      EXPECT_EQ(of_one.bytes, 12U);
      const at::Tensor sum = of_one.data + of_other.data;
      first->absorb(0, std::span(&sum, 1), one);
      second->absorb(0, std::span(&sum, 1), other);
      EXPECT_TRUE(at::equal(one, other));
      EXPECT_EQ((one > 0).sum().item<int64_t>(), 3);
      differs |= !before.empty() && first_of(one, 10) != before;
      before = first_of(one, 10);
    }
    EXPECT_TRUE(differs);
  }
}

// Numbers from 0 to 2^bits - 1, of every width and of odd lengths.
TEST(PackedBits, ComeOutAsTheyWentIn) {
  for (int bits = 1; bits <= 8; ++bits) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{100}}) {
      std::vector<uint8_t> values(count), out(count);
      for (size_t i = 0; i < count; ++i) values[i] = static_cast<uint8_t>((i * 37 + 5) % (size_t{1} << bits));
      std::vector<uint8_t> bytes(static_cast<size_t>(packed_bytes(static_cast<int64_t>(count), bits)) + 1, 0xAA);
      pack_bits(values, bits, bytes.data());
      EXPECT_EQ(bytes.back(), 0xAA);
      unpack_bits(bytes.data(), bits, out);
      EXPECT_EQ(out, values) << bits << " bits, " << count;
    }
  }
  const std::vector<uint8_t> three = {1, 2, 3};
  uint8_t bytes[2] = {};
  pack_bits(three, 3, bytes);
  EXPECT_THAT(bytes, ElementsAre(0b11010001, 0b0));
}

// ---- PowerSGD: rank 1 of a matrix of 4 columns, in plain float64 ----------------------------------------------------

using Vector = std::vector<double>;

struct PowerStep {
  Vector out, error, q;
};

// M = g + e; p = M q / |M q|; q' = M^T p; out = p q'^T; e' = M - out
PowerStep power_step(const Vector& gradient, const Vector& error, const Vector& q, size_t rows = 3) {
  constexpr size_t kColumns = 4;
  Vector m(rows * kColumns), p(rows, 0);
  PowerStep step{Vector(m.size()), Vector(m.size()), Vector(kColumns, 0)};
  for (size_t i = 0; i < m.size(); ++i) m[i] = gradient[i] + error[i];
  double square = 0;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < kColumns; ++c) p[r] += m[r * kColumns + c] * q[c];
    square += p[r] * p[r];
  }
  for (double& value : p) value /= std::sqrt(square);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < kColumns; ++c) step.q[c] += m[r * kColumns + c] * p[r];
  }
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < kColumns; ++c) {
      step.out[r * kColumns + c] = p[r] * step.q[c];
      step.error[r * kColumns + c] = m[r * kColumns + c] - step.out[r * kColumns + c];
    }
  }
  return step;
}

Vector tensor_of(const GradientCoder& coder, const std::string& name, size_t count) {
  NamedState state;
  coder.export_state(state);
  std::vector<float> values(count);
  std::memcpy(values.data(), state.tensor(name).bytes.data(), count * sizeof(float));
  return {values.begin(), values.end()};
}

TEST(PowerSgd, ThreeStepsComputedInFloat64) {
  FlatLayout layout = layout_with_buffer({12});
  layout.ranges[0].shape = {3, 2, 2};
  const auto coder = make("power_sgd", {{"min_compression", 1}}, layout);
  EXPECT_EQ(coder->bytes_per_step(), (3U + 4U) * 4U);
  RandomSequence random(9);
  Vector error, q;
  for (int number = 0; number < 4; ++number) {
    Vector values(12);
    for (double& value : values) value = static_cast<float>(random.normal());
    at::Tensor gradient = flat_of({values.begin(), values.end()});
    coder->begin({.step = number});
    for (int round = 0; round < 2; ++round) {
      const Payload payload = coder->encode(round, gradient);
      coder->absorb(round, std::span(&payload.data, 1), gradient);
    }
    if (number > 0) {  // the first Q is drawn
      const PowerStep step = power_step(values, error, q);
      EXPECT_THAT(first_of(gradient, 12),
                  Pointwise(FloatNear(2e-6F), std::vector<float>(step.out.begin(), step.out.end())));
    }
    error = tensor_of(*coder, "coder/error", 12);
    q = tensor_of(*coder, "coder/q", 4);
  }
}

// Three tensors of 5, 3 and 2 elements are the square of 4 x 4, with zeros behind them; of rank 1, in plain float64.
TEST(PowerSgd, ThreeStepsOfABatchComputedInFloat64) {
  FlatLayout layout = layout_with_buffer({5, 3, 2});
  const auto coder = make("power_sgd", {{"batched", true}}, layout);
  EXPECT_EQ(coder->bytes_per_step(), 8U * 4U);
  RandomSequence random(9);
  Vector error, q;
  for (int number = 0; number < 4; ++number) {
    Vector values(16, 0);
    at::Tensor gradient = at::zeros({layout.parameter_elements});
    const std::vector<int64_t> places = {0, 1, 2, 3, 4, 16, 17, 18, 32, 33};
    for (size_t i = 0; i < places.size(); ++i) {
      gradient[places[i]] = values[i] = static_cast<float>(random.normal());
    }
    coder->begin({.step = number});
    for (int round = 0; round < 2; ++round) {
      const Payload payload = coder->encode(round, gradient);
      EXPECT_EQ(payload.bytes, 4U * 4U);
      coder->absorb(round, std::span(&payload.data, 1), gradient);
    }
    if (number > 0) {
      const PowerStep step = power_step(values, error, q, 4);
      for (size_t i = 0; i < places.size(); ++i) EXPECT_NEAR(gradient[places[i]].item<float>(), step.out[i], 2e-6);
      EXPECT_GT(std::abs(step.error[11]), 1e-3) << "the zeros have errors, too";
      const Vector kept = tensor_of(*coder, "coder/error", 16);
      for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(kept[i], step.error[i], 2e-6) << i;
      EXPECT_EQ(gradient[5].item<float>(), 0) << "padding";
    }
    error = tensor_of(*coder, "coder/error", 16);
    q = tensor_of(*coder, "coder/q", 4);
  }
}

TEST(PowerSgd, AMatrixOfItsRankArrivesWhole) {
  FlatLayout layout = layout_with_buffer({12});
  layout.ranges[0].shape = {3, 4};
  const auto coder = make("power_sgd", {{"min_compression", 1}}, layout);
  at::Tensor gradient = at::zeros({16});
  gradient.narrow(0, 0, 12).view({3, 4}).copy_(at::outer(at::arange(1, 4, at::kFloat), at::arange(-1, 3, at::kFloat)));
  const at::Tensor expected = gradient.clone();
  coder->begin({});
  for (int round = 0; round < 2; ++round) {
    const Payload payload = coder->encode(round, gradient);
    coder->absorb(round, std::span(&payload.data, 1), gradient);
  }
  EXPECT_TRUE(at::allclose(gradient, expected, 1e-5, 1e-6));
}

// ---- ACP-SGD: rank 1 of a 3 x 4 matrix, and a vector of 2 -----------------------------------------------------------

// M = g + e;  e' = M - out. In odd steps q <- q / |q|, p = M q, out = p q^T; in even ones p <- p / |p|, q = M^T p, and
// the same.
class AlternatingReference {
 public:
  explicit AlternatingReference(Vector q) : q_(std::move(q)) {}
  Vector step(const Vector& gradient) {
    const bool odd = ++steps_ % 2 == 1;
    normalise(odd ? q_ : p_);
    (odd ? p_ : q_).assign(odd ? 3 : 4, 0);
    Vector m(12), out(12);
    for (size_t r = 0; r < 3; ++r) {
      for (size_t c = 0; c < 4; ++c) {
        m[r * 4 + c] = gradient[r * 4 + c] + error_[r * 4 + c];
        (odd ? p_[r] : q_[c]) += m[r * 4 + c] * (odd ? q_[c] : p_[r]);
      }
    }
    for (size_t r = 0; r < 3; ++r) {
      for (size_t c = 0; c < 4; ++c) {
        out[r * 4 + c] = p_[r] * q_[c];
        error_[r * 4 + c] = m[r * 4 + c] - out[r * 4 + c];
      }
    }
    return out;
  }
  const Vector& error() const { return error_; }

 private:
  static void normalise(Vector& values) {
    double square = 0;
    for (const double value : values) square += value * value;
    for (double& value : values) value /= std::sqrt(square);
  }

  Vector p_, q_, error_ = Vector(12, 0);
  int steps_ = 0;
};

FlatLayout matrix_and_vector() {
  FlatLayout layout = layout_with_buffer({12, 2});
  layout.ranges[0].shape = {3, 2, 2};
  return layout;
}

TEST(AcpSgd, SixStepsComputedInFloat64) {
  const FlatLayout layout = matrix_and_vector();
  const auto coder = make("acp_sgd", {{"min_compression", 1}}, layout);
  EXPECT_EQ(coder->rounds(), 1);
  NamedState state;
  coder->export_state(state);
  const Vector first = {1, -2, 0.5, 3};
  const std::vector<float> given(first.begin(), first.end());
  std::memcpy(state.tensors["coder/q"].bytes.data(), given.data(), 4 * sizeof(float));
  state.scalars["coder/steps"] = int64_t{2};  // in its first step a coder draws Q
  coder->import_state(state);
  AlternatingReference reference(first);
  RandomSequence random(9);
  for (int number = 0; number < 6; ++number) {
    Vector values(12);
    at::Tensor gradient = at::zeros({32});
    for (size_t i = 0; i < 12; ++i) {
      gradient[static_cast<int64_t>(i)] = values[i] = static_cast<float>(random.normal());
    }
    gradient[16] = number;
    gradient[17] = -1;
    coder->begin({.step = number});
    const Payload payload = coder->encode(0, gradient);
    EXPECT_EQ(payload.kind, PayloadKind::kSum);
    EXPECT_EQ(payload.bytes, 4U * ((number % 2 == 0 ? 3U : 4U) + 2U)) << "rows, then columns; and the vector";
    EXPECT_EQ(payload.bytes, payload.data.nbytes());
    coder->absorb(0, std::span(&payload.data, 1), gradient);
    const Vector out = reference.step(values);
    EXPECT_THAT(first_of(gradient, 12), Pointwise(FloatNear(5e-6F), std::vector<float>(out.begin(), out.end())));
    EXPECT_THAT(first_of(gradient.narrow(0, 16, 2), 2), ElementsAre(static_cast<float>(number), -1));
    const Vector error = tensor_of(*coder, "coder/error", 18);
    EXPECT_THAT(std::vector<float>(error.begin(), error.begin() + 12),
                Pointwise(FloatNear(5e-6F), std::vector<float>(reference.error().begin(), reference.error().end())));
    EXPECT_EQ(error[16], 0) << "a vector leaves nothing";
  }
}

// With M = a b^T the first step sends M q q^T and keeps the rest. The second has P = a / |a|, and sends all that is
// left: both together are 2 M.
TEST(AcpSgd, AMatrixOfItsRankArrivesWholeInTwoSteps) {
  const auto coder = make("acp_sgd", {{"min_compression", 1}}, matrix_and_vector());
  const at::Tensor matrix = at::outer(at::arange(1, 4, at::kFloat), at::arange(-1, 3, at::kFloat)).view({-1});
  at::Tensor sum = at::zeros({12});
  for (int number = 0; number < 2; ++number) {
    at::Tensor gradient = at::zeros({32});
    gradient.narrow(0, 0, 12).copy_(matrix);
    coder->begin({.step = number});
    const Payload payload = coder->encode(0, gradient);
    coder->absorb(0, std::span(&payload.data, 1), gradient);
    sum += gradient.narrow(0, 0, 12);
    EXPECT_EQ(at::allclose(sum, matrix * (number + 1), 1e-5, 1e-5), number == 1);
  }
}

}  // namespace
}  // namespace mlbench::compress
