#include "mlbench/spec/compute.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"

namespace mlbench::spec {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Compute, AnEmulatedStepHasATime) {
  EXPECT_EQ(emulated_step_of(""), 0);
  EXPECT_EQ(emulated_step_of("emulated=150ms"), 0.15);
  EXPECT_EQ(emulated_step_of("emulated=2"), 2);
  for (const char* text : {"emulated", "150ms", "Emulated=1s", "real"}) {
    EXPECT_THAT([&] { emulated_step_of(text); },
                ThrowsMessage<UserError>(HasSubstr(std::string("--compute '") + text + "' is not 'emulated=STEP'")));
  }
  for (const char* text : {"emulated=", "emulated=0", "emulated=-1s", "emulated=1d", "emulated=2h"}) {
    EXPECT_THAT([&] { emulated_step_of(text); }, ThrowsMessage<UserError>(HasSubstr("such as 150ms, 90s"))) << text;
  }
}

}  // namespace
}  // namespace mlbench::spec
