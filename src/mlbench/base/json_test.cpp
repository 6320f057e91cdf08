#include "mlbench/base/json.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::filesystem::path temporary(const char* name) { return testing::TempDir() + "mlbench_json_" + name; }

TEST(JsonFiles, KeepTheOrderOfKeys) {
  const auto path = temporary("order");
  const Json value = {{"zebra", 1}, {"ape", {{"y", 0.1}, {"x", nullptr}}}, {"list", {1, "two", true}}};
  write_json_file(path, value);
  const std::string text = read_file(path);
  EXPECT_LT(text.find("zebra"), text.find("ape"));
  EXPECT_LT(text.find("\"y\""), text.find("\"x\""));
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(read_json_file(path).dump(), value.dump());
  std::filesystem::remove(path);
}

TEST(JsonFiles, ErrorsNamePathLineAndColumn) {
  const auto path = temporary("bad");
  write_file_atomically(path, "{\n  \"a\": 1,\n  oops\n}\n");
  EXPECT_THAT([&] { read_json_file(path); },
              ThrowsMessage<UserError>(AllOf(HasSubstr(path.string()), HasSubstr("line 3, column 3"))));
  std::filesystem::remove(path);
  EXPECT_THAT([&] { read_json_file(path); }, ThrowsMessage<IoError>(HasSubstr(path.string())));
}

TEST(JsonFiles, TextsThatAreNotUtf8AreReplaced) {
  const auto path = temporary("utf8");
  write_json_file(path, {{"message", "bad \xff byte"}});
  EXPECT_EQ(read_json_file(path).at("message"), "bad \xEF\xBF\xBD byte");
  std::filesystem::remove(path);
}

TEST(CanonicalJson, OneSpellingForOneValue) {
  const Json first = {{"b", 1.0}, {"a", {{"d", 0.1}, {"c", {3, 2}}}}};
  const Json second = {{"a", {{"c", {3, 2}}, {"d", 0.1}}}, {"b", 1.0}};
  EXPECT_EQ(canonical_json(first), R"({"a":{"c":[3,2],"d":0.1},"b":1.0})");
  EXPECT_EQ(canonical_json(second), canonical_json(first));
}

}  // namespace
}  // namespace mlbench
