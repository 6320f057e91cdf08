#include "mlbench/base/system_error.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>

#include "mlbench/base/files.h"
#include "mlbench/base/process.h"

namespace mlbench {
namespace {

using testing::HasSubstr;

TEST(SystemError, KeepsItsNumber) {
  const SystemError error("cannot read x", ENOSPC);
  EXPECT_EQ(error.error_number(), ENOSPC);
  EXPECT_THAT(error.what(), HasSubstr("cannot read x: No space left on device"));
}

TEST(SystemError, WhatPassesIsToldFromWhatStays) {
  EXPECT_TRUE(is_transient(SystemError("x", EMFILE)));
  EXPECT_TRUE(is_transient(SystemError("x", ENOSPC)));
  EXPECT_TRUE(is_transient(std::bad_alloc()));
  EXPECT_TRUE(is_transient(std::filesystem::filesystem_error("x", std::error_code(ENFILE, std::system_category()))));
  EXPECT_TRUE(is_transient(std::system_error(EAGAIN, std::generic_category())));
  EXPECT_FALSE(is_transient(SystemError("x", ENOENT)));
  EXPECT_FALSE(is_transient(SystemError("x", EISDIR)));
  EXPECT_FALSE(is_transient(UserError("damaged")));
  EXPECT_FALSE(is_transient(IoError("x")));
}

// What our own functions throw where no descriptor is left.
TEST(SystemError, ShortageOfDescriptorsIsTransient) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "x");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto transient = [](const auto& action) {
    try {
      action();
    } catch (const std::exception& error) {
      return is_transient(error);
    }
    return false;
  };
  const FileDescriptor next(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const rlimit none{static_cast<rlim_t>(next.get()), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  ProcessOptions options;
  options.arguments = {"/bin/true"};
  const bool read = transient([&] { read_file(folder / "file"); });
  const bool written = transient([&] { write_file_atomically(folder / "other", "x"); });
  const bool locked = transient([&] { FileLock::acquire(folder / "lock", std::chrono::milliseconds(0)); });
  const bool started = transient([&] { ChildProcess::start(options); });
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(read);
  EXPECT_TRUE(written);
  EXPECT_TRUE(locked);
  EXPECT_TRUE(started);
}

}  // namespace
}  // namespace mlbench
