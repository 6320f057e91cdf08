#include "mlbench/comm/operation_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/comm/operation_clock.h"

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
  const Operation first = board.begin("all_reduce");
  const Operation second = board.begin("send");
  auto entry = board.read();
  EXPECT_EQ(entry.operation, "send");
  EXPECT_EQ(entry.sequence, 2);
  EXPECT_TRUE(entry.in_progress);
  EXPECT_GE(entry.since, before);
  const auto first_since = entry.since;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  board.end(first);
  entry = board.read();
  EXPECT_TRUE(entry.in_progress);
  EXPECT_GT(entry.since, first_since);  // something got done: not stuck since the begin
  board.end(second);
  EXPECT_FALSE(board.read().in_progress);
  EXPECT_THROW(board.end(second), InternalError);
}

TEST(OperationBoard, ObserversHearOfEachWhileTheyAreAttached) {
  struct Log final : OperationObserver {
    void begin(const Operation& one) noexcept override { note("begin", one); }
    void end(const Operation& one) noexcept override { note("end", one); }
    void note(const std::string& what, const Operation& one) {
      lines.push_back(what + " " + std::string(one.name) + " " + std::to_string(one.sequence) + " " +
                      std::to_string(one.bytes) + " " + std::to_string(one.root_peer));
    }
    std::vector<std::string> lines;
  };
  OperationBoard board;
  Log early, late;
  board.attach(early);
  const Operation first = board.begin("all_reduce", 64);
  const Operation second = board.begin("send", 8, 2);
  board.end(second);
  board.end(first);
  board.attach(late);
  board.detach(early);
  board.end(board.begin("barrier"));
  EXPECT_THAT(early.lines, testing::ElementsAre("begin all_reduce 1 64 -1", "begin send 2 8 2", "end send 2 8 2",
                                                "end all_reduce 1 64 -1"));
  EXPECT_THAT(late.lines, testing::ElementsAre("begin barrier 3 0 -1", "end barrier 3 0 -1"));
}

TEST(OperationClock, CountsTimeWithinOperationsOnceWhereTheyOverlap) {
  using std::chrono::nanoseconds;
  OperationBoard board;
  ManualClock clock;
  board.end(board.begin("barrier"));
  OperationClock meter(board, clock);
  clock.advance(nanoseconds(1000));  // nothing under way
  const Operation first = board.begin("all_reduce");
  clock.advance(nanoseconds(7));
  const Operation second = board.begin("all_reduce");
  clock.advance(nanoseconds(20));
  board.end(first);
  clock.advance(nanoseconds(300));
  EXPECT_EQ(meter.take(), 327);  // the second goes on
  clock.advance(nanoseconds(4000));
  board.end(second);
  clock.advance(nanoseconds(50000));
  EXPECT_EQ(meter.take(), 4000);
  EXPECT_EQ(meter.take(), 0);
}

// This is the case where one thread communicates while another one computes.
TEST(OperationClock, MayBeAskedByAnotherThreadThanThatOfTheOperations) {
  OperationBoard board;
  const SystemClock clock;
  OperationClock meter(board, clock);
  const TimePoint start = clock.now();
  std::atomic<bool> over = false;
  std::thread communicating([&] {
    for (int i = 0; i < 2000; ++i) board.end(board.begin("all_reduce"));
    over = true;
  });
  int64_t taken_ns = 0;
  while (!over) {
    const int64_t ns = meter.take();
    EXPECT_GE(ns, 0);
    taken_ns += ns;
  }
  communicating.join();
  taken_ns += meter.take();
  EXPECT_GT(taken_ns, 0);
  EXPECT_LE(taken_ns, (clock.now() - start).count());
  EXPECT_EQ(meter.take(), 0);
}

}  // namespace
}  // namespace mlbench::comm
