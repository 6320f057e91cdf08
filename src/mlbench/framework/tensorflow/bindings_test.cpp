// TensorFlow exports BoringSSL, zlib, protobuf, hwloc and more under their usual names. This test has the loader say
// which library got which symbol from which.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/process.h"
#include "mlbench/framework/contract_test.h"
#include "mlbench/framework/tensorflow/factory.h"

namespace mlbench::framework::tensorflow_framework {
namespace {

// What the other test runs in a process of its own.
TEST(TensorFlowBindings, AStep) {
  const auto framework = make(contract::logistic_options(2, 0.1));
  framework->initialise();
  const std::vector<float> features = {1, 2, 1, 0};
  const std::vector<int64_t> labels = {1, 0};
  EXPECT_GT(contract::step(*framework, contract::rows_view(features, labels, 2)), 0);
}

bool is_of_tensorflow(const std::string& library) { return library.find("libtensorflow") != std::string::npos; }

// Libraries that everything shares.
bool is_of_the_system(const std::string& library) {
  static const char* const kNames[] = {"libc.so",       "libm.so",  "libdl.so",     "librt.so",
                                       "libpthread.so", "libgcc_s", "libstdc++.so", "ld-linux"};
  return std::ranges::any_of(kNames, [&](const char* name) { return library.find(name) != std::string::npos; });
}

TEST(TensorFlowBindings, NothingReachesOtherLibrariesAndNothingOfTheirsTensorFlow) {
  const TemporaryFolder folder;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  ProcessOptions options;
  options.arguments = {self, "--gtest_filter=TensorFlowBindings.AStep"};
  options.environment = {{"LD_DEBUG", "bindings"}, {"LD_DEBUG_OUTPUT", folder / "bindings"}};
  const ProcessOutput output = run_process(options, std::chrono::minutes(2));
  ASSERT_EQ(output.end.code, 0) << output.standard_error;

  // "  4711:	binding file /usr/lib/a.so [0] to /usr/lib/b.so [0]: normal symbol `inflate' [VERSION]"
  const std::regex binding("binding file (\\S+) \\[\\d+\\] to (\\S+) \\[\\d+\\]: normal symbol `([^']+)'");
  std::vector<std::string> wrong;
  size_t within = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    std::ifstream lines(file.path());
    for (std::string line; std::getline(lines, line);) {
      if (line.find("libtensorflow") == std::string::npos) continue;
      std::smatch parts;
      if (!std::regex_search(line, parts, binding)) continue;
      const bool from = is_of_tensorflow(parts[1]), to = is_of_tensorflow(parts[2]);
      within += from && to ? 1 : 0;
      if (from != to && !(from && is_of_the_system(parts[2]))) wrong.push_back(parts[0]);
    }
  }
  EXPECT_GT(within, 1000U) << "the loader says what it binds";
  EXPECT_THAT(wrong, ::testing::IsEmpty());
}

}  // namespace
}  // namespace mlbench::framework::tensorflow_framework
