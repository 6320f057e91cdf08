#include "mlbench/guard/launcher_words.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include "mlbench/base/test_words.h"

namespace mlbench::guard {
namespace {

using testing::ElementsAre;
using Words = std::vector<std::string>;

TEST(LauncherWords, WhatALauncherTakesForItsOwnIsShielded) {
  EXPECT_THAT(shielded(Words{"python3", "--mca", "a", ":", "--am", "x:y", "::", "--mcas", "-x", "", "\\", "\\n"}),
              ElementsAre("python3", "\\--mca", "a", "\\:", "\\--am", "x:y", "::", "--mcas", "-x", "", "\\", "\\n"));
  EXPECT_THAT(shielded(Words{"\\:", "\\\\--tune"}), ElementsAre("\\\\:", "\\\\\\--tune"));
  EXPECT_THAT(unshielded({"\\:", "\\\\:", ":", "\\x"}), ElementsAre(":", "\\:", ":", "\\x"));
}

// Launchers look at each word by itself.
TEST(LauncherWords, WordsComeOutAsTheyWentIn) {
  RandomWords random(1);
  for (int i = 0; i < 20000; ++i) {
    const Words words = random.words(), sent = shielded(words);
    ASSERT_EQ(unshielded(sent), words);
    for (const char* taken : {":", "--mca", "-mca", "--gmca", "-gmca", "--am", "-am", "--tune", "-tune"}) {
      ASSERT_THAT(sent, testing::Not(testing::Contains(taken)));
    }
  }
}

TEST(LauncherWords, VariablesOfEnginesComeOutUnderTheirNames) {
  const std::map<std::string, std::string> typed = {
      {"PATH", "/opt/bin"},      {"SBATCH_PARTITION", "x"},     {"OMPI_MCA_plm", "$(id)"},
      {"DOCKER_HOST", "a=b\nc"}, {"MLBENCH_GIVEN_PATH", "own"}, {"PATHS", "1"},
      {"MY_TOKEN", ""}};
  const auto sent = shielded(typed);
  EXPECT_EQ(sent, (std::map<std::string, std::string>{{"MLBENCH_GIVEN_PATH", "/opt/bin"},
                                                      {"MLBENCH_GIVEN_SBATCH_PARTITION", "x"},
                                                      {"MLBENCH_GIVEN_OMPI_MCA_plm", "$(id)"},
                                                      {"MLBENCH_GIVEN_DOCKER_HOST", "a=b\nc"},
                                                      {"MLBENCH_GIVEN_MLBENCH_GIVEN_PATH", "own"},
                                                      {"PATHS", "1"},
                                                      {"MY_TOKEN", ""}}));
  const std::string path = getenv("PATH");
  for (const auto& [name, value] : sent) setenv(name.c_str(), value.c_str(), 1);
  unshield_environment();
  for (const auto& [name, value] : typed) {
    const char* found = getenv(name.c_str());
    EXPECT_TRUE(found != nullptr && found == value) << name;
    unsetenv(name.c_str());
  }
  EXPECT_EQ(getenv("MLBENCH_GIVEN_SBATCH_PARTITION"), nullptr);
  setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace mlbench::guard
