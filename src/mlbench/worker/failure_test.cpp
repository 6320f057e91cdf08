#include "mlbench/worker/failure.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <stdexcept>

#include "mlbench/base/errors.h"
#include "mlbench/base/system_error.h"

namespace mlbench::worker {
namespace {

TEST(Failure, has_the_kind_of_its_error) {
  EXPECT_EQ(kind_of(CommTimeout("late")), "comm_timeout");
  EXPECT_EQ(kind_of(CommError("lost")), "comm_error");
  EXPECT_EQ(kind_of(DiskFull("full", ENOSPC)), "disk_full");
  EXPECT_EQ(kind_of(IoError("refused")), "io_error");
  EXPECT_EQ(kind_of(UserError("wrong")), "rank_error");
  EXPECT_EQ(kind_of(std::runtime_error("any")), "rank_error");
}

TEST(Failure, says_no_more_than_what_happened) {
  EXPECT_EQ(message_of(std::runtime_error("no such file")), "no such file");
  EXPECT_EQ(message_of(std::runtime_error("sizes differ\nException raised from add at add.cpp:1 (most recent first):")),
            "sizes differ");
}

}  // namespace
}  // namespace mlbench::worker
