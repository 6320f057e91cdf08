#include "mlbench/base/batch.h"

#include <gtest/gtest.h>

#include <array>

namespace mlbench {
namespace {

TEST(Batch, TensorsAreFoundByName) {
  const std::array<float, 6> values = {};
  const std::array<int64_t, 2> labels = {};
  BatchView batch;
  batch.tensors = {{"features", {2, 3}, const_view_of(std::span<const float>(values)), {}},
                   {"labels", {2}, const_view_of(std::span<const int64_t>(labels)), {}}};
  EXPECT_EQ(batch.at("labels").values.data, labels.data());
  EXPECT_EQ(batch.find("features"), batch.tensors.data());
  EXPECT_EQ(batch.find("tokens"), nullptr);
  EXPECT_THROW(batch.at("tokens"), std::exception);
}

TEST(Batch, ATensorIsDenseOrRowsOfAMatrix) {
  BatchTensor tensor;
  tensor.shape = {2, 4, 5};
  EXPECT_EQ(tensor.row_volume(), 20);
  EXPECT_TRUE(tensor.dense());
  const std::array<int64_t, 2> rows = {7, 1};
  tensor.rows = rows;
  EXPECT_FALSE(tensor.dense());
  tensor.shape = {2};
  EXPECT_EQ(tensor.row_volume(), 1);
}

}  // namespace
}  // namespace mlbench
