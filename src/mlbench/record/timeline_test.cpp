#include "mlbench/record/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <tuple>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"

namespace mlbench::record {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Span operation_span(int64_t sequence) {
  return {SpanKind::kOperation,
          SpanThread::kCommunication,
          "all_reduce",
          1000 * sequence,
          1000 * sequence + 400,
          3,
          sequence,
          4096,
          -1};
}

class Timeline : public testing::Test {
 protected:
  void write(const std::string& bytes) const {
    std::filesystem::create_directories(path().parent_path());
    std::ofstream(path(), std::ios::binary) << bytes;
  }
  std::filesystem::path path() const { return timeline_path(folder_.path(), 2, 3); }
  RankTimeline read() const { return read_timeline(folder_.path(), 2, 3); }

  TemporaryFolder folder_;
};

void expect_equal(const Span& a, const Span& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.thread, b.thread);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.begin_ns, b.begin_ns);
  EXPECT_EQ(a.end_ns, b.end_ns);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.root_peer, b.root_peer);
}

TEST_F(Timeline, PathNamesRankAndSegment) { EXPECT_EQ(timeline_path("/r", 2, 13), "/r/timeline/rank-13.seg-2.spans"); }

TEST_F(Timeline, AnAbsentFileIsEmpty) {
  EXPECT_TRUE(read().spans.empty());
  EXPECT_TRUE(read().clock.empty());
}

TEST_F(Timeline, GivesBackWhatWasWritten) {
  std::vector<Span> spans = {operation_span(1), operation_span(2)};
  // The zero of a rank's clock is anywhere.
  spans.push_back({SpanKind::kPhase, SpanThread::kTraining, "fwd_pass", -500, -20, 0});
  spans.push_back({SpanKind::kLayer, SpanThread::kTraining, "stage1.block1.conv1 backward", 7, 7, 1});
  spans.push_back({SpanKind::kEvaluation, SpanThread::kTraining, "evaluation", 8, 9});
  spans.push_back({SpanKind::kOperation, SpanThread::kTraining, "broadcast", 10, 12, -1, 3, 1, 0});
  TimelineEncoder encoder;
  std::string bytes = TimelineEncoder::header({77, 2, 3, 1'700'000'000'000'000});
  for (size_t i = 0; i < spans.size(); ++i) {
    encoder.append(bytes, spans[i]);
    if (i == 2) encoder.append(bytes, ClockSample{-5, 1'000'000, 30});
  }
  write(bytes);
  const RankTimeline timeline = read();
  EXPECT_EQ(timeline.header.run_id, 77U);
  EXPECT_EQ(timeline.header.segment, 2U);
  EXPECT_EQ(timeline.header.rank, 3U);
  EXPECT_EQ(timeline.header.start_wall_us, 1'700'000'000'000'000);
  ASSERT_EQ(timeline.spans.size(), spans.size());
  for (size_t i = 0; i < spans.size(); ++i) expect_equal(timeline.spans[i], spans[i]);
  ASSERT_EQ(timeline.clock.size(), 1U);
  EXPECT_EQ(timeline.clock[0].sent_ns, -5);
  EXPECT_EQ(timeline.clock[0].server_ns, 1'000'000);
  EXPECT_EQ(timeline.clock[0].received_ns, 30);
  EXPECT_EQ(timeline.left_out, 0);
}

TEST_F(Timeline, ANameIsWrittenOnce) {
  TimelineEncoder encoder;
  std::string first, second;
  encoder.append(first, operation_span(1));
  encoder.append(second, operation_span(2));
  EXPECT_EQ(first.size(), 8 + std::string("all_reduce").size() + 56);
  EXPECT_EQ(second.size(), 56U);
}

TEST_F(Timeline, ReadsFilesThatAreLongerThanAPiece) {
  constexpr int64_t kSpans = 50'000;
  TimelineEncoder encoder;
  std::string bytes = TimelineEncoder::header({});
  for (int64_t i = 0; i < kSpans; ++i) {
    Span span = operation_span(i);
    if (i % 100 == 0) span.name += std::to_string(i);
    encoder.append(bytes, span);
  }
  write(bytes);
  const RankTimeline timeline = read();
  ASSERT_EQ(timeline.spans.size(), static_cast<size_t>(kSpans));
  for (int64_t i = 0; i < kSpans; ++i) ASSERT_EQ(timeline.spans[static_cast<size_t>(i)].sequence, i);
  EXPECT_EQ(timeline.spans[49'900].name, "all_reduce49900");
}

TEST_F(Timeline, IgnoresATornEnd) {
  TimelineEncoder encoder;
  std::string bytes = TimelineEncoder::header({});
  std::vector<std::pair<size_t, size_t>> spans_at = {{bytes.size(), 0}};
  for (int64_t i = 1; i <= 3; ++i) {
    Span span = operation_span(i);
    if (i == 3) span.name = "barrier";
    encoder.append(bytes, span);
    spans_at.emplace_back(bytes.size(), i);
  }
  for (size_t size = 0; size <= bytes.size(); ++size) {
    size_t expected = 0;
    for (const auto& [end, count] : spans_at) {
      if (size >= end) expected = count;
    }
    write(bytes.substr(0, size));
    EXPECT_EQ(read().spans.size(), expected) << size;
  }
  write(bytes + std::string(4096, '\0'));  // blocks that were never written
  EXPECT_EQ(read().spans.size(), 3U);
}

TEST_F(Timeline, RefusesWhatIsNoTimelineOrOfAnotherVersion) {
  write("a text");
  EXPECT_THAT([&] { read(); }, ThrowsMessage<UserError>(HasSubstr("not a timeline: it does not start with MLBSPANS")));
  std::string bytes = TimelineEncoder::header({});
  bytes[8] = 2;
  write(bytes);
  EXPECT_THAT([&] { read(); }, ThrowsMessage<UserError>(HasSubstr("of version 2; this program reads version 1")));
  write(TimelineEncoder::header({0, 1, 0, -1}));
  EXPECT_THROW(read(), UserError);
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  EXPECT_THAT([&] { read(); }, ThrowsMessage<UserError>(HasSubstr("no plain file")));
}

TEST_F(Timeline, RefusesDamagedEntries) {
  std::vector<Span> wrong(9, operation_span(1));
  wrong[0].kind = static_cast<SpanKind>(kSpanKinds);
  wrong[1].thread = static_cast<SpanThread>(2);
  wrong[2].end_ns = wrong[2].begin_ns - 1;
  wrong[3].begin_ns = std::numeric_limits<int64_t>::min();
  wrong[4].end_ns = std::numeric_limits<int64_t>::max();
  wrong[5].step = -2;
  wrong[6].sequence = -1;
  wrong[7].bytes = uint64_t{1} << 63;
  wrong[8].root_peer = -2;
  for (size_t i = 0; i < wrong.size(); ++i) {
    std::string bytes = TimelineEncoder::header({});
    TimelineEncoder().append(bytes, wrong[i]);
    write(bytes);
    EXPECT_THAT([&] { read(); }, ThrowsMessage<UserError>(HasSubstr("damaged at byte 82"))) << i;
  }
  for (const ClockSample sample : {ClockSample{5, 0, 4}, ClockSample{0, std::numeric_limits<int64_t>::min(), 1}}) {
    std::string bytes = TimelineEncoder::header({});
    TimelineEncoder().append(bytes, sample);
    write(bytes);
    EXPECT_THAT([&] { read(); }, ThrowsMessage<UserError>(HasSubstr("a clock sample")));
  }
  std::string bytes = TimelineEncoder::header({});
  TimelineEncoder().append(bytes, operation_span(1));
  const size_t name = 64, span = name + 8 + 10;
  const std::vector<std::tuple<size_t, char, const char*>> changes = {
      {name, '\x09', "an entry of kind 9"},
      {name + 6, '\x01', "a name of 65546 bytes; at most 1000"},
      {span + 4, '\x01', "a span with name 1 of 1"}};
  for (const auto& [place, value, text] : changes) {
    std::string damaged = bytes;
    damaged[place] = value;
    write(damaged);
    EXPECT_THAT([&] { read(); }, ThrowsMessage<UserError>(HasSubstr(text)));
  }
}

TEST_F(Timeline, NamesAreFitForATerminal) {
  TimelineEncoder encoder;
  std::string bytes = TimelineEncoder::header({});
  Span span = operation_span(1);
  span.name = "a\x1b[31m\xff";
  encoder.append(bytes, span);
  span.name = std::string(5000, 'x');
  encoder.append(bytes, span);
  write(bytes);
  const RankTimeline timeline = read();
  EXPECT_EQ(timeline.spans.at(0).name, "a\\x1b[31m\\xff");
  EXPECT_EQ(timeline.spans.at(1).name, std::string(1000, 'x'));
}

}  // namespace
}  // namespace mlbench::record
