#include "mlbench/base/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "mlbench/base/process.h"
#include "mlbench/base/system_error.h"
#include "mlbench/base/temporary_folders.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Files : public testing::Test {
 protected:
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }
  TemporaryFolder folder_;
};

TEST_F(Files, WhatIsWrittenIsReadAndReplaced) {
  const fs::path file = folder_ / "file";
  const std::string content = std::string("\0\n", 2) + std::string(200000, 'x');
  write_file_atomically(file, content);
  EXPECT_EQ(read_file(file), content);
  write_file_atomically(file, "");
  EXPECT_EQ(read_file(file), "");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(Files, ErrorsNamePathAndReason) {
  EXPECT_THAT([&] { read_file(folder_ / "absent"); },
              ThrowsMessage<IoError>(AllOf(HasSubstr((folder_ / "absent").string()), HasSubstr("No such file"))));
  EXPECT_THAT([&] { read_file(folder_.path()); }, ThrowsMessage<IoError>(HasSubstr("Is a directory")));
  EXPECT_THAT([&] { write_file_atomically(folder_ / "no" / "file", "x"); },
              ThrowsMessage<IoError>(HasSubstr("No such file")));
  EXPECT_THAT([&] { MappedFile map(folder_ / "absent"); }, ThrowsMessage<IoError>(HasSubstr("No such file")));
  EXPECT_THROW(sync_directory(folder_ / "absent"), IoError);
}

TEST_F(Files, AFailedWriteLeavesTheOldFileAndNoTemporaryOne) {
  fs::create_directories(folder_ / "target" / "inside");  // rename cannot replace it
  EXPECT_THROW(write_file_atomically(folder_ / "target", "x"), IoError);
  EXPECT_TRUE(fs::is_directory(folder_ / "target" / "inside"));
  EXPECT_EQ(entries(), 1U);
}

TEST_F(Files, TemporaryFoldersOfAKilledProcessAreRemoved) {
  const fs::path named = folder_ / "named";
  const pid_t child = fork();
  if (child == 0) {
    const TemporaryFolder left;
    write_file_atomically(left / "content", "x");
    write_file_atomically(named, left.path().string());
    _exit(0);  // without destructors
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const fs::path left = read_file(named);
  remove_temporary_folders_of(child + 1);
  EXPECT_TRUE(fs::exists(left / "content"));
  remove_temporary_folders_of(child);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(folder_.path())) << "that of another process";
}

TEST_F(Files, AFolderTakesThePlaceOfAnother) {
  for (const char* name : {"made", "target"}) {
    fs::create_directory(folder_ / name);
    write_file_atomically(folder_ / name / name, name);
  }
  replace_directory(folder_ / "made", folder_ / "target");
  EXPECT_FALSE(fs::exists(folder_ / "made"));
  EXPECT_EQ(read_file(folder_ / "target" / "made"), "made");
  EXPECT_FALSE(fs::exists(folder_ / "target" / "target"));
  replace_directory(folder_ / "target", folder_ / "elsewhere");
  EXPECT_EQ(read_file(folder_ / "elsewhere" / "made"), "made");
  EXPECT_THROW(replace_directory(folder_ / "absent", folder_ / "elsewhere"), IoError);
  EXPECT_TRUE(fs::exists(folder_ / "elsewhere" / "made"));
}

TEST_F(Files, AFullDiskIsAnError) {
  const FileDescriptor full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (!full) GTEST_SKIP() << "missing capability: /dev/full";
  EXPECT_THAT([&] { write_all(full.get(), "x", "the spool"); },
              ThrowsMessage<DiskFull>(AllOf(HasSubstr("the spool"), HasSubstr("No space left"))));
}

TEST_F(Files, ManyWritersOfOneFileDoNotMeet) {
  std::atomic<int> failures{0};
  {
    std::vector<std::jthread> writers;
    for (int writer = 0; writer < 8; ++writer) {
      writers.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          try {
            write_file_atomically(folder_ / "stop", "stop\n");
          } catch (const IoError&) {
            ++failures;
          }
        }
      });
    }
  }
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(read_file(folder_ / "stop"), "stop\n");
  EXPECT_EQ(entries(), 1U);
}

// In a process of its own: the umask is one for all threads.
TEST_F(Files, ArePrivateButForThoseThatTheUserNamed) {
  const pid_t child = fork();
  if (child == 0) {
    umask(022);
    keep_files_private();
    write_file_atomically(folder_ / "ours", "");
    {
      const UserUmask named;
      write_file_atomically(folder_ / "named", "");
    }
    fs::create_directory(folder_ / "folder");
    ProcessOptions process;
    process.arguments = {"/bin/sh", "-c", "umask"};
    _exit(run_process(process, 60s).standard_output == "0022\n" ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "a child starts with the user's umask";
  using fs::perms;
  EXPECT_EQ(fs::status(folder_ / "ours").permissions(), perms::owner_read | perms::owner_write);
  EXPECT_EQ(fs::status(folder_ / "named").permissions(),
            perms::owner_read | perms::owner_write | perms::group_read | perms::others_read);
  EXPECT_EQ(fs::status(folder_ / "folder").permissions(), perms::owner_all);
}

TEST_F(Files, WriteAllGoesOnAfterShortWrites) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  const std::string content(1 << 20, 'x');  // far more than a pipe holds
  std::thread writer([&] {
    write_all(write_end.get(), content, "pipe");
    write_end.reset();
  });
  std::string received;
  char buffer[5000];
  for (ssize_t count = 0; (count = read(read_end.get(), buffer, sizeof buffer)) > 0;) {
    received.append(buffer, static_cast<size_t>(count));
  }
  writer.join();
  EXPECT_TRUE(received == content);
}

TEST_F(Files, MappedFileShowsTheBytes) {
  write_file_atomically(folder_ / "file", "bytes");
  const MappedFile map(folder_ / "file");
  ASSERT_EQ(map.bytes().size(), 5U);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(map.bytes().data()), 5), "bytes");
  write_file_atomically(folder_ / "empty", "");
  EXPECT_TRUE(MappedFile(folder_ / "empty").bytes().empty());
}

TEST_F(Files, DescriptorIsClosedOnceByItsOwner) {
  FileDescriptor first(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = first.get();
  ASSERT_GE(number, 0);
  const FileDescriptor& left = first;
  FileDescriptor second = std::move(first);
  EXPECT_FALSE(left);
  EXPECT_EQ(second.get(), number);
  second = FileDescriptor();
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
  FileDescriptor third(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int released = third.release();
  EXPECT_FALSE(third);
  EXPECT_EQ(close(released), 0);
}

TEST_F(Files, LockHasOneHolder) {
  const fs::path path = folder_ / "lock";
  auto first = FileLock::acquire(path, 0ms);
  ASSERT_TRUE(first);
  EXPECT_FALSE(FileLock::acquire(path, 0ms));
  const auto before = std::chrono::steady_clock::now();
  EXPECT_FALSE(FileLock::acquire(path, 60ms));
  EXPECT_GE(std::chrono::steady_clock::now() - before, 60ms);
  std::thread release([&] {
    std::this_thread::sleep_for(50ms);
    first.reset();
  });
  EXPECT_TRUE(FileLock::acquire(path, 30s));
  release.join();
}

TEST_F(Files, AnInheritedLockIsHeldUntilTheLastHolderExits) {
  const fs::path path = folder_ / "lock";
  auto lock = FileLock::acquire(path, 0ms);
  ASSERT_TRUE(lock);
  ProcessOptions options;
  options.arguments = {"sleep", "60"};
  options.inherited = {lock->fd()};
  options.die_with_parent = true;
  ChildProcess child = ChildProcess::start(options);
  lock.reset();
  EXPECT_FALSE(FileLock::acquire(path, 0ms));
  child.stop(30s);
  EXPECT_TRUE(FileLock::acquire(path, 0ms));
}

TEST_F(Files, LockRefusesSymbolicLinks) {
  fs::create_symlink(folder_ / "elsewhere", folder_ / "lock");
  EXPECT_THAT([&] { FileLock::acquire(folder_ / "lock", 0ms); },
              ThrowsMessage<IoError>(HasSubstr((folder_ / "lock").string())));
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere"));
}

}  // namespace
}  // namespace mlbench
