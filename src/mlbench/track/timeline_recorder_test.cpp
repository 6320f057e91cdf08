#include "mlbench/track/timeline_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/track/recording_test.h"
#include "mlbench/track/step_clock.h"

namespace mlbench::track {
namespace {

using record::RankTimeline;
using record::Span;
using record::SpanKind;
using record::SpanThread;
using record::StepKind;
using std::chrono::nanoseconds;

TimePoint at(int64_t ns) { return TimePoint(nanoseconds(ns)); }

class TimelineRecorderTest : public RecordingTest {
 protected:
  RankTimeline read() const { return record::read_timeline(folder_.path(), 2, 3); }
};

TEST_F(TimelineRecorderTest, HeaderNamesRunSegmentRankAndStart) {
  clock_.advance(std::chrono::seconds(1'700'000'000));
  TimelineRecorder(options(), clock_).close();
  const RankTimeline timeline = read();
  EXPECT_EQ(timeline.header.run_id, 77U);
  EXPECT_EQ(timeline.header.segment, 2U);
  EXPECT_EQ(timeline.header.rank, 3U);
  EXPECT_EQ(timeline.header.start_wall_us, 1'700'000'000'000'000);
  EXPECT_TRUE(timeline.spans.empty());
}

TEST_F(TimelineRecorderTest, SpansKnowTheirStepAndThread) {
  TimelineRecorder recorder(options(), clock_);
  recorder.span(SpanKind::kPrepare, "data", at(1), at(2));
  recorder.set_step(5);
  recorder.span(SpanKind::kPhase, "fwd_pass", at(10), at(20));
  recorder.span(SpanKind::kLayer, "conv1", at(11), at(15));
  std::thread([&] { recorder.operation("all_reduce", 7, 4096, -1, at(12), at(30)); }).join();
  recorder.operation("broadcast", 8, 1, 0, at(31), at(32));
  recorder.span(SpanKind::kEvaluation, "evaluation", at(40), at(50));
  recorder.set_step(-1);
  recorder.operation("barrier", 9, 0, -1, at(60), at(61));
  recorder.clock_sample({100, -7, 140});
  recorder.close();
  recorder.span(SpanKind::kPhase, "late", at(70), at(71));  // nothing after close()
  recorder.clock_sample({200, 0, 210});

  const RankTimeline timeline = read();
  std::vector<std::tuple<SpanKind, SpanThread, std::string, int64_t>> seen;
  for (const Span& span : timeline.spans) seen.emplace_back(span.kind, span.thread, span.name, span.step);
  const SpanThread training = SpanThread::kTraining;
  EXPECT_THAT(seen, testing::ElementsAre(std::tuple(SpanKind::kPrepare, training, "data", -1),
                                         std::tuple(SpanKind::kPhase, training, "fwd_pass", 5),
                                         std::tuple(SpanKind::kLayer, training, "conv1", 5),
                                         std::tuple(SpanKind::kOperation, SpanThread::kCommunication, "all_reduce", 5),
                                         std::tuple(SpanKind::kOperation, training, "broadcast", 5),
                                         std::tuple(SpanKind::kEvaluation, training, "evaluation", -1),
                                         std::tuple(SpanKind::kOperation, training, "barrier", -1)));
  ASSERT_EQ(timeline.spans.size(), 7U);
  const Span& operation = timeline.spans[3];
  EXPECT_EQ(operation.begin_ns, 12);
  EXPECT_EQ(operation.end_ns, 30);
  EXPECT_EQ(operation.sequence, 7);
  EXPECT_EQ(operation.bytes, 4096U);
  EXPECT_EQ(operation.root_peer, -1);
  EXPECT_EQ(timeline.spans[4].root_peer, 0);
  ASSERT_EQ(timeline.clock.size(), 1U);
  EXPECT_EQ(timeline.clock[0].server_ns, -7);
}

TEST_F(TimelineRecorderTest, KeepsNames) {
  TimelineRecorder recorder(options(), clock_);
  std::string name = "conv1";
  const std::string_view kept = recorder.kept(name);
  EXPECT_EQ(recorder.kept("conv1").data(), kept.data());
  recorder.span(SpanKind::kLayer, kept, at(1), at(2));
  name = "other";
  for (int i = 0; i < 1000; ++i) recorder.kept(std::to_string(i));
  recorder.span(SpanKind::kLayer, kept, at(1), at(2));
  recorder.close();
  for (const Span& span : read().spans) EXPECT_EQ(span.name, "conv1");
}

TEST_F(TimelineRecorderTest, FlushPutsEverythingOnDisk) {
  TimelineRecorder recorder(options(), clock_);
  for (size_t i = 1; i <= 3; ++i) {
    recorder.span(SpanKind::kPhase, "fwd_pass", at(1), at(2));
    recorder.clock_sample({1, 2, 3});
    recorder.flush();
    EXPECT_EQ(read().spans.size(), i);
    EXPECT_EQ(read().clock.size(), i);
  }
}

TEST_F(TimelineRecorderTest, SpansReachTheDiskWithoutBeingAsked) {
  TimelineRecorder recorder(options(), clock_);
  recorder.span(SpanKind::kPhase, "fwd_pass", at(1), at(2));
  for (int tries = 0; tries < 1000 && read().spans.empty(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(read().spans.size(), 1U);
}

// What is missing was for want of room, and is told; the file is good at any moment.
TEST_F(TimelineRecorderTest, ThreadsNeverWait) {
  constexpr int64_t kSpans = 300'000;
  TimelineRecorder recorder(options(), clock_);
  std::atomic<bool> done = false;
  std::thread reader([&] {
    size_t seen = 0;
    while (!done) {
      const size_t now = read().spans.size();
      EXPECT_GE(now, seen);
      seen = now;
    }
  });
  std::thread other([&] {
    for (int64_t i = 0; i < kSpans; ++i) recorder.operation("all_reduce", i, 8, -1, at(i), at(i));
  });
  for (int64_t i = 0; i < kSpans; ++i) recorder.span(SpanKind::kPhase, "fwd_pass", at(i), at(i));
  other.join();
  recorder.close();
  done = true;
  reader.join();
  const RankTimeline timeline = read();
  const bool all = timeline.spans.size() == 2 * kSpans;
  EXPECT_LE(timeline.spans.size(), static_cast<size_t>(2 * kSpans));
  EXPECT_EQ(all, recorder.failed() == nullptr);
  int64_t phase = -1, operation = -1;
  for (const Span& span : timeline.spans) {
    int64_t& last = span.kind == SpanKind::kPhase ? phase : operation;
    ASSERT_LT(last, span.begin_ns);
    last = span.begin_ns;
  }
}

TEST_F(TimelineRecorderTest, ASegmentHasItsFileToItself) {
  TimelineRecorder recorder(options(), clock_);
  EXPECT_THROW(TimelineRecorder(options(), clock_), IoError);
}

TEST_F(TimelineRecorderTest, FolderThatCannotBeMadeIsAnIoError) {
  std::ofstream(folder_ / "file") << "x";
  RecorderOptions wrong = options();
  wrong.run_dir = folder_ / "file";
  EXPECT_THROW(TimelineRecorder(wrong, clock_), IoError);
}

TEST_F(TimelineRecorderTest, FullDiskKeepsWhatIsWrittenAndNeverBlocks) {
  // Room for the header, the name, ten spans and a half.
  constexpr size_t kBytes = 64 + 16 + 10 * 56;
  const int code = in_child_with_file_limit(kBytes + 20, [&] {
    TimelineRecorder recorder(options(), clock_);
    for (int64_t i = 0; i < 100'000; ++i) {
      recorder.span(SpanKind::kPhase, "fwd_pass", at(i), at(i));
      if (i == 50) recorder.flush();
    }
    recorder.flush();
    return failure_naming("rank-3.seg-2.spans", recorder);
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(std::filesystem::file_size(timeline_path(folder_.path(), 2, 3)), kBytes);
  EXPECT_EQ(read().spans.size(), 10U);
}

TEST(StepClock, GivesEveryNanosecondToOneKind) {
  ManualClock clock;
  StepClock steps(clock);
  clock.advance(std::chrono::nanoseconds(7));  // before the first batch is asked for
  steps.skip(record::SpanKind::kPrepare, "prepare");
  clock.advance(std::chrono::nanoseconds(10));
  steps.lap(StepKind::kBatchLoad);
  clock.advance(std::chrono::nanoseconds(20));
  steps.lap(StepKind::kForward);
  const auto first = steps.take();
  EXPECT_EQ(first[static_cast<size_t>(StepKind::kBatchLoad)], 10);
  EXPECT_EQ(first[static_cast<size_t>(StepKind::kForward)], 20);
  EXPECT_EQ(steps.train_ns(), 30);

  clock.advance(std::chrono::nanoseconds(1000));  // an evaluation
  steps.skip(record::SpanKind::kEvaluation, "evaluation");
  clock.advance(std::chrono::nanoseconds(5));
  steps.lap(StepKind::kCheckpoint);
  EXPECT_EQ(steps.train_ns(), 30);  // counted when taken
  EXPECT_EQ(steps.take()[static_cast<size_t>(StepKind::kCheckpoint)], 5);
  EXPECT_EQ(steps.train_ns(), 35);
  EXPECT_EQ(steps.take(), (std::array<int64_t, record::kStepKinds>{}));
}

TEST(StepClock, MovesTimeToAnotherKind) {
  ManualClock clock;
  StepClock steps(clock);
  clock.advance(std::chrono::nanoseconds(10));
  steps.lap(StepKind::kAggregate);
  clock.advance(std::chrono::nanoseconds(50));
  steps.lap(StepKind::kOptimizer);
  steps.move(StepKind::kOptimizer, StepKind::kAggregate, 30);
  const auto kinds = steps.take();
  EXPECT_EQ(kinds[static_cast<size_t>(StepKind::kAggregate)], 40);
  EXPECT_EQ(kinds[static_cast<size_t>(StepKind::kOptimizer)], 20);
  EXPECT_EQ(steps.train_ns(), 60);
}

TEST_F(TimelineRecorderTest, HasEveryMomentOfTheStepClock) {
  TimelineRecorder recorder(options(), clock_);
  StepClock steps(clock_, &recorder);
  clock_.advance(nanoseconds(7));
  steps.skip(SpanKind::kPrepare, "start");
  recorder.set_step(0);
  clock_.advance(nanoseconds(10));
  steps.lap(StepKind::kBatchLoad);
  clock_.advance(nanoseconds(20));
  steps.lap(StepKind::kForward);
  clock_.advance(nanoseconds(300));
  steps.skip(SpanKind::kEvaluation, "evaluation");
  clock_.advance(nanoseconds(5));
  steps.lap(StepKind::kCheckpoint);
  recorder.close();
  const RankTimeline timeline = read();
  std::vector<std::tuple<SpanKind, std::string, int64_t>> seen;
  int64_t end = 0;
  for (const Span& span : timeline.spans) {
    EXPECT_EQ(span.begin_ns, end);
    end = span.end_ns;
    seen.emplace_back(span.kind, span.name, span.step);
  }
  EXPECT_EQ(end, 342);
  EXPECT_THAT(seen, testing::ElementsAre(std::tuple(SpanKind::kPrepare, "start", -1),
                                         std::tuple(SpanKind::kPhase, "batch_load", 0),
                                         std::tuple(SpanKind::kPhase, "fwd_pass", 0),
                                         std::tuple(SpanKind::kEvaluation, "evaluation", -1),
                                         std::tuple(SpanKind::kCheckpoint, "checkpoint", -1)));
}

}  // namespace
}  // namespace mlbench::track
