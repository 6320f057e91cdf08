#include "mlbench/base/buffer.h"

#include <gtest/gtest.h>

#include <array>

namespace mlbench {
namespace {

TEST(Buffer, SizesAndNamesOfTypes) {
  const std::vector<std::tuple<DType, size_t, std::string_view>> expected = {
      {DType::kUInt8, 1, "uint8"},     {DType::kInt8, 1, "int8"},       {DType::kInt32, 4, "int32"},
      {DType::kInt64, 8, "int64"},     {DType::kFloat16, 2, "float16"}, {DType::kBFloat16, 2, "bfloat16"},
      {DType::kFloat32, 4, "float32"}, {DType::kFloat64, 8, "float64"}};
  for (const auto& [dtype, size, name] : expected) {
    EXPECT_EQ(size_of(dtype), size) << name;
    EXPECT_EQ(name_of(dtype), name);
  }
}

TEST(Buffer, SliceIsAViewOfItsElements) {
  std::array<double, 5> values = {0, 1, 2, 3, 4};
  const BufferView all = view_of(std::span<double>(values));
  EXPECT_EQ(all.size_bytes(), 40U);
  const BufferView middle = all.slice(1, 3);
  EXPECT_EQ(middle.count, 3);
  EXPECT_EQ(middle.dtype, DType::kFloat64);
  static_cast<double*>(middle.data)[0] = 7;
  EXPECT_EQ(values[1], 7);
  const ConstBufferView readable = middle;
  EXPECT_EQ(readable.data, &values[1]);
  EXPECT_EQ(readable.size_bytes(), 24U);
}

}  // namespace
}  // namespace mlbench
