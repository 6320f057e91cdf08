#include "mlbench/track/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <numeric>
#include <thread>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/random.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/build_record.h"
#include "mlbench/record/step_format.h"
#include "mlbench/track/recording_test.h"

namespace mlbench::track {
namespace {

using record::RankSpool;
using record::StepKind;
using record::StepRecord;

constexpr int64_t kMillisecond = 1'000'000;

class RecorderTest : public RecordingTest {
 protected:
  RankSpool read() const { return record::read_spool(folder_.path(), 2, 3); }
};

// Step `step` that spent `ns`, all of it in `kind`.
StepSample sample(int64_t step, int64_t ns, int32_t epoch = 0, StepKind kind = StepKind::kBackward) {
  StepSample sample;
  sample.step = step;
  sample.epoch = epoch;
  sample.samples = 2;
  sample.loss_sum = 0.5;
  sample.lr = 1.0 / static_cast<double>(step + 1);
  sample.end_ns = 1000 * step;
  sample.bytes = 8;
  sample.kinds_ns[static_cast<size_t>(kind)] = ns;
  sample.exchange_ns = 10 * step;
  sample.hidden_ns = 3 * step;
  return sample;
}

std::vector<uint64_t> counts(const RankSpool& spool) {
  std::vector<uint64_t> counts;
  for (const StepRecord& record : spool.steps) counts.push_back(record.count);
  return counts;
}

TEST_F(RecorderTest, HeaderNamesRunSegmentRankAndStart) {
  clock_.advance(std::chrono::seconds(1'700'000'000));
  Recorder(options(), clock_).close();
  const RankSpool spool = read();
  EXPECT_EQ(spool.header.run_id, 77U);
  EXPECT_EQ(spool.header.segment, 2U);
  EXPECT_EQ(spool.header.rank, 3U);
  EXPECT_EQ(spool.header.start_wall_us, 1'700'000'000'000'000);
  EXPECT_TRUE(spool.steps.empty());
}

TEST_F(RecorderTest, ClocksRederiveExactly) {
  // Half a million steps of random integers, long and short: the sums must be equal to the last nanosecond.
  constexpr int64_t kSteps = 500'000;
  RandomSequence random(1);
  std::array<int64_t, record::kStepKinds> kinds{};
  int64_t samples = 0;
  {
    Recorder recorder(options(), clock_);
    for (int64_t step = 0; step < kSteps; ++step) {
      StepSample one = sample(step, 0, static_cast<int32_t>(step / 60'000));
      const bool is_long = random.below(50) == 0;
      for (size_t kind = 0; kind < record::kStepKinds; ++kind) {
        one.kinds_ns[kind] = static_cast<int64_t>(random.below(is_long ? 2'000'000'000 : 300'000));
        kinds[kind] += one.kinds_ns[kind];
      }
      one.samples = static_cast<int64_t>(random.below(100));
      samples += one.samples;
      recorder.push(one);
    }
  }
  const RankSpool spool = read();
  const record::Clocks clocks = record::derive_clocks({spool});
  EXPECT_EQ(clocks.kinds_ns, kinds);
  EXPECT_EQ(clocks.train_ns, std::accumulate(kinds.begin(), kinds.end(), int64_t{0}));
  EXPECT_EQ(clocks.steps, kSteps);
  EXPECT_EQ(clocks.samples, samples);
  uint64_t next = 0;
  for (const StepRecord& record : spool.steps) {
    ASSERT_EQ(record.first_step, next);
    next += record.count;
    int64_t sum = 0;
    for (const int64_t ns : record.kinds_ns) sum += ns;
    ASSERT_EQ(record.total_ns(), sum);
    ASSERT_LE(record.count, 25U);
  }
  EXPECT_LT(spool.steps.size(), kSteps / 5);
}

TEST_F(RecorderTest, RecordHoldsSumsTheLastRateAndEachExchange) {
  Recorder recorder(options(), clock_);
  recorder.push(sample(4, 300));
  recorder.push(sample(5, 100, 0, StepKind::kAggregate));
  recorder.push(sample(6, 200));
  recorder.close();
  const RankSpool spool = read();
  ASSERT_EQ(spool.steps.size(), 1U);
  const StepRecord& record = spool.steps[0];
  EXPECT_EQ(record.first_step, 4U);
  EXPECT_EQ(record.count, 3U);
  EXPECT_EQ(record.samples, 6U);
  EXPECT_EQ(record.loss_sum, 1.5);
  EXPECT_EQ(record.lr, 1.0 / 7);
  EXPECT_EQ(record.end_ns, 6000);
  EXPECT_EQ(record.bytes, 24U);
  EXPECT_EQ(record.total_ns(), 600);
  EXPECT_EQ(record.kinds_ns[static_cast<size_t>(StepKind::kBackward)], 500);
  EXPECT_EQ(record.exchange_ns[0], 40);
  EXPECT_EQ(record.exchange_ns[1], 50);
  EXPECT_EQ(record.exchange_ns[2], 60);
  EXPECT_EQ(record.hidden_ns[0], 12);
  EXPECT_EQ(record.hidden_ns[2], 18);
  EXPECT_EQ(record.hidden_ns[3], 0);
}

TEST_F(RecorderTest, MergesUpTo25ShortStepsAndNoLongOne) {
  Recorder recorder(options(), clock_);
  int64_t step = 0;
  for (; step < 60; ++step) recorder.push(sample(step, 5 * kMillisecond - 1));
  recorder.push(sample(step++, 5 * kMillisecond));  // not under 5 ms
  recorder.push(sample(step++, 5 * kMillisecond));
  recorder.push(sample(step++, 1));
  recorder.push(sample(step++, 1, 1));  // another epoch
  recorder.push(sample(step++, 1, 1));
  recorder.push(sample(step + 100, 1, 1));  // not the next step
  recorder.close();
  EXPECT_THAT(counts(read()), testing::ElementsAre(25, 25, 10, 1, 1, 1, 2, 1));
}

TEST_F(RecorderTest, EventsCloseTheRecordAndKeepTheirOrder) {
  Recorder recorder(options(), clock_);
  recorder.event({{"event", "begin"}});
  for (int64_t step = 0; step < 7; ++step) recorder.push(sample(step, 10));
  clock_.advance(std::chrono::nanoseconds(500));
  recorder.event({{"event", "evaluation"}, {"step", 7}, {"metrics", {{"loss", 0.5}}}});
  recorder.event({{"event", "checkpoint"}, {"step", 7}});
  for (int64_t step = 7; step < 9; ++step) recorder.push(sample(step, 10));
  recorder.event({{"event", "end"}});
  recorder.close();
  const RankSpool spool = read();
  EXPECT_THAT(counts(spool), testing::ElementsAre(7, 2));
  ASSERT_EQ(spool.events.size(), 4U);
  for (size_t i = 0; i < spool.events.size(); ++i) EXPECT_EQ(spool.events[i]["sequence"], i);
  EXPECT_EQ(spool.events[0]["end_ns"], 0);
  EXPECT_EQ(spool.events[1]["end_ns"], 500);
  EXPECT_EQ(spool.events[1]["event"], "evaluation");
  EXPECT_EQ(spool.events[1]["metrics"]["loss"], 0.5);
  EXPECT_EQ(spool.events[3]["event"], "end");
}

TEST_F(RecorderTest, TheLastWordHasWhatIsKnownWhenItIsSaid) {
  Recorder recorder(options(), clock_);
  recorder.last_word({{"event", "failure"}, {"message", "early"}});
  std::atomic<int> reads = 4;
  recorder.on_last_word([&reads](Json& event) { event["call_read_bytes"] = reads.load(); });
  recorder.event({{"event", "epoch"}});
  reads = 7;
  std::thread([&] { recorder.last_word({{"event", "failure"}, {"message", "late"}}); }).join();
  recorder.close();
  const RankSpool spool = read();
  ASSERT_EQ(spool.events.size(), 3U);
  EXPECT_FALSE(spool.events[0].contains("call_read_bytes")) << "nobody has begun to count";
  EXPECT_FALSE(spool.events[1].contains("call_read_bytes")) << "no last word";
  EXPECT_EQ(spool.events[2]["message"], "late");
  EXPECT_EQ(spool.events[2]["call_read_bytes"], 7);
}

TEST_F(RecorderTest, FlushPutsEverythingOnDisk) {
  Recorder recorder(options(), clock_);
  recorder.push(sample(0, 10));
  recorder.event({{"event", "begin"}});
  recorder.push(sample(1, 10));
  recorder.flush();
  EXPECT_THAT(counts(read()), testing::ElementsAre(1, 1));
  EXPECT_EQ(read().events.size(), 1U);
  recorder.push(sample(2, 10));
  recorder.flush();
  EXPECT_THAT(counts(read()), testing::ElementsAre(1, 1, 1));
}

TEST_F(RecorderTest, StepsReachTheDiskWithoutBeingAsked) {
  Recorder recorder(options(), clock_);
  for (int64_t step = 0; step < 25; ++step) recorder.push(sample(step, 10));
  for (int tries = 0; tries < 1000 && read().steps.empty(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(counts(read()), testing::ElementsAre(25));
}

TEST_F(RecorderTest, EventsOfOtherThreadsMeetSteps) {
  constexpr int64_t kSteps = 200'000;
  constexpr int kEvents = 200;
  const SystemClock clock;
  Recorder recorder(options(), clock);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEvents; ++i) {
        recorder.event({{"event", "failure"}});
        if (i % 50 == 0) recorder.flush();
      }
    });
  }
  for (int64_t step = 0; step < kSteps; ++step) recorder.push(sample(step, 10));
  for (std::thread& thread : threads) thread.join();
  recorder.close();
  recorder.event({{"event", "late"}});  // nothing after close()
  recorder.close();
  const RankSpool spool = read();
  EXPECT_EQ(record::derive_clocks({spool}).train_ns, kSteps * 10);
  ASSERT_EQ(spool.events.size(), 2U * kEvents);
  for (size_t i = 1; i < spool.events.size(); ++i) {
    EXPECT_EQ(spool.events[i]["sequence"], i);
    EXPECT_GE(spool.events[i]["end_ns"], spool.events[i - 1]["end_ns"]);
  }
}

TEST_F(RecorderTest, FileIsReadableAtAnyMoment) {
  Recorder recorder(options(), clock_);
  std::atomic<bool> done = false;
  std::thread reader([&] {
    size_t seen = 0;
    while (!done) {
      const RankSpool spool = read();
      EXPECT_GE(spool.steps.size(), seen);
      seen = spool.steps.size();
    }
  });
  for (int64_t step = 0; step < 100'000; ++step) recorder.push(sample(step, 10));
  recorder.close();
  done = true;
  reader.join();
  EXPECT_EQ(record::derive_clocks({read()}).steps, 100'000);
}

TEST_F(RecorderTest, ASegmentHasItsFilesToItself) {
  Recorder recorder(options(), clock_);
  recorder.push(sample(0, 10));
  recorder.flush();
  EXPECT_THROW(Recorder(options(), clock_), IoError);
  recorder.close();
  EXPECT_EQ(read().steps.size(), 1U);
}

TEST_F(RecorderTest, FolderThatCannotBeMadeIsAnIoError) {
  std::ofstream(folder_ / "file") << "x";
  RecorderOptions wrong = options();
  wrong.run_dir = folder_ / "file";
  EXPECT_THROW(Recorder(wrong, clock_), IoError);
}

TEST_F(RecorderTest, FullDiskKeepsWhatIsWrittenAndNeverBlocks) {
  // Room for ten records and a half.
  StepRecord one_step;
  one_step.count = 1;
  std::string bytes = record::encode_header({});
  for (int i = 0; i < 10; ++i) record::append_record(bytes, one_step);
  const rlim_t limit = bytes.size() + 50;
  const int code = in_child_with_file_limit(limit, [&] {
    Recorder recorder(options(), clock_);
    if (recorder.failed()) return 10;
    for (int64_t step = 0; step < 100'000; ++step) recorder.push(sample(step, 10 * kMillisecond));
    recorder.event({{"event", "end"}});
    recorder.flush();
    return failure_naming("rank-3.seg-2.steps", recorder);
  });
  EXPECT_EQ(code, 0);
  const auto size = std::filesystem::file_size(steps_path(folder_.path(), 2, 3));
  EXPECT_EQ(size, bytes.size());
  EXPECT_EQ(read().steps.size(), 10U);
  EXPECT_EQ(read().events.size(), 1U);  // the other file had room
}

// A line that no reader takes would be lost without a word.
TEST_F(RecorderTest, AnEventThatIsTooLongToBeReadIsRefused) {
  const auto event = [](size_t bytes) { return Json{{"event", "failure"}, {"message", std::string(bytes, 'x')}}; };
  Recorder recorder(options(), clock_);
  recorder.event(event(1));
  try {
    recorder.event(event(inputs::kEventLine.most_bytes));
    ADD_FAILURE() << "no error";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the event 'failure' has 1048"));
  }
  recorder.event(event(inputs::kEventLine.most_bytes - 200));
  recorder.close();
  const RankSpool spool = read();
  EXPECT_EQ(spool.left_out, 0);
  ASSERT_EQ(spool.events.size(), 2U);
  EXPECT_EQ(spool.events[1]["sequence"], 1) << "without a gap";
}

TEST_F(RecorderTest, FullDiskKeepsWholeEvents) {
  const int code = in_child_with_file_limit(1000, [&] {
    Recorder recorder(options(), clock_);
    for (int i = 0; i < 100; ++i) recorder.event({{"event", "begin"}, {"text", std::string(90, 'x')}});
    recorder.flush();
    return recorder.failed() ? 0 : 11;
  });
  EXPECT_EQ(code, 0);
  const RankSpool spool = read();
  EXPECT_GE(spool.events.size(), 5U);
  std::ifstream in(events_path(folder_.path(), 2, 3));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<std::ptrdiff_t>(spool.events.size()));
}

TEST_F(RecorderTest, NoRoomForTheHeaderIsAnIoError) {
  const int code = in_child_with_file_limit(10, [&] {
    try {
      Recorder recorder(options(), clock_);
    } catch (const IoError&) {
      return 0;
    }
    return 11;
  });
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace mlbench::track
