#include "mlbench/base/atomic_file.h"

#include <gmock/gmock.h>

#include "mlbench/base/system_error.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;

TEST(AtomicFile, IsThereAsAWholeOrNotAtAll) {
  const TemporaryFolder folder;
  const fs::path path = folder / "file";
  const auto entries = [&] { return std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()); };
  write_file_atomically(path, "old");
  {
    AtomicFile file(path), other(path);
    file.write("a");
    other.write("b");
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(entries(), 1);
  AtomicFile file(path);
  file.write("new ");
  EXPECT_EQ(read_file(path), "old");
  file.write("content");
  file.commit();
  EXPECT_EQ(read_file(path), "new content");
  EXPECT_EQ(entries(), 1);
  EXPECT_THROW(AtomicFile(folder / "no" / "file"), SystemError);
}

}  // namespace
}  // namespace mlbench
