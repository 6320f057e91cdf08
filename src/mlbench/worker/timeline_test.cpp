// Timelines of real ranks, one of which has a wrong clock and late batches.

#include "mlbench/record/timeline.h"
#include "mlbench/base/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/process.h"
#include "mlbench/net/kv/kv.h"
#include "mlbench/spec/collectives.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::worker {
namespace {

namespace fs = std::filesystem;
using record::RankTimeline;
using record::Span;
using record::SpanKind;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kSteps = 20;
constexpr int64_t kSecond = 1'000'000'000;

class Timelines : public testing::Test {
 protected:
  spec::RunSpec make_run() const {
    spec::RunSpec run;
    run.id = 1;
    run.name = "timeline";
    run.created_at = "2026-01-01T00:00:00.000000Z";
    run.workers = 2;
    run.timeline = true;
    run.cache_dir = (folder_ / "cache").string();
    run.run_dir = (folder_ / run.name).string();
    return run;
  }
  // Trains logistic regression on one batch, the same in each step.
  spec::RunSpec make_training() const {
    spec::RunSpec run = make_run();
    run.fixed_batch = true;
    run.limits.max_steps = kSteps;
    const std::vector<spec::Override> overrides = {{"data.sample_shape", "[500]"}};
    spec::set_task(run, spec::find_task("2a", "2021", "", overrides), overrides);
    run.data_name = "madelon";
    run.synthetic = true;
    return run;
  }

  void start(const spec::RunSpec& run, const std::map<std::string, std::string>& environment = {}) {
    fs::create_directories(run.run_dir);
    write_json_file(fs::path(run.run_dir) / "spec.json", spec::to_json(run));
    for (const char* rank : {"0", "1"}) {
      ProcessOptions options;
      options.arguments = {SLOW_WORKER, "--run-dir", run.run_dir};
      options.environment = environment;
      options.environment["MASTER_ADDR"] = "127.0.0.1";
      options.environment["MASTER_PORT"] = std::to_string(port_);
      options.environment["RANK"] = rank;
      options.environment["WORLD_SIZE"] = "2";
      options.output = fs::path(run.run_dir) / (std::string("log-") + rank);
      options.die_with_parent = true;
      ranks_.push_back(ChildProcess::start(options));
    }
  }
  void expect_end(const spec::RunSpec& run, int code) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto end = ranks_[rank].wait(seconds(120));
      ASSERT_TRUE(end && end->code == code) << read_file(fs::path(run.run_dir) / ("log-" + std::to_string(rank)));
    }
  }

  TemporaryFolder folder_;
  const int port_ = net::free_port();
  std::vector<ChildProcess> ranks_;
};

std::vector<Span> of_kind(const RankTimeline& timeline, SpanKind kind) {
  std::vector<Span> spans;
  for (const Span& span : timeline.spans) {
    if (span.kind == kind) spans.push_back(span);
  }
  return spans;
}

// The spans of the training thread, one after the other. Layers and operations lie within them, and are left out.
std::vector<Span> outermost(const RankTimeline& timeline) {
  std::vector<Span> spans;
  for (const Span& span : timeline.spans) {
    if (span.kind != SpanKind::kLayer && span.kind != SpanKind::kOperation) spans.push_back(span);
  }
  std::ranges::stable_sort(spans, {}, &Span::begin_ns);
  return spans;
}

// The least and the largest difference of the supervisor's clock to the rank's that all samples allow.
std::pair<int64_t, int64_t> offsets_of(const RankTimeline& timeline) {
  int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  for (const record::ClockSample& sample : timeline.clock) {
    least = std::max(least, sample.server_ns - sample.received_ns);
    most = std::min(most, sample.server_ns - sample.sent_ns);
  }
  return {least, most};
}

TEST_F(Timelines, OfRealRanksOneWithAWrongClockAndLateBatches) {
  const spec::RunSpec run = make_training();
  start(run, {{"SLOW_RANK", "1"},
              {"SLOW_MS", "20"},
              {"MLBENCH_TEST_CLOCK_RANK", "1"},
              {"MLBENCH_TEST_CLOCK_OFFSET_S", "10"},
              {"MLBENCH_TEST_CLOCK_DRIFT_PPM", "200"}});
  expect_end(run, 0);
  std::vector<std::vector<std::tuple<int64_t, std::string, uint64_t, int64_t>>> operations(2);
  for (int64_t rank = 0; rank < 2; ++rank) {
    SCOPED_TRACE(rank);
    const RankTimeline timeline = record::read_timeline(run.run_dir, 1, rank);
    EXPECT_EQ(timeline.header.rank, rank);
    EXPECT_EQ(timeline.left_out, 0);

    // No moment between the first step and the end is missing.
    const std::vector<Span> row = outermost(timeline);
    const auto first = std::ranges::find(row, SpanKind::kPhase, &Span::kind);
    ASSERT_NE(first, row.end());
    EXPECT_EQ(first->name, "batch_load");
    for (auto span = first; span + 1 != row.end(); ++span) {
      EXPECT_EQ(span->end_ns, (span + 1)->begin_ns) << span->name << ", " << (span + 1)->name;
    }
    EXPECT_EQ(row.back().name, "record");
    std::map<std::string, int64_t> count, spent_ns;
    for (const Span& phase : of_kind(timeline, SpanKind::kPhase)) {
      ++count[phase.name];
      spent_ns[phase.name] += phase.end_ns - phase.begin_ns;
    }
    for (const char* phase : {"batch_load", "init", "fwd_pass", "comp_loss", "backprop", "opt_step", "comp_metrics"}) {
      EXPECT_EQ(count[phase], kSteps) << phase;
    }
    EXPECT_EQ(count["agg"], 2 * kSteps);
    EXPECT_GE(spent_ns["batch_load"], rank * kSteps * kSecond / 50);

    // Layers lie within the phase of their pass, in their step.
    const std::vector<Span> layers = of_kind(timeline, SpanKind::kLayer);
    EXPECT_EQ(std::ssize(layers), 2 * kSteps);
    for (const Span& layer : layers) {
      EXPECT_TRUE(layer.name.ends_with(" forward") || layer.name.ends_with(" backward")) << layer.name;
      EXPECT_TRUE(std::ranges::any_of(row, [&](const Span& phase) {
        return phase.kind == SpanKind::kPhase && phase.step == layer.step && phase.begin_ns <= layer.begin_ns &&
               layer.end_ns <= phase.end_ns;
      })) << layer.name;
    }

    for (const Span& operation : of_kind(timeline, SpanKind::kOperation)) {
      operations[static_cast<size_t>(rank)].emplace_back(operation.sequence, operation.name, operation.bytes,
                                                         operation.step);
    }

    // A run begins with 20 round trips.
    EXPECT_GE(timeline.clock.size(), 20U);
    for (const record::ClockSample& sample : timeline.clock) EXPECT_LE(sample.sent_ns, sample.received_ns);
    const auto [least, most] = offsets_of(timeline);
    if (rank == 0) {
      EXPECT_LE(least, 0);
      EXPECT_LE(0, most);
    } else {
      EXPECT_LT(least, -10 * kSecond + kSecond / 10);  // and the clock gains 200 us more per second
      EXPECT_GT(most, -11 * kSecond);
    }
  }
  EXPECT_FALSE(operations[0].empty());
  EXPECT_EQ(operations[0], operations[1]);
}

TEST_F(Timelines, OfCollectivesHaveTheirOperations) {
  spec::RunSpec run = make_run();
  spec::CollectivesSpec collectives;
  collectives.sizes.end_bytes = 64;
  spec::set_collectives(run, collectives);
  start(run);
  expect_end(run, 0);
  for (int64_t rank = 0; rank < 2; ++rank) {
    const RankTimeline timeline = record::read_timeline(run.run_dir, 1, rank);
    EXPECT_GE(of_kind(timeline, SpanKind::kOperation).size(), 10U);
    EXPECT_GE(timeline.clock.size(), 20U);
  }
}

// A rank that is stopped leaves all that it has recorded until then.
TEST_F(Timelines, AreWholeWhenARankIsStopped) {
  spec::RunSpec run = make_training();
  run.limits.max_steps = 1'000'000'000;
  start(run);
  const fs::path file = timeline_path(run.run_dir, 1, 1);
  for (int tries = 0; tries < 3000 && (!fs::exists(file) || fs::file_size(file) < 20'000); ++tries) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  ranks_[1].signal(SIGTERM);
  const auto end = ranks_[1].wait(seconds(60));
  ASSERT_TRUE(end && end->code == 130);
  const RankTimeline timeline = record::read_timeline(run.run_dir, 1, 1);
  const std::vector<Span> row = outermost(timeline);
  ASSERT_GT(row.size(), 100U);
  for (size_t i = 1; i < row.size(); ++i) EXPECT_LE(row[i - 1].end_ns, row[i].begin_ns);
  ranks_[0].signal(SIGKILL);
  ranks_[0].wait(seconds(60));
}

TEST_F(Timelines, AreThereOnlyWhereAskedFor) {
  spec::RunSpec run = make_training();
  run.timeline = false;
  start(run);
  expect_end(run, 0);
  EXPECT_FALSE(fs::exists(fs::path(run.run_dir) / "timeline"));
}

}  // namespace
}  // namespace mlbench::worker
