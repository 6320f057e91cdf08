#include "mlbench/comm/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "mlbench/comm/half.h"

namespace mlbench::comm {
namespace {

// The value of the bits by the definition of IEEE 754 binary16.
double float16_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Half, EveryFloat16IsReadByItsDefinitionAndWrittenBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = float16_to_float(half);
    if (std::isnan(float16_value(half))) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(float16_to_float(float_to_float16(value)))) << bits;
    } else {
      ASSERT_EQ(value, float16_value(half)) << bits;
      ASSERT_EQ(float_to_float16(value), half) << bits;
    }
  }
}

// Between two neighbours: below the middle the lower, above it the upper, in the middle the even one.
TEST(Half, RoundingIsToNearestEven) {
  for (uint16_t bits = 0; bits < 0x7c00; ++bits) {
    const double low = float16_value(bits);
    const double high = bits == 0x7bff ? 65536.0 : float16_value(static_cast<uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(float_to_float16(std::nextafter(middle, -1.0F)), bits);
    ASSERT_EQ(float_to_float16(std::nextafter(middle, 1e9F)), bits + 1);
    ASSERT_EQ(float_to_float16(middle), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(float_to_float16(-middle), (bits % 2 == 0 ? bits : bits + 1) | 0x8000);
  }
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const auto middle = std::bit_cast<float>(bits << 16 | 0x8000U);
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(bits << 16 | 0x7fffU)), bits);
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(bits << 16 | 0x8001U)), bits + 1);
    ASSERT_EQ(float_to_bfloat16(middle), bits % 2 == 0 ? bits : bits + 1);
  }
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7f800001U)))));
}

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax};

template <typename T>
T apply(ReduceOp op, T a, T b) {
  if (op == ReduceOp::kSum) return static_cast<T>(a + b);
  if (op == ReduceOp::kProd) return static_cast<T>(a * b);
  return op == ReduceOp::kMin ? std::min(a, b) : std::max(a, b);
}

template <typename T>
void check_plain(AccumulateFunction (*function)(DType, ReduceOp)) {
  for (const ReduceOp op : kOps) {
    for (const size_t count : {0, 1, 7, 8, 33, 1000}) {
      std::vector<T> a(count + 1), b(count), expected(count + 1);
      for (size_t i = 0; i < count; ++i) {
        a[i] = static_cast<T>(i * 7 % 53);
        b[i] = static_cast<T>(i * 11 % 59);
        expected[i] = apply(op, a[i], b[i]);
      }
      a[count] = expected[count] = 99;  // beyond the end: untouched
      function(dtype_of<T>(), op)(a.data(), b.data(), count, false);
      EXPECT_EQ(a, expected) << name_of(dtype_of<T>()) << " x " << count;
    }
  }
}

TEST(Reduce, ExactOnSmallIntegers) {
  for (auto* function : {accumulate_function, portable_accumulate_function}) {
    check_plain<uint8_t>(function);
    check_plain<int8_t>(function);
    check_plain<int32_t>(function);
    check_plain<int64_t>(function);
    check_plain<float>(function);
    check_plain<double>(function);
  }
}

TEST(Reduce, IntegerSumsAndProductsWrap) {
  for (auto* function : {accumulate_function, portable_accumulate_function}) {
    int32_t a = std::numeric_limits<int32_t>::max();
    const int32_t b = 2;
    function(DType::kInt32, ReduceOp::kSum)(&a, &b, 1, false);
    EXPECT_EQ(a, std::numeric_limits<int32_t>::min() + 1);
    a = (1 << 30) + 3;
    function(DType::kInt32, ReduceOp::kProd)(&a, &b, 1, false);
    EXPECT_EQ(a, std::numeric_limits<int32_t>::min() + 6);
    int64_t c = (int64_t{1} << 62) + 5;
    const int64_t d = -4;
    function(DType::kInt64, ReduceOp::kProd)(&c, &d, 1, false);
    EXPECT_EQ(c, -20);
    int8_t e = 100;
    const int8_t f = 3;
    function(DType::kInt8, ReduceOp::kProd)(&e, &f, 1, false);
    EXPECT_EQ(e, 44);  // 300 - 256
  }
}

bool same_half(DType dtype, uint16_t x, uint16_t y) {
  const auto value = [&](uint16_t bits) {
    return dtype == DType::kFloat16 ? float16_to_float(bits) : bfloat16_to_float(bits);
  };
  return x == y || (std::isnan(value(x)) && std::isnan(value(y)));
}

// Every 16-bit pattern against shuffled others: vectorised and plain loops agree, in both orders of the operands.
TEST(Reduce, VectorisedHalvesEqualThePlainLoop) {
  std::vector<uint16_t> all(0x10000), others(0x10000);
  for (uint32_t i = 0; i < 0x10000; ++i) all[i] = others[i] = static_cast<uint16_t>(i);
  std::mt19937 random(1);
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const ReduceOp op : kOps) {
      for (const bool other_first : {false, true}) {
        std::shuffle(others.begin(), others.end(), random);
        std::vector<uint16_t> fast = all, plain = all;
        accumulate_function(dtype, op)(fast.data(), others.data(), fast.size() - 3, other_first);
        portable_accumulate_function(dtype, op)(plain.data(), others.data(), plain.size() - 3, other_first);
        for (size_t i = 0; i < all.size(); ++i) {
          ASSERT_TRUE(same_half(dtype, fast[i], plain[i])) << name_of(dtype) << " operands " << all[i] << ", "
                                                           << others[i] << ": " << fast[i] << " and " << plain[i];
        }
      }
    }
  }
}

TEST(Reduce, HalfSumIsTheRoundedFloatSum) {
  const float values[] = {1.0F, 0.0009765625F, 1024.0F, 0.5F, -3.25F, 65504.0F};
  for (const float x : values) {
    for (const float y : values) {
      uint16_t a = float_to_float16(x);
      const uint16_t b = float_to_float16(y);
      accumulate_function(DType::kFloat16, ReduceOp::kSum)(&a, &b, 1, false);
      EXPECT_EQ(a, float_to_float16(x + y)) << x << " + " << y;
    }
  }
}

TEST(Reduce, HalfProductIsTheRoundedFloatProduct) {
  const float values[] = {1.0F, 0.0009765625F, 1024.0F, 0.5F, -3.25F, 65504.0F};
  for (const float x : values) {
    for (const float y : values) {
      uint16_t a = float_to_bfloat16(x);
      const uint16_t b = float_to_bfloat16(y);
      const float product = bfloat16_to_float(a) * bfloat16_to_float(b);
      accumulate_function(DType::kBFloat16, ReduceOp::kProd)(&a, &b, 1, false);
      EXPECT_EQ(a, float_to_bfloat16(product)) << x << " * " << y;
    }
  }
}

template <typename T>
void check_division(DivideFunction (*function)(DType)) {
  const T values[] = {static_cast<T>(-7), static_cast<T>(-6), static_cast<T>(-1), 0, 1, 6, 7, 100, 17};
  std::vector<T> quotients(values, std::end(values));
  function(dtype_of<T>())(quotients.data(), quotients.size() - 1, 3);
  for (size_t i = 0; i + 1 < quotients.size(); ++i) {
    EXPECT_EQ(quotients[i], static_cast<T>(values[i] / 3)) << name_of(dtype_of<T>()) << ", element " << i;
  }
  EXPECT_EQ(quotients.back(), 17);  // beyond the end: untouched
}

TEST(Reduce, DividesAsTheLanguageDoes) {
  for (auto* function : {divide_function, portable_divide_function}) {
    check_division<uint8_t>(function);
    check_division<int8_t>(function);
    check_division<int32_t>(function);
    check_division<int64_t>(function);
    check_division<float>(function);
    check_division<double>(function);
  }
}

TEST(Reduce, IntegersAreDividedTowardsZero) {
  int32_t values[] = {-7, 7, -1, std::numeric_limits<int32_t>::min()};
  divide_function(DType::kInt32)(values, 4, 2);
  EXPECT_EQ(values[0], -3);
  EXPECT_EQ(values[1], 3);
  EXPECT_EQ(values[2], 0);
  EXPECT_EQ(values[3], -(1 << 30));
}

// Every 16-bit pattern: the quotient in float32, rounded; vectorised and plain loops agree.
TEST(Reduce, HalvesAreDividedInFloat) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const bool wide = dtype == DType::kFloat16;
    std::vector<uint16_t> fast(0x10000 - 3), plain;
    for (size_t i = 0; i < fast.size(); ++i) fast[i] = static_cast<uint16_t>(i);
    plain = fast;
    divide_function(dtype)(fast.data(), fast.size(), 5);
    portable_divide_function(dtype)(plain.data(), plain.size(), 5);
    for (size_t i = 0; i < fast.size(); ++i) {
      const auto bits = static_cast<uint16_t>(i);
      const float quotient = (wide ? float16_to_float(bits) : bfloat16_to_float(bits)) / 5.0F;
      const uint16_t expected = wide ? float_to_float16(quotient) : float_to_bfloat16(quotient);
      ASSERT_TRUE(same_half(dtype, fast[i], expected)) << name_of(dtype) << " " << i << ": " << fast[i];
      ASSERT_TRUE(same_half(dtype, plain[i], expected)) << name_of(dtype) << " " << i << ": " << plain[i];
    }
  }
}

// Every 16-bit pattern, and floats beside and between them: vectorised and plain loops agree with half.h.
TEST(Reduce, ConversionsEqualThoseOfOneElement) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const bool wide = dtype == DType::kFloat16;
    std::vector<uint16_t> all(0x10000 - 3);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    for (const WidenFunction widen : {widen_function(dtype), portable_widen_function(dtype)}) {
      std::vector<float> widened(all.size() + 1, 7.0F);
      widen(widened.data(), all.data(), all.size());
      for (size_t i = 0; i < all.size(); ++i) {
        const float expected = wide ? float16_to_float(all[i]) : bfloat16_to_float(all[i]);
        ASSERT_TRUE(widened[i] == expected || (std::isnan(widened[i]) && std::isnan(expected))) << i;
      }
      EXPECT_EQ(widened.back(), 7.0F);  // beyond the end: untouched
    }
    std::vector<float> values;
    for (uint32_t bits = 0; bits < 0xffff0000U; bits += 0x7fffU) values.push_back(std::bit_cast<float>(bits));
    for (const NarrowFunction narrow : {narrow_function(dtype), portable_narrow_function(dtype)}) {
      std::vector<uint16_t> narrowed(values.size() + 1, 7);
      narrow(narrowed.data(), values.data(), values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        const uint16_t expected = wide ? float_to_float16(values[i]) : float_to_bfloat16(values[i]);
        ASSERT_TRUE(same_half(dtype, narrowed[i], expected)) << values[i] << ": " << narrowed[i];
      }
      EXPECT_EQ(narrowed.back(), 7);
    }
  }
  EXPECT_EQ(narrow_function(DType::kFloat32), nullptr);
  EXPECT_EQ(widen_function(DType::kInt8), nullptr);
}

// What makes min and max bitwise equal on two ranks that hold the operands in opposite places.
TEST(Reduce, OrderOfOperandsIsKept) {
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      const bool wide = dtype == DType::kFloat32;
      const uint32_t plus_zero = 0;
      const uint32_t minus_zero = wide ? 0x80000000U : 0x8000U;
      uint32_t left = plus_zero, right = minus_zero;
      accumulate_function(dtype, op)(&left, &minus_zero, 1, false);  // op(+0, -0)
      accumulate_function(dtype, op)(&right, &plus_zero, 1, true);   // op(+0, -0)
      EXPECT_EQ(left, right) << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace mlbench::comm
