#include "mlbench/base/ini.h"

#include <gmock/gmock.h>

namespace mlbench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(Ini, SectionsHoldSettingsInOrder) {
  const auto sections =
      parse_ini("a = lost\n[default]\r\n key= v = w: x#y \r\n# c = d\n;e=f\nno setting\n[ b ] z\nc:d");
  ASSERT_EQ(sections.size(), 2U);
  EXPECT_EQ(sections[0].name, "default");
  EXPECT_THAT(sections[0].settings, ElementsAre(Pair("key", "v = w: x#y")));
  EXPECT_EQ(sections[1].name, "b");
  EXPECT_THAT(sections[1].settings, ElementsAre(Pair("c", "d")));
}

TEST(Ini, ValuesOfAnyLengthAreWhole) {
  const std::string token(5000, 't');
  EXPECT_EQ(parse_ini("[x]\ntoken=" + token).at(0).settings.at(0).second, token);
}

TEST(Ini, ASectionWithoutItsEndHasNoName) {
  const auto sections = parse_ini("[a]\n[b\nc=d\n");
  ASSERT_EQ(sections.size(), 2U);
  EXPECT_THAT(sections[0].settings, IsEmpty());
  EXPECT_EQ(sections[1].name, "");
  EXPECT_THAT(parse_ini(""), IsEmpty());
}

}  // namespace
}  // namespace mlbench
