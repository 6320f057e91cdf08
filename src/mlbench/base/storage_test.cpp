#include "mlbench/base/storage.h"

#include <gtest/gtest.h>

#include "mlbench/base/files.h"

namespace mlbench {
namespace {

TEST(Storage, IsLocalOrNamedByItsKind) {
  EXPECT_EQ(storage_kind_of(0xef53), "local");
  EXPECT_EQ(storage_kind_of(0x01021994), "local");
  EXPECT_EQ(storage_kind_of(0x6969), "nfs");
  EXPECT_EQ(storage_kind_of(0xff534d42), "smb");
  EXPECT_EQ(storage_kind_of(0x0bd00bd0), "lustre");
  EXPECT_EQ(storage_kind_of(0x65735546), "fuse");
  EXPECT_EQ(storage_kind_of(0x12345678), "") << "not known";
}

TEST(Storage, OfAPathThatIsNotThereIsNotKnown) {
  const TemporaryFolder folder;
  EXPECT_EQ(storage_kind(folder.path() / "absent"), "");
}

TEST(Storage, OfProcessesIsNone) { EXPECT_EQ(storage_kind("/proc"), ""); }

}  // namespace
}  // namespace mlbench
