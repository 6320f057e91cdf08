#include "mlbench/base/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(Gpus, TheVariableNamesThemAsCudaReadsIt) {
  const auto named = [](const std::string& text) { return visible_gpus(text, "/no/such", "/no/such"); };
  EXPECT_THAT(named("0"), ElementsAre("0"));
  EXPECT_THAT(named("2, 0"), ElementsAre("2", "0"));
  EXPECT_THAT(named("GPU-1f2e,MIG-3a"), ElementsAre("GPU-1f2e", "MIG-3a"));
  EXPECT_THAT(named("1,-1,2"), ElementsAre("1"));
  for (const char* none : {"", "-1", "NoDevFiles", "none", ",0"}) EXPECT_THAT(named(none), IsEmpty()) << none;
}

TEST(Gpus, WithoutItTheyAreThoseOfTheHost) {
  const TemporaryFolder folder;
  const auto devices = folder / "dev", driver = folder / "gpus";
  EXPECT_THAT(visible_gpus(std::nullopt, devices, driver), IsEmpty());
  std::filesystem::create_directories(devices);
  for (const char* bus : {"0000:01:00.0", "0000:41:00.0"}) std::filesystem::create_directories(driver / bus);
  EXPECT_THAT(visible_gpus(std::nullopt, devices, driver), ElementsAre("0", "1")) << "no device file was made yet";
  for (const char* name : {"nvidia3", "nvidiactl", "nvidia-uvm", "nvidia-caps", "nvidia", "null"}) {
    write_file_atomically(devices / name, "");
  }
  EXPECT_THAT(visible_gpus(std::nullopt, devices, driver), ElementsAre("0")) << "a container may have one of two";
}

TEST(Gpus, ARankHasOneOfItsOwn) {
  EXPECT_EQ(gpu_of_rank({"2", "GPU-7"}, 1), "GPU-7");
  EXPECT_THAT([] { gpu_of_rank({}, 0); }, ThrowsMessage<UserError>(HasSubstr("has no NVIDIA GPU")));
  EXPECT_THAT([] { gpu_of_rank({"2", "3"}, 2); }, ThrowsMessage<UserError>(HasSubstr("start at most 2 here")));
}

TEST(Gpus, OnlyNumbersAreNumbers) {
  EXPECT_EQ(gpu_number("12"), 12);
  for (const char* name : {"", "GPU-1", "-1", "+1", "1 ", "99999999999"}) EXPECT_FALSE(gpu_number(name)) << name;
}

}  // namespace
}  // namespace mlbench
