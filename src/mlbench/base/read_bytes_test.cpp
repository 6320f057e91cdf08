#include "mlbench/base/read_bytes.h"

#include <gtest/gtest.h>

#include <fstream>

#include "mlbench/base/files.h"

namespace mlbench {
namespace {

TEST(ReadBytes, AreThoseOfTheKernelsText) {
  const auto read = parse_read_bytes(
      "rchar: 4292\nwchar: 0\nsyscr: 13\nsyscw: 0\nread_bytes: 8192\nwrite_bytes: 5\ncancelled_write_bytes: 0\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->devices, 8192);
  EXPECT_EQ(read->calls, 4292);
  for (const char* text : {"", "rchar: 1\n", "read_bytes: 1\n", "rchar: many\nread_bytes: 1\n"}) {
    EXPECT_FALSE(parse_read_bytes(text)) << text;
  }
}

TEST(ReadBytes, GrowByWhatIsRead) {
  const auto before = read_bytes_so_far();
  if (!before) GTEST_SKIP() << "missing capability: /proc/self/io";
  const TemporaryFolder folder;
  const auto file = folder.path() / "file";
  std::ofstream(file) << std::string(1 << 20, 'x');
  read_file(file);
  const auto after = read_bytes_so_far();
  ASSERT_TRUE(after);
  EXPECT_GE(after->calls - before->calls, 1 << 20);
  EXPECT_GE(after->devices, before->devices) << "it lay in memory, or not";
}

}  // namespace
}  // namespace mlbench
