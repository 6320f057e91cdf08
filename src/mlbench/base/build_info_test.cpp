#include "mlbench/base/build_info.h"

#include <gtest/gtest.h>

#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"

namespace mlbench {
namespace {

TEST(BuildInfo, DescribesTheRunningProgram) {
  const BuildInfo& info = build_info();
  EXPECT_FALSE(info.version.empty());
  EXPECT_FALSE(info.git_describe.empty());
  EXPECT_FALSE(info.compiler.empty());
  EXPECT_FALSE(info.build_type.empty());
  EXPECT_TRUE(info.libraries.contains("fmt"));
  for (const auto& [library, version] : info.libraries) EXPECT_FALSE(version.empty()) << library;
  EXPECT_EQ(info.build_id.size(), 40U);  // SHA-1
  EXPECT_EQ(elf_build_id(program_path()), info.build_id);
}

TEST(BuildInfo, OtherFilesHaveNoBuildId) {
  EXPECT_FALSE(elf_build_id("/no/such/file"));
  EXPECT_FALSE(elf_build_id("/proc/self/status"));
  const std::string head = read_file(program_path()).substr(0, 70);  // a header, and nothing that it points to
  const std::string truncated = testing::TempDir() + "mlbench_truncated_elf";
  write_file_atomically(truncated, head);
  EXPECT_FALSE(elf_build_id(truncated));
  std::filesystem::remove(truncated);
}

}  // namespace
}  // namespace mlbench
