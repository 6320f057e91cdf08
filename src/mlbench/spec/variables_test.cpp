#include "mlbench/spec/variables.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench::spec {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::ThrowsMessage;

TEST(Variables, ATextAFileOrWhoeverStarts) {
  EXPECT_EQ(parse_variable("A=").from, ValueFrom::kText);
  EXPECT_EQ(parse_variable("A=b=c").value, "b=c");
  EXPECT_EQ(parse_variable("A=@/x y").from, ValueFrom::kFile);
  EXPECT_EQ(parse_variable("A=@/x y").value, "/x y");
  EXPECT_EQ(parse_variable("A_1").from, ValueFrom::kStarter);
  for (const char* wrong : {"", "=x", "1A=x", "A B=x", "A\n"}) {
    EXPECT_THAT([&] { parse_variable(wrong); }, ThrowsMessage<UserError>(HasSubstr("NAME=@FILE"))) << wrong;
  }
}

TEST(Variables, NamesOfSecrets) {
  for (const char* name : {"AWS_SECRET_ACCESS_KEY", "aws_session_token", "PGPASSWORD", "KEY", "api-key",
                           "OPENAI_APIKEY", "HTTP_AUTH", "GitHubToken", "DB_PASS", "X_CREDENTIALS"}) {
    EXPECT_TRUE(looks_secret(name)) << name;
  }
  for (const char* name : {"PYTHONPATH", "TOKENIZERS_PARALLELISM", "MONKEY", "AUTHOR", "MAX_TOKENS", "KEYBOARD", "PWD",
                           "SECRETARY", "PASSES", ""}) {
    EXPECT_FALSE(looks_secret(name)) << name;
  }
}

TEST(Variables, NoSecretIsGivenAsText) {
  EXPECT_NO_THROW(check_variables({"COLOUR=red", "MY_TOKEN", "MY_TOKEN=@/run/token", "MY_TOKEN="}));
  EXPECT_THAT([] { check_variables({"MY_TOKEN=hunter2"}); },
              ThrowsMessage<UserError>(
                  AllOf(HasSubstr("--env MY_TOKEN "), HasSubstr("--env MY_TOKEN=@FILE"), Not(HasSubstr("hunter2")))));
  EXPECT_THAT([] { check_variables({"MY_TOKEN=@token"}); }, ThrowsMessage<UserError>(HasSubstr("no absolute path")));
}

TEST(Variables, ValuesAreThoseOfTheMoment) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "token", "s3cret\n");
  RunSpec run;
  set_command(run, {{"true"}, "", {"A=1", "B=@" + (folder / "token").string(), "MLBENCH_TEST_GIVEN"}});
  EXPECT_THAT(names_to_give(run), ElementsAre("MLBENCH_TEST_GIVEN"));
  unsetenv("MLBENCH_TEST_GIVEN");
  EXPECT_THAT([&] { variable_values(run); }, ThrowsMessage<UserError>(HasSubstr("MLBENCH_TEST_GIVEN")));
  setenv("MLBENCH_TEST_GIVEN", "now", 1);
  EXPECT_THAT(variable_values(run),
              ElementsAre(Pair("A", "1"), Pair("B", "s3cret"), Pair("MLBENCH_TEST_GIVEN", "now")));
  unsetenv("MLBENCH_TEST_GIVEN");
  set_command(run, {{"true"}, "", {"B=@/no/such/file"}});
  EXPECT_THAT([&] { variable_values(run); }, ThrowsMessage<IoError>(HasSubstr("/no/such/file")));
}

}  // namespace
}  // namespace mlbench::spec
