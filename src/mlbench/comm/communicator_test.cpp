#include "mlbench/comm/communicator.h"

#include <gtest/gtest.h>

#include <thread>

namespace mlbench::comm {
namespace {

TEST(OperationBoard, StartsEmpty) {
  const OperationBoard board;
  const auto entry = board.read();
  EXPECT_EQ(entry.operation, "");
  EXPECT_EQ(entry.sequence, 0);
  EXPECT_FALSE(entry.in_progress);
}

TEST(OperationBoard, OverlappingOperationsAreInProgressUntilTheLastEnds) {
  OperationBoard board;
  const auto before = std::chrono::steady_clock::now();
  board.begin("all_reduce");
  board.begin("send");
  auto entry = board.read();
  EXPECT_EQ(entry.operation, "send");
  EXPECT_EQ(entry.sequence, 2);
  EXPECT_TRUE(entry.in_progress);
  EXPECT_GE(entry.since, before);
  const auto first_since = entry.since;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  board.end();
  entry = board.read();
  EXPECT_TRUE(entry.in_progress);
  EXPECT_GT(entry.since, first_since);  // something got done: not stuck since the begin
  board.end();
  EXPECT_FALSE(board.read().in_progress);
  EXPECT_THROW(board.end(), InternalError);
}

}  // namespace
}  // namespace mlbench::comm
