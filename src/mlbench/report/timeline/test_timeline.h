#pragma once

// Writes timelines into a run's folder, for the tests of this folder.

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "mlbench/base/input.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/timeline.h"
#include "mlbench/report/test_records.h"

namespace mlbench::report {

// Writes the timeline of a rank whose clock shows (t + offset) (1 + ppm / 10^6) when the supervisor's shows t. All
// arguments in milliseconds are the supervisor's, counted from 1000 s on. The destructor writes the file.
class TestRank {
 public:
  TestRank(std::filesystem::path run_dir, int64_t rank, double offset_s = 0, double drift_ppm = 0, int64_t segment = 1)
      : run_dir_(std::move(run_dir)), segment_(segment), rank_(rank), offset_s_(offset_s), drift_ppm_(drift_ppm) {}
  ~TestRank() {
    const std::filesystem::path path = timeline_path(run_dir_, segment_, rank_);
    std::filesystem::create_directories(path.parent_path());
    const std::filesystem::path spec = spec_path(run_dir_);
    const record::SpoolHeader header{
        7, static_cast<uint32_t>(segment_), static_cast<uint32_t>(rank_),
        1'769'860'800'000'000 + (segment_ - 1) * 60'000'000,
        std::filesystem::exists(spec) ? text_member(read_json_file(spec), "identity") : ""};
    std::ofstream(path, std::ios::binary) << record::TimelineEncoder::header(header) << bytes_;
  }
  TestRank(const TestRank&) = delete;
  TestRank& operator=(const TestRank&) = delete;

  static int64_t server_ns(double ms) { return 1'000'000'000'000 + std::llround(ms * 1e6); }
  int64_t own_ns(double ms) const {
    const long double server = static_cast<long double>(server_ns(ms)) + static_cast<long double>(offset_s_) * 1e9L;
    return std::llround(server * (1 + static_cast<long double>(drift_ppm_) / 1e6L));
  }

  void span(record::Span span, double begin_ms, double end_ms) {
    span.begin_ns = own_ns(begin_ms);
    span.end_ns = own_ns(end_ms);
    encoder_.append(bytes_, span);
  }
  void phase(const std::string& name, int64_t step, double begin_ms, double end_ms) {
    span({.name = name, .step = step}, begin_ms, end_ms);
  }
  // Adds the next operation of the rank.
  void operation(const std::string& name, double begin_ms, double end_ms, int64_t step = -1, int64_t root_peer = -1,
                 record::SpanThread thread = record::SpanThread::kTraining) {
    span({.kind = record::SpanKind::kOperation,
          .thread = thread,
          .name = name,
          .step = step,
          .sequence = ++sequence_,
          .bytes = 1000,
          .root_peer = root_peer},
         begin_ms, end_ms);
  }
  void skip_operation() { ++sequence_; }
  // Adds a clock sample: its message takes `to_ms` to the supervisor and `back_ms` back.
  void round_trip(double sent_ms, double to_ms = 0.01, double back_ms = 0.01) {
    encoder_.append(
        bytes_, record::ClockSample{own_ns(sent_ms), server_ns(sent_ms + to_ms), own_ns(sent_ms + to_ms + back_ms)});
  }

 private:
  std::filesystem::path run_dir_;
  int64_t segment_, rank_, sequence_ = 0;
  double offset_s_, drift_ppm_;
  record::TimelineEncoder encoder_;
  std::string bytes_;
};

// Writes two ranks that take `steps` steps of 2 ms of input, 3 ms forward, 5 ms backward, an all-reduce of 1 ms and 1
// ms of update. Rank 1's input takes `late_ms` longer; `offset_s` and `drift_ppm` are those of rank 1's clock.
inline void write_two_ranks(const std::filesystem::path& run_dir, int64_t steps, double late_ms, double offset_s = 0,
                            double drift_ppm = 0) {
  TestRank zero(run_dir, 0), one(run_dir, 1, offset_s, drift_ppm);
  double at = 100;
  for (TestRank* rank : {&zero, &one}) {
    rank->span({.kind = record::SpanKind::kPrepare, .name = "prepare"}, 0, at);
    rank->operation("barrier", 90, at);
  }
  for (int64_t step = 0; step < steps; ++step) {
    const double last = at + 10 + late_ms, end = last + 1;
    for (TestRank* rank : {&zero, &one}) {
      const double input = rank == &zero ? 2 : 2 + late_ms;
      if (step % 10 == 0) rank->round_trip(at + 0.1, 0.02, 0.005);
      rank->phase("batch_load", step, at, at + input);
      rank->span({.kind = record::SpanKind::kLayer, .name = "fc1 forward", .step = step}, at + input, at + input + 3);
      rank->phase("fwd_pass", step, at + input, at + input + 3);
      rank->phase("backprop", step, at + input + 3, at + input + 8);
      rank->operation("all_reduce", at + input + 8, end, step);
      rank->phase("agg", step, at + input + 8, end);
      rank->phase("opt_step", step, end, end + 1);
    }
    at = end + 1;
  }
  for (TestRank* rank : {&zero, &one}) rank->round_trip(at, 0.005, 0.02);
}

inline RecordJson timeline_record(int64_t workers) {
  RecordJson record = make_record("traced-" + std::to_string(workers), workers, 10, 1000, true);
  record["oversubscribed"] = true;
  record["hosts"] = Json::array({{{"name", "node1"}}});
  return record;
}

}  // namespace mlbench::report
