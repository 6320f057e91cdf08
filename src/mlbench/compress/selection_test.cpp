#include "mlbench/compress/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mlbench/base/random.h"

namespace mlbench::compress {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Largest, OfFiveByHand) {
  const std::vector<float> values = {1, -3, 2, 3, -0.5F};
  EXPECT_THAT(largest(values, 0), IsEmpty());
  EXPECT_THAT(largest(values, 1), ElementsAre(1)) << "of equal ones the first";
  EXPECT_THAT(largest(values, 2), ElementsAre(1, 3));
  EXPECT_THAT(largest(values, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(largest(values, 5), ElementsAre(0, 1, 2, 3, 4));
}

TEST(Largest, TakesWhatIsNoNumberFirst) {
  const std::vector<float> values = {1, std::nanf(""), -std::numeric_limits<float>::infinity(), 5};
  EXPECT_THAT(largest(values, 1), ElementsAre(1));
  EXPECT_THAT(largest(values, 2), ElementsAre(1, 2));
}

TEST(Largest, EqualsTheReference) {
  RandomSequence random(5);
  for (const size_t size : {size_t{1}, size_t{31}, size_t{32}, size_t{33}, size_t{1000}, size_t{50021}}) {
    std::vector<float> values(size);
    for (const char* kind : {"normal", "few values", "zeros", "one peak", "sorted"}) {
      SCOPED_TRACE(std::to_string(size) + " " + kind);
      for (size_t i = 0; i < size; ++i) {
        const auto normal = static_cast<float>(random.normal());
        const std::string_view is = kind;
        values[i] = is == "normal"       ? normal
                    : is == "few values" ? std::round(normal)
                    : is == "zeros"      ? 0
                    : is == "one peak"   ? (i < size / 100 ? 100 + normal : 0)
                                         : static_cast<float>(i);
      }
      for (const double share : {0.0, 0.001, 0.01, 0.5, 1.0}) {
        const auto count = static_cast<int64_t>(share * static_cast<double>(size));
        EXPECT_EQ(largest(values, count), largest_reference(values, count)) << share;
      }
    }
  }
}

}  // namespace
}  // namespace mlbench::compress
