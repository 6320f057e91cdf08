#include "mlbench/spec/former_names.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"

namespace mlbench::spec {
namespace {

TEST(FormerNames, WhatIsRecordedUnderThemIsReadAsThePresentOne) {
  EXPECT_EQ(present_framework("onednn"), "native");
  for (const char* present : {"native", "torch", "null", ""}) EXPECT_EQ(present_framework(present), present);
}

TEST(FormerNames, WhoAsksForThemIsToldThePresentOne) {
  EXPECT_THAT([] { refuse_former_framework("onednn"); },
              testing::ThrowsMessage<UserError>("unknown framework 'onednn': it is called 'native' since 2026-11-28"));
  for (const char* present : {"native", "torch", "keras", ""}) EXPECT_NO_THROW(refuse_former_framework(present));
}

}  // namespace
}  // namespace mlbench::spec
