#include "mlbench/base/paths.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Paths : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* variable : kVariables) {
      saved_.push_back(environment_variable(variable));
      unsetenv(variable);
    }
  }
  void TearDown() override {
    for (size_t i = 0; i < std::size(kVariables); ++i) {
      if (saved_[i]) {
        setenv(kVariables[i], saved_[i]->c_str(), 1);
      } else {
        unsetenv(kVariables[i]);
      }
    }
  }
  static constexpr const char* kVariables[] = {"MLBENCH_HOME", "XDG_DATA_HOME", "HOME"};
  std::vector<std::optional<std::string>> saved_;
  TemporaryFolder temporary_;
  const fs::path folder_ = fs::canonical(temporary_.path());
};

TEST_F(Paths, HomeIsTheFirstThatIsGiven) {
  EXPECT_THAT([] { resolve_home({}); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("--home"), HasSubstr("MLBENCH_HOME"))));
  setenv("HOME", (folder_ / "user").c_str(), 1);
  EXPECT_EQ(resolve_home({}), folder_ / "user/.local/share/mlbench");
  setenv("XDG_DATA_HOME", (folder_ / "xdg").c_str(), 1);
  EXPECT_EQ(resolve_home({}), folder_ / "xdg/mlbench");
  setenv("MLBENCH_HOME", (folder_ / "variable").c_str(), 1);
  EXPECT_EQ(resolve_home({}), folder_ / "variable");
  EXPECT_EQ(resolve_home((folder_ / "a/../option").string()), folder_ / "option");
  EXPECT_TRUE(fs::is_directory(folder_ / "option"));
}

TEST_F(Paths, AHomeThatCannotBeOneIsNamed) {
  write_file_atomically(folder_ / "file", "");
  EXPECT_THAT([&] { resolve_home((folder_ / "file").string()); },
              ThrowsMessage<UserError>(AllOf(HasSubstr((folder_ / "file").string()), HasSubstr("not a folder"))));
  EXPECT_THAT([&] { resolve_home((folder_ / "file/home").string()); },
              ThrowsMessage<IoError>(HasSubstr((folder_ / "file/home").string())));
}

fs::perms mode_of(const fs::path& path) { return fs::status(path).permissions(); }

TEST_F(Paths, AHomeIsItsUsersAlone) {
  resolve_home((folder_ / "new").string());
  EXPECT_EQ(mode_of(folder_ / "new"), fs::perms::owner_all);

  const fs::perms open_to_all = fs::perms::owner_all | fs::perms::group_read | fs::perms::others_all;
  fs::create_directories(folder_ / "ours/runs");
  write_file_atomically(folder_ / "ours/runs/.lock", "");
  fs::permissions(folder_ / "ours", open_to_all);
  resolve_home((folder_ / "ours").string(), HomeUse::kRead);
  EXPECT_EQ(mode_of(folder_ / "ours"), fs::perms::owner_all);

  fs::create_directory(folder_ / "any");
  fs::permissions(folder_ / "any", open_to_all);
  resolve_home((folder_ / "any").string());
  EXPECT_EQ(mode_of(folder_ / "any"), open_to_all) << "it may be anything";
}

TEST_F(Paths, AHomeThatIsOnlyReadIsNotMade) {
  EXPECT_EQ(resolve_home((folder_ / "absent").string(), HomeUse::kRead), folder_ / "absent");
  EXPECT_FALSE(fs::exists(folder_ / "absent"));
}

TEST_F(Paths, EmptyVariablesCountAsUnset) {
  setenv("MLBENCH_HOME", "", 1);
  EXPECT_FALSE(environment_variable("MLBENCH_HOME"));
  setenv("MLBENCH_HOME", "x", 1);
  EXPECT_EQ(environment_variable("MLBENCH_HOME"), "x");
}

TEST(Names, OnlySafeOnesPass) {
  for (const std::string& name : {std::string("r"), std::string("r-2"), std::string("2.x_y-Z"), std::string(63, 'a')}) {
    EXPECT_NO_THROW(check_name(name, "run name"));
  }
  for (const std::string& name :
       {std::string(""), std::string("-r"), std::string(".."), std::string("a/b"), std::string("a b"),
        std::string("\xC3\xA4"), std::string("_a"), std::string(64, 'a')}) {
    EXPECT_THAT([&] { check_name(name, "run name"); },
                ThrowsMessage<UserError>(AllOf(HasSubstr("run name '" + name + "'"), HasSubstr("1 to 63"))));
  }
}

TEST(ProgramPath, IsThisTest) { EXPECT_EQ(program_path().filename(), "base_test"); }

}  // namespace
}  // namespace mlbench
