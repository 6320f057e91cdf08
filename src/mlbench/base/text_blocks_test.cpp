#include "mlbench/base/text_blocks.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using namespace std::string_view_literals;

constexpr std::string_view kMark = "\xEF\xBB\xBF";

TEST(TextBlocks, TheMarkIsThatOfTheFirstAlone) {
  const std::string marked = std::string(kMark) + "a";
  TextBlocks blocks("the text");
  EXPECT_EQ(blocks.take(marked, 1), "a");
  EXPECT_EQ(blocks.take(marked), marked);
  EXPECT_EQ(blocks.take("\xFF\xFE"), "\xFF\xFE");
  EXPECT_THAT([&] { blocks.take("c\0"sv); }, ThrowsMessage<UserError>(HasSubstr("the text: byte 13 is zero")));
}

TEST(TextFiles, AreUtf8WithOrWithoutItsMark) {
  constexpr Input kText{"a text", 1000};
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "file";
  const auto read = [&](std::string_view content) {
    write_file_atomically(file, std::string(content));
    return read_text_file(file, kText);
  };
  EXPECT_EQ(read(std::string(kMark) + "one\n\uFEFFtwo"), "one\n\uFEFFtwo");
  EXPECT_EQ(read("one"), "one");
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read(kMark), "");
  EXPECT_THAT([&] { read("\xFF\xFEo\0n\0"sv); },
              ThrowsMessage<UserError>(AllOf(HasSubstr(file.string()), HasSubstr("UTF-16"), HasSubstr("iconv"))));
  EXPECT_THAT([&] { read("\0o\0n"sv); },
              ThrowsMessage<UserError>(AllOf(HasSubstr(file.string()), HasSubstr("byte 1 is zero"))));
  EXPECT_THAT([&] { read(std::string(1001, 'x')); }, ThrowsMessage<UserError>(HasSubstr("1001 bytes")));
}

}  // namespace
}  // namespace mlbench
