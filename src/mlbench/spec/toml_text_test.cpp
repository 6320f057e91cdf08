#include "mlbench/spec/toml_text.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"
#include "mlbench/spec/task.h"

namespace mlbench::spec {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Input kAnything{"a document", size_t{64} << 20};

std::string repeated(std::string_view text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

// Documents of the depth `count`, and one more for the key at the end.
std::vector<std::string> deep_documents(size_t count) {
  return {
      repeated("a.", count) + "b = 1\n",
      "[" + repeated("a.", count) + "b]\nc = 1\n",
      "[[" + repeated("a . ", count) + "b]]\n",
      "a = " + repeated("[", count) + repeated("]", count) + "\n",
      "a = " + repeated("{a = ", count) + "1" + repeated("}", count) + "\n",
      "# \"\n" + repeated("\"x\".'y'.", count / 2 + 1) + "b = 1\n",
      "s = \"\"\"\\\"\"\"\"\"\"\n" + repeated("a.", count) + "b = 1\n",
      "s = '''\n'\"'''\n" + repeated("a.", count) + "b = 1\n",
  };
}

TEST(Toml, IsUtf8WithOrWithoutItsMark) {
  EXPECT_EQ(parse_toml("\xEF\xBB\xBF[a]\nb = 1\n", "f", kAnything).size(), 1);
  EXPECT_THAT(
      [] {
        parse_toml(std::string_view("\xFE\xFF\0a\0=\0"
                                    "1",
                                    8),
                   "f.toml", kAnything);
      },
      ThrowsMessage<UserError>(HasSubstr("f.toml is text in UTF-16")));
  EXPECT_THAT(
      [] {
        parse_toml(std::string_view("a\0=\0"
                                    "1\0",
                                    6),
                   "f.toml", kAnything);
      },
      ThrowsMessage<UserError>(HasSubstr("f.toml: byte 2 is zero")));
}

TEST(Toml, IsReadUpToTheLimitOfDepth) {
  for (const std::string& text : deep_documents(kDeepestNesting - 4)) {
    EXPECT_NO_THROW(parse_toml(text, "f", kAnything)) << text;
  }
  // Dots and brackets in strings, comments and numbers only look like depth.
  const std::string dots = repeated(".", 200), brackets = repeated("[{", 100);
  const std::string text = "a = \"" + dots + "\\\"" + brackets + "\" # " + brackets + dots + "\nb = '" + brackets +
                           "'\nc = \"\"\"\n" + brackets + "\"\"" + dots + "\"\"\"\"\nd = [" + repeated("1.5, ", 200) +
                           "]\n\"" + dots + "\" = 1\n";
  EXPECT_EQ(parse_toml(text, "f", kAnything).size(), 5) << text;
}

TEST(Toml, DeeperTextsAreRefusedBeforeAnythingIsBuilt) {
  for (const size_t count : {kDeepestNesting + 1, size_t{100'000}}) {
    for (const std::string& text : deep_documents(count)) {
      EXPECT_THAT([&] { parse_toml(text, "f", kAnything); },
                  ThrowsMessage<UserError>(HasSubstr("nested deeper than 64")))
          << text.substr(0, 50);
    }
  }
  // The parts are too deep together, though none is by itself.
  const std::string table = "[" + repeated("a.", 40) + "a]\n";
  EXPECT_THROW(parse_toml(table + repeated("b.", 40) + "b = 1\n", "f", kAnything), UserError);
  EXPECT_THROW(parse_toml(repeated("b.", 30) + "b = {" + repeated("c.", 40) + "c = 1}\n", "f", kAnything), UserError);
}

TEST(Toml, ErrorsSayWhere) {
  EXPECT_THAT([] { parse_toml("a = 1\n  " + repeated("b.", 100) + "b = 1", "f.toml", kAnything); },
              ThrowsMessage<UserError>(HasSubstr("f.toml:2:")));
  EXPECT_THAT([] { parse_toml("a = 1\nb = \n", "f.toml", kAnything); },
              ThrowsMessage<UserError>(HasSubstr("f.toml:2:5: ")));
  EXPECT_THAT(
      [] {
        parse_toml("a = 1", "f.toml", {"a tiny document", 4});
      },
      ThrowsMessage<UserError>(HasSubstr("f.toml has 5 bytes: a tiny document has at most 4")));
}

TEST(Toml, DepthAndSizeHoldForTasksAndSettings) {
  const std::string deep = repeated("a.", 100'000) + "a = 1\n";
  EXPECT_THROW(parse_task({"deep.toml", deep.substr(0, 100'000)}, "", {}), UserError);
  EXPECT_THROW(parse_task({"large.toml", deep}, "", {}), UserError);
  EXPECT_THROW(parse_override("optimizer.lr=1\n" + deep), UserError);
  const TaskSource task = embedded_tasks().front();
  for (const std::string& value : {"1\n" + deep.substr(0, 10'000), repeated("[", 10'000), repeated("{a=", 5'000)}) {
    EXPECT_THROW(parse_task(task, "", {parse_override("optimizer.lr=" + value)}), UserError) << value.substr(0, 20);
  }
  const std::string long_key = deep.substr(0, 10'000) + "=1";
  EXPECT_THAT([&] { parse_task(task, "", {parse_override(long_key)}); },
              ThrowsMessage<UserError>(
                  testing::ResultOf([](const std::string& text) { return text.size(); }, testing::Lt(size_t{2000}))));
}

}  // namespace
}  // namespace mlbench::spec
