#include "mlbench/base/growing_lines.h"

#include <gmock/gmock.h>

#include <fstream>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class GrowingLines : public testing::Test {
 protected:
  void append(const std::string& text) const { std::ofstream(file_, std::ios::app) << text; }
  std::vector<std::string> more(size_t limit = 10) {
    std::vector<std::string> lines;
    while (read_lines(
        file_, cursor_, [&](std::string_view line) { lines.emplace_back(line); }, limit)) {
    }
    return lines;
  }
  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "lines";
  LineCursor cursor_;
};

TEST_F(GrowingLines, AreReadOnceAndWhole) {
  EXPECT_THAT(more(), IsEmpty());
  append("a\nbb\n\nc");
  EXPECT_THAT(more(), ElementsAre("a", "bb", ""));
  EXPECT_EQ(cursor_.offset, 6);
  append("c\nd\n");
  EXPECT_THAT(more(), ElementsAre("cc", "d"));
  EXPECT_THAT(more(), IsEmpty());
  EXPECT_EQ(cursor_.left_out, 0);
}

TEST_F(GrowingLines, ALongOneIsLeftOutAndCounted) {
  append("a\n" + std::string(35, 'x'));
  EXPECT_THAT(more(), ElementsAre("a"));
  EXPECT_EQ(cursor_.left_out, 1);
  EXPECT_TRUE(cursor_.in_long);
  append(std::string(35, 'x') + "\n" + std::string(10, 'y') + "\n123456789\nb\n");
  EXPECT_THAT(more(), ElementsAre("123456789", "b"));
  EXPECT_EQ(cursor_.left_out, 2) << "ten bytes and their end are eleven";
  EXPECT_FALSE(cursor_.in_long);
}

TEST_F(GrowingLines, TheRestOfALongOneIsNoLineAfterARestart) {
  append(std::string(25, 'x'));
  EXPECT_THAT(more(), IsEmpty());
  const LineCursor kept = cursor_;
  append("{}\nb\n");
  cursor_ = kept;
  EXPECT_THAT(more(), ElementsAre("b"));
}

TEST_F(GrowingLines, APieceOfAFile) {
  append("0123456789");
  EXPECT_EQ(read_from(file_, 2, 3), "234");
  EXPECT_EQ(read_from(file_, 8, 100), "89");
  EXPECT_EQ(read_from(file_, 10, 100), "");
  EXPECT_EQ(read_from(folder_ / "none", 0, 100), "");
}

}  // namespace
}  // namespace mlbench
