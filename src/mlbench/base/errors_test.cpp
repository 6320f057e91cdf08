#include "mlbench/base/errors.h"

#include <gmock/gmock.h>

#include <cerrno>

namespace mlbench {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Errors, EachFamilyHasItsExitCode) {
  EXPECT_EQ(exit_code_of(UserError("")), ExitCode::kUserError);
  EXPECT_EQ(exit_code_of(CommError("")), ExitCode::kCommError);
  EXPECT_EQ(exit_code_of(CommTimeout("")), ExitCode::kCommError);
  EXPECT_EQ(exit_code_of(IoError("")), ExitCode::kIoError);
  EXPECT_EQ(exit_code_of(InternalError("")), ExitCode::kInternalError);
  EXPECT_EQ(exit_code_of(std::bad_alloc()), ExitCode::kInternalError);
}

// Scripts read these numbers.
TEST(Errors, ExitCodesAreStable) {
  EXPECT_EQ(static_cast<int>(ExitCode::kOk), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::kInternalError), 1);
  EXPECT_EQ(static_cast<int>(ExitCode::kUserError), 2);
  EXPECT_EQ(static_cast<int>(ExitCode::kCommError), 3);
  EXPECT_EQ(static_cast<int>(ExitCode::kIoError), 4);
  EXPECT_EQ(static_cast<int>(ExitCode::kRunFailed), 5);
  EXPECT_EQ(static_cast<int>(ExitCode::kSupervisorLost), 6);
  EXPECT_EQ(static_cast<int>(ExitCode::kStopped), 130);
}

TEST(Errors, ErrnoTextHoldsNameAndNumber) { EXPECT_EQ(errno_text(ENOENT), "No such file or directory (errno 2)"); }

TEST(Errors, CheckNamesPlaceConditionAndMessage) {
  int built = 0;
  const auto message = [&] { return ++built, std::string("two is not three"); };
  MLBENCH_CHECK(2 + 1 == 3, message());
  EXPECT_EQ(built, 0);
  EXPECT_THAT([&] { MLBENCH_CHECK(2 == 1 + 2, message()); },
              testing::ThrowsMessage<InternalError>(
                  AllOf(HasSubstr("errors_test.cpp:"), HasSubstr("2 == 1 + 2"), HasSubstr("two is not three"))));
}

}  // namespace
}  // namespace mlbench
