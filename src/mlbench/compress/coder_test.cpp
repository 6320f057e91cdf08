#include "mlbench/compress/coder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlbench/base/errors.h"

namespace mlbench::compress {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const FlatLayout kLayout{.ranges = {{"a", {3}, 0, 3, true}, {"b", {2, 5}, 16, 10, true}, {"mean", {4}, 0, 4, false}},
                         .parameter_elements = 32,
                         .buffer_elements = 16};

TEST(IdentityCoder, SumsInPlaceAndCountsBytesWithoutPadding) {
  const auto coder = make_coder("none", kLayout);
  EXPECT_EQ(coder->name(), "none");
  ASSERT_EQ(coder->rounds(), 1);
  at::Tensor gradient = at::ones({32});
  const Payload payload = coder->encode(0, gradient);
  EXPECT_EQ(payload.kind, PayloadKind::kSum);
  EXPECT_EQ(payload.bytes, 13 * 4U);
  EXPECT_EQ(payload.data.data_ptr(), gradient.data_ptr());
  payload.data.mul_(3);
  coder->absorb(0, payload.data, gradient);
  EXPECT_TRUE(at::equal(gradient, at::full({32}, 3.0F)));
  coder->absorb(0, at::full({32}, 5.0F), gradient);
  EXPECT_TRUE(at::equal(gradient, at::full({32}, 5.0F)));
}

TEST(Coders, UnknownNameListsTheValidOnes) {
  EXPECT_THAT([] { make_coder("qsgd", kLayout); },
              ThrowsMessage<UserError>(HasSubstr("unknown compression 'qsgd'; valid: none")));
}

}  // namespace
}  // namespace mlbench::compress
