#include "mlbench/base/named_state.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"

namespace mlbench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(NamedState, GivesBackWhatWasPut) {
  NamedState state;
  state.tensors["w"] = {DType::kFloat32, {2, 3}, std::vector<std::byte>(24)};
  state.scalars["step"] = int64_t{7};
  state.scalars["lr"] = 0.5;
  state.scalars["rule"] = std::string("sgd");
  EXPECT_EQ(state.tensor("w").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(state.integer("step"), 7);
  EXPECT_EQ(state.real("lr"), 0.5);
  EXPECT_EQ(state.text("rule"), "sgd");
}

TEST(NamedState, ErrorsNameTheEntry) {
  NamedState state;
  state.scalars["step"] = int64_t{7};
  EXPECT_THAT([&] { state.tensor("w"); }, ThrowsMessage<UserError>(HasSubstr("'w'")));
  EXPECT_THAT([&] { state.integer("epoch"); }, ThrowsMessage<UserError>(HasSubstr("'epoch'")));
  EXPECT_THAT([&] { state.real("step"); }, ThrowsMessage<UserError>(AllOf(HasSubstr("'step'"), HasSubstr("a number"))));
  EXPECT_THAT([&] { state.text("step"); }, ThrowsMessage<UserError>(AllOf(HasSubstr("'step'"), HasSubstr("a text"))));
}

}  // namespace
}  // namespace mlbench
