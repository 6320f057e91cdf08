#include "mlbench/base/options.h"

#include <gmock/gmock.h>

namespace mlbench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Range kAny{-1e9, 1e9};

TEST(OptionReader, ReadsValuesAndDefaults) {
  const Json options = {{"momentum", 0.9}, {"steps", 3}, {"nesterov", true}, {"mode", "fast"}, {"betas", {0.9, 1}}};
  OptionReader reader("optimizer 'sgd'", options);
  EXPECT_EQ(reader.number("momentum", 0, kAny), 0.9);
  EXPECT_EQ(reader.number("steps", 0, kAny), 3.0);
  EXPECT_EQ(reader.number("dampening", 0.25, kAny), 0.25);
  EXPECT_EQ(reader.numbers("betas", {0, 0}, kAny), (std::vector<double>{0.9, 1}));
  EXPECT_EQ(reader.numbers("sizes", {3, 4, 5}, kAny), (std::vector<double>{3, 4, 5}));
  EXPECT_TRUE(reader.flag("nesterov", false));
  EXPECT_TRUE(reader.flag("by_layer", true));
  EXPECT_EQ(reader.text("mode", ""), "fast");
  EXPECT_EQ(reader.text("name", "none"), "none");
  EXPECT_NO_THROW(reader.finish());
}

TEST(OptionReader, RemembersWhatWasAskedFor) {
  const Json options = {{"momentum", 0.9}};
  OptionReader reader("optimizer 'sgd'", options);
  reader.number("momentum", 0, {0, 1});
  reader.integer("every", 8, {1, 100});
  EXPECT_EQ(reader.choice("norm", "largest", {"largest", "euclidean"}), "largest");
  ASSERT_EQ(reader.asked().size(), 3);
  EXPECT_EQ(reader.asked()[0].name, "momentum");
  EXPECT_EQ(reader.asked()[0].otherwise, 0);
  EXPECT_EQ(reader.asked()[0].expected, "a number from 0 to 1");
  EXPECT_EQ(reader.asked()[1].expected, "a whole number from 1 to 100");
  EXPECT_EQ(reader.asked()[2].expected, "one of largest, euclidean");
}

TEST(OptionReader, AChoiceNamesWhatIsValid) {
  const Json options = {{"norm", "largst"}, {"reduce", 3}};
  OptionReader reader("optimizer 'qsgd'", options);
  EXPECT_THAT(
      [&] {
        reader.choice("norm", "largest", {"largest", "euclidean"});
      },
      ThrowsMessage<UserError>(
          "optimizer 'qsgd' has no norm 'largst': did you mean 'largest'? valid: largest, euclidean"));
  EXPECT_THAT(
      [&] {
        reader.choice("reduce", "sum", {"sum", "mean"});
      },
      ThrowsMessage<UserError>("option 'reduce' of optimizer 'qsgd' is 3; expected one of sum, mean"));
}

TEST(OptionReader, NumbersHaveRanges) {
  const Json options = {{"depth", int64_t{9'000'000'000'000'000'000}}, {"momentum", 1e308}, {"betas", {0.9, 1.5}}};
  OptionReader reader("model 'm'", options);
  EXPECT_THAT(
      [&] {
        reader.integer("depth", 8, {8, 1202});
      },
      ThrowsMessage<UserError>(
          "option 'depth' of model 'm' is 9000000000000000000; expected a whole number from 8 to 1202"));
  EXPECT_THAT(
      [&] {
        reader.number("momentum", 0, {0, 1});
      },
      ThrowsMessage<UserError>("option 'momentum' of model 'm' is 1e+308; expected a number from 0 to 1"));
  EXPECT_THAT(
      [&] {
        reader.numbers("betas", {0, 0}, {0, 1});
      },
      ThrowsMessage<UserError>(HasSubstr("expected a list of 2 numbers from 0 to 1")));
}

TEST(OptionReader, NamesOwnerKeyAndWhatIsValid) {
  const Json options = {{"momentum", "high"}, {"nesterov", 1}, {"mode", 2}, {"betas", {0.9, true}}, {"momentun", 0.9}};
  OptionReader reader("optimizer 'sgd'", options);
  EXPECT_THAT([&] { reader.number("momentum", 0, kAny); },
              ThrowsMessage<UserError>(
                  AllOf(HasSubstr("'momentum' of optimizer 'sgd'"), HasSubstr("\"high\""), HasSubstr("a number"))));
  EXPECT_THAT([&] { reader.flag("nesterov", false); }, ThrowsMessage<UserError>(HasSubstr("true or false")));
  EXPECT_THAT([&] { reader.text("mode", ""); }, ThrowsMessage<UserError>(HasSubstr("a string")));
  EXPECT_THAT(
      [&] {
        reader.numbers("betas", {0, 0}, kAny);
      },
      ThrowsMessage<UserError>(AllOf(HasSubstr("[0.9,true]"), HasSubstr("a list of 2 numbers"))));
  EXPECT_THAT(
      [&] {
        reader.numbers("mode", {0, 0}, kAny);
      },
      ThrowsMessage<UserError>(HasSubstr("a list of 2 numbers")));
  EXPECT_THAT([&] { reader.finish(); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("optimizer 'sgd' has no option 'momentun'"),
                                             HasSubstr("valid: momentum, nesterov, mode"))));
}

}  // namespace
}  // namespace mlbench
