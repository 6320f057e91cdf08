#include "mlbench/base/input.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Input kSmall{"a small thing", 1000};
constexpr Input kLarge{"a large thing", size_t{64} << 20};

std::string nested(const std::string& open, const std::string& close, size_t depth) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += open;
  text += "1";
  for (size_t i = 0; i < depth; ++i) text += close;
  return text;
}

TEST(ParseJson, TakesWhatIsNoDeeperThanTheLimit) {
  EXPECT_EQ(parse_json(nested("[", "]", kDeepestNesting), kSmall).dump(), nested("[", "]", kDeepestNesting));
  EXPECT_EQ(parse_json(nested("{\"a\":", "}", kDeepestNesting), kSmall).dump(),
            nested("{\"a\":", "}", kDeepestNesting));
  // What only looks like nesting.
  const std::string text = "[\"" + std::string(200, '[') + "\\\"" + std::string(200, '{') + "\\\\\", 2]";
  EXPECT_EQ(parse_json(text, kSmall).size(), 2);
}

TEST(ParseJson, RefusesWhatIsDeeper) {
  for (const size_t depth : {kDeepestNesting + 1, size_t{500'000}, size_t{5'000'000}}) {
    for (const std::string& text : {nested("[", "]", depth), nested("{\"a\":", "}", depth), std::string(depth, '[')}) {
      EXPECT_THAT([&] { parse_json(text, kLarge); },
                  ThrowsMessage<UserError>(AllOf(HasSubstr("a large thing"), HasSubstr("deeper than 64"))));
      EXPECT_EQ(try_parse_json(text, kLarge), std::nullopt);
    }
  }
}

TEST(ParseJson, RefusesWhatIsLarger) {
  const std::string text = '"' + std::string(kSmall.most_bytes - 1, 'x') + '"';
  EXPECT_THAT([&] { parse_json(text, kSmall); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("1001 bytes"), HasSubstr("a small thing has at most 1000"))));
  EXPECT_EQ(try_parse_json(text, kSmall), std::nullopt);
}

TEST(ParseJson, RefusesMoreKeysThanCanBeLookedUp) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += "\"" + std::to_string(i) + "\": 0,";
  text.back() = '}';
  EXPECT_THAT([&] { parse_json(text, kLarge); }, ThrowsMessage<UserError>(HasSubstr("too many keys")));
}

TEST(ParseJson, RefusesMoreValuesThanFitIntoMemory) {
  std::string text = "[";
  for (int i = 0; i < 2'100'000; ++i) text += "\"\",";
  text.back() = ']';
  EXPECT_THAT([&] { parse_json(text, kLarge); }, ThrowsMessage<UserError>(HasSubstr("2,000,000 values")));
}

TEST(ParseJson, SaysShortlyWhatIsNoJson) {
  try {
    parse_json("\"" + std::string(100'000, 'x'), kLarge);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("not valid JSON"));
    EXPECT_LT(std::string(error.what()).size(), 500);
  }
  EXPECT_EQ(try_parse_json("{", kSmall), std::nullopt);
  EXPECT_EQ(try_parse_json("null", kSmall), Json(nullptr));
}

class InputFiles : public testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "file";
};

TEST(Integers, AreWholeNumbersWithinTheirRange) {
  constexpr int64_t kMost = 100'000'000'000'000'000;
  for (const int64_t number : {int64_t{0}, int64_t{-7}, kMost, -kMost}) EXPECT_EQ(integer_of(number), number);
  for (const Json& other : {Json(1e308), Json(1.0), Json(kMost + 1), Json(-kMost - 1), Json(uint64_t{1} << 63), Json(),
                            Json("1"), Json(true)}) {
    EXPECT_FALSE(integer_of(other)) << other;
  }
  EXPECT_EQ(integer_member({{"a", 3}}, "a"), 3);
  EXPECT_THROW(integer_member({{"a", 3.0}}, "a"), UserError);
  EXPECT_THROW(integer_member({{"a", 3}}, "b"), UserError);
}

TEST_F(InputFiles, AreReadUpToTheirSize) {
  write_file_atomically(file_, std::string(kSmall.most_bytes, 'x'));
  EXPECT_EQ(read_file(file_, kSmall).size(), kSmall.most_bytes);
  write_file_atomically(file_, std::string(kSmall.most_bytes + 1, 'x'));
  EXPECT_THAT([&] { read_file(file_, kSmall); },
              ThrowsMessage<UserError>(AllOf(HasSubstr(file_.string()), HasSubstr("1001 bytes"))));
  // A size of a terabyte costs nothing.
  std::filesystem::resize_file(file_, uintmax_t{1} << 40);
  EXPECT_THROW(read_file(file_, kSmall), UserError);
}

TEST_F(InputFiles, ArePlain) {
  EXPECT_THAT([&] { read_file(file_, kSmall); }, ThrowsMessage<IoError>(HasSubstr(file_.string())));
  EXPECT_THAT([&] { read_file(folder_.path(), kSmall); }, ThrowsMessage<UserError>(HasSubstr("is a folder")));
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT([&] { read_file(file_, kSmall); }, ThrowsMessage<UserError>(HasSubstr("no plain file")));
  EXPECT_THAT([&] { read_file("/dev/zero", kSmall); }, ThrowsMessage<UserError>(HasSubstr("no plain file")));
}

TEST_F(InputFiles, OfTheUserMayBePipes) {
  const Input pipe_or_file{"a file of the user", 1000, true};
  EXPECT_THROW(read_file("/dev/zero", pipe_or_file), UserError);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  write_all(writer.get(), "hello", "the pipe");
  writer.reset();
  EXPECT_EQ(read_file("/dev/fd/" + std::to_string(reader.get()), pipe_or_file), "hello");
}

TEST_F(InputFiles, WhatIsWrittenCanBeRead) {
  write_json_file(file_, {{"a", 1}}, kSmall);
  EXPECT_EQ(read_json_file(file_, kSmall), (Json{{"a", 1}}));
  EXPECT_THROW(write_json_file(file_, {{"a", std::string(1000, 'x')}}, kSmall), UserError);
  EXPECT_EQ(read_json_file(file_, kSmall), (Json{{"a", 1}}));
}

}  // namespace
}  // namespace mlbench
