#include "mlbench/comm/wrap/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench::comm {
namespace {

using record::SpanThread;
using std::chrono::nanoseconds;

TEST(OperationSpans, AreFromCallToReturnAlsoWhereTheyOverlap) {
  const TemporaryFolder folder;
  ManualClock clock;
  track::TimelineRecorder recorder({.run_dir = folder.path()}, clock);
  OperationBoard board;
  board.end(board.begin("barrier"));
  {
    const OperationSpans spans(board, recorder);
    recorder.set_step(4);
    clock.advance(nanoseconds(10));
    const Operation first = board.begin("all_reduce", 64);
    clock.advance(nanoseconds(20));
    const Operation second = board.begin("send", 8, 1);
    clock.advance(nanoseconds(30));
    board.end(second);
    clock.advance(nanoseconds(40));
    board.end(first);
    std::thread([&] {
      const BoardEntry entry(board, "broadcast", 3, 0);
      clock.advance(nanoseconds(50));
    }).join();
  }
  board.end(board.begin("barrier"));
  recorder.close();

  const record::RankTimeline timeline = record::read_timeline(folder.path(), 1, 0);
  using Row = std::tuple<std::string, SpanThread, int64_t, int64_t, int64_t, uint64_t, int64_t>;
  std::vector<Row> rows;
  for (const record::Span& span : timeline.spans) {
    EXPECT_EQ(span.kind, record::SpanKind::kOperation);
    EXPECT_EQ(span.step, 4);
    rows.emplace_back(span.name, span.thread, span.begin_ns, span.end_ns, span.sequence, span.bytes, span.root_peer);
  }
  EXPECT_THAT(rows, testing::ElementsAre(Row("send", SpanThread::kTraining, 30, 60, 3, 8, 1),
                                         Row("all_reduce", SpanThread::kTraining, 10, 100, 2, 64, -1),
                                         Row("broadcast", SpanThread::kCommunication, 100, 150, 4, 3, 0)));
}

}  // namespace
}  // namespace mlbench::comm
