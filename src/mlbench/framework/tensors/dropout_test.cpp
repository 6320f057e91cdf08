#include "mlbench/framework/tensors/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace mlbench::framework {
namespace {

TEST(DropoutMask, EqualsItsReferenceToTheBit) {
  for (const size_t count : {0, 1, 5, 255, 256, 257, 102400}) {
    for (const double p : {0.0, 0.4, 0.5, 0.999}) {
      std::vector<float> mask(count, -1), expected(count, -2);
      dropout_mask(123456789012345ULL + count, p, mask);
      dropout_mask_reference(123456789012345ULL + count, p, expected);
      EXPECT_EQ(mask, expected) << count << " elements, p " << p;
    }
  }
}

TEST(DropoutMask, APartIsThatOfTheWhole) {
  std::vector<float> mask(3000);
  dropout_mask_reference(11, 0.3, mask);
  for (const size_t first : {0, 1, 4, 255, 256, 1023}) {
    for (const size_t count : {0, 1, 3, 35, 256, 300, 1900}) {
      std::vector<float> part(count, -1);
      dropout_mask_part(11, 0.3, static_cast<int64_t>(first), part);
      const std::vector<float> expected(mask.begin() + static_cast<std::ptrdiff_t>(first),
                                        mask.begin() + static_cast<std::ptrdiff_t>(first + count));
      EXPECT_EQ(part, expected) << count << " elements from " << first;
    }
  }
}

TEST(DropoutMask, RowsAreThoseOfTheWhole) {
  constexpr int64_t kFeatures = 7;
  std::vector<float> mask(10 * kFeatures);
  dropout_mask_reference(13, 0.3, mask);
  const std::vector<int64_t> places = {9, 0, 4, 5};
  std::vector<float> rows(places.size() * kFeatures, -1), expected;
  dropout_mask_rows(13, 0.3, places, kFeatures, rows);
  for (const int64_t place : places) {
    expected.insert(expected.end(), mask.begin() + place * kFeatures, mask.begin() + (place + 1) * kFeatures);
  }
  EXPECT_EQ(rows, expected);
}

TEST(DropoutMask, DropsAShareOfPAndScalesTheRest) {
  std::vector<float> mask(1 << 20);
  dropout_mask(7, 0.4, mask);
  double kept = 0;
  for (const float value : mask) {
    ASSERT_TRUE(value == 0 || value == static_cast<float>(1 / 0.6));
    kept += value != 0;
  }
  const auto n = static_cast<double>(mask.size());
  EXPECT_NEAR(kept / n, 0.6, 4 * std::sqrt(0.24 / n));
}

}  // namespace
}  // namespace mlbench::framework
