#include "mlbench/base/utf8.h"

#include <gtest/gtest.h>

namespace mlbench {
namespace {

TEST(Utf8, IsToldFromOtherBytes) {
  for (const char* good : {"", "a", "\u00FC", "\U0001F600"}) EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad : {"\xff", "a\xc3", "\xed\xa0\x80"}) EXPECT_FALSE(is_utf8(bad)) << bad;
}

}  // namespace
}  // namespace mlbench
