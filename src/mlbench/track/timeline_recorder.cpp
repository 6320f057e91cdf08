#include "mlbench/track/timeline_recorder.h"

#include <fmt/format.h>

#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/log.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/track/spool_file.h"
#include "mlbench/track/writer.h"

namespace mlbench::track {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostWaiting = 1 << 16;
constexpr size_t kWakeAt = kMostWaiting / 2;
constexpr auto kWriteInterval = std::chrono::milliseconds(50);

int64_t ns_of(TimePoint time) { return time.time_since_epoch().count(); }

}  // namespace

struct TimelineRecorder::Entry {
  record::SpanKind kind = record::SpanKind::kPhase;
  record::SpanThread thread = record::SpanThread::kTraining;
  std::string_view name = {};
  int64_t begin_ns = 0, end_ns = 0, step = -1, sequence = 0;
  uint64_t bytes = 0;
  int64_t root_peer = -1;
};

struct TimelineRecorder::State : Writer {
  explicit State(const fs::path& path) : file(path) {
    // A push must not allocate, since observers must not throw.
    waiting.reserve(kMostWaiting);
    taken.reserve(kMostWaiting);
  }

  // The mutex guards these.
  std::vector<Entry> waiting;
  std::vector<record::ClockSample> samples;
  std::unordered_set<std::string> names;
  int64_t left_out = 0;

  // Only the writer thread uses these.
  SpoolFile file;
  record::TimelineEncoder encoder;
  std::vector<Entry> taken;
  record::Span span;
  std::string bytes;
  std::vector<size_t> ends;

  void encode(const std::vector<record::ClockSample>& due) {
    for (const Entry& entry : taken) {
      span.kind = entry.kind;
      span.thread = entry.thread;
      span.name = entry.name;
      span.begin_ns = entry.begin_ns;
      span.end_ns = entry.end_ns;
      span.step = entry.step;
      span.sequence = entry.sequence;
      span.bytes = entry.bytes;
      span.root_peer = entry.root_peer;
      encoder.append(bytes, span);
      ends.push_back(bytes.size());
    }
    for (const record::ClockSample& sample : due) {
      encoder.append(bytes, sample);
      ends.push_back(bytes.size());
    }
  }

  void write_out(bool sync) {
    keep_first(file.append(bytes, ends));
    bytes.clear();
    ends.clear();
    if (sync) keep_first(file.sync());
  }

  void keep_first(std::exception_ptr failure) {
    if (!failure) return;
    {
      const std::lock_guard lock(mutex);
      if (error) return;
      error = failure;
    }
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& what) {
      spdlog::warn("the timeline is not whole, the run goes on: {}", what.what());
    }
  }

  void tell_left_out(int64_t count) {
    if (count == 0) return;
    keep_first(std::make_exception_ptr(
        IoError(fmt::format("{} spans of the timeline were left out: the disk is too slow for them", count))));
  }

  void write_loop() {
    std::unique_lock lock(mutex);
    for (;;) {
      if (!closing && waiting.size() < kWakeAt && flushes_asked == flushes_done) {
        wake_writer.wait_for(lock, kWriteInterval);
      }
      const bool last = closing;
      const uint64_t flush_to = flushes_asked;
      const bool flush = last || flush_to > flushes_done;
      taken.clear();
      taken.swap(waiting);
      std::vector<record::ClockSample> due;
      due.swap(samples);
      const int64_t lost = left_out;
      lock.unlock();

      encode(due);
      write_out(flush);
      if (flush) tell_left_out(lost);

      lock.lock();
      if (flush) {
        flushes_done = flush_to;
        flushed.notify_all();
      }
      if (last) return;
    }
  }
};

TimelineRecorder::TimelineRecorder(const RecorderOptions& options, const Clock& clock) : clock_(clock) {
  const fs::path path = timeline_path(options.run_dir, options.segment, options.rank);
  make_folder(path.parent_path());
  state_ = std::make_unique<State>(path);
  state_->file.begin(record::TimelineEncoder::header(header_of(options, clock)));
  state_->writer = std::thread([state = state_.get()] { state->write_loop(); });
}

TimelineRecorder::~TimelineRecorder() { close(); }

void TimelineRecorder::add(const Entry& entry) {
  const std::lock_guard lock(state_->mutex);
  if (state_->closing) return;
  if (state_->waiting.size() == kMostWaiting) {
    ++state_->left_out;
    return;
  }
  state_->waiting.push_back(entry);
  if (state_->waiting.size() == kWakeAt) state_->wake_writer.notify_one();
}

void TimelineRecorder::span(record::SpanKind kind, std::string_view name, TimePoint begin, TimePoint end) {
  const bool of_step = kind == record::SpanKind::kPhase || kind == record::SpanKind::kLayer;
  add({.kind = kind,
       .name = name,
       .begin_ns = ns_of(begin),
       .end_ns = ns_of(end),
       .step = of_step ? step_.load(std::memory_order_relaxed) : -1});
}

void TimelineRecorder::operation(std::string_view name, int64_t sequence, uint64_t bytes, int64_t root_peer,
                                 TimePoint begin, TimePoint end) {
  const bool training = std::this_thread::get_id() == training_thread_;
  add({.kind = record::SpanKind::kOperation,
       .thread = training ? record::SpanThread::kTraining : record::SpanThread::kCommunication,
       .name = name,
       .begin_ns = ns_of(begin),
       .end_ns = ns_of(end),
       .step = step_.load(std::memory_order_relaxed),
       .sequence = sequence,
       .bytes = bytes,
       .root_peer = root_peer});
}

void TimelineRecorder::clock_sample(const record::ClockSample& sample) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->closing) state_->samples.push_back(sample);
}

std::string_view TimelineRecorder::kept(std::string_view name) {
  const std::lock_guard lock(state_->mutex);
  return *state_->names.emplace(name).first;
}

void TimelineRecorder::flush() { state_->flush(); }

void TimelineRecorder::close() { state_->close(); }

std::exception_ptr TimelineRecorder::failed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->error;
}

}  // namespace mlbench::track
