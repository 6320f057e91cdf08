#include "mlbench/track/recorder.h"

#include <fmt/format.h>

#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/step_format.h"
#include "mlbench/track/spool_file.h"
#include "mlbench/track/writer.h"

namespace mlbench::track {

using namespace std::chrono_literals;

namespace {

constexpr uint64_t kCapacity = 1 << 14;  // samples: 0.8 s at 20,000 steps/s
constexpr uint64_t kWakeEvery = kCapacity / 2;
constexpr auto kPollInterval = 50ms;
// Shorter steps share a record, at most so many of them.
constexpr std::chrono::nanoseconds kMergeBelow = 5ms;
constexpr uint32_t kMostMerged = 25;
static_assert(kMostMerged <= record::kMostMergedSteps);

// A queue with one producer and one consumer. Both sides count samples since the start; the ring holds the samples
// between the two counts.
class SampleQueue {
 public:
  // Called by the producer. Returns false when the queue is full.
  bool push(const StepSample& sample) {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - seen_tail_ == kCapacity) {
      seen_tail_ = tail_.load(std::memory_order_acquire);
      if (head - seen_tail_ == kCapacity) return false;
    }
    ring_[head % kCapacity] = sample;
    head_.store(head + 1, std::memory_order_release);
    return true;
  }
  uint64_t pushed() const { return head_.load(std::memory_order_acquire); }

  // Called by the consumer: the sample number `taken()`. Precondition: that number is below pushed().
  const StepSample& front() const { return ring_[taken() % kCapacity]; }
  void pop() { tail_.store(taken() + 1, std::memory_order_release); }
  uint64_t taken() const { return tail_.load(std::memory_order_relaxed); }

 private:
  std::vector<StepSample> ring_ = std::vector<StepSample>(kCapacity);
  // These are apart, so that neither side's writes take away the other's cache line.
  alignas(64) std::atomic<uint64_t> head_{0};
  uint64_t seen_tail_ = 0;
  alignas(64) std::atomic<uint64_t> tail_{0};
};

int64_t total_of(const StepSample& sample) {
  int64_t total = 0;
  for (const int64_t ns : sample.kinds_ns) total += ns;
  return total;
}

}  // namespace

struct Recorder::State : Writer {
  struct Event {
    uint64_t after;  // how many samples were pushed before the event
    std::string line;
  };

  State(const RecorderOptions& given, const Clock& given_clock)
      : options(given),
        clock(given_clock),
        start(given_clock.now()),
        steps(steps_path(given.run_dir, given.segment, given.rank)),
        events(events_path(given.run_dir, given.segment, given.rank)) {}

  const RecorderOptions options;
  const Clock& clock;
  const TimePoint start;
  SampleQueue queue;

  // Only the writer thread uses these.
  SpoolFile steps, events;
  record::StepRecord open;  // count 0: none
  uint64_t next_sequence = 0;
  std::string step_bytes, event_bytes;
  std::vector<size_t> step_ends, event_ends;  // the ends of the records and lines in them

  // The mutex guards these.
  std::deque<Event> pending;
  uint64_t events_taken = 0;
  std::function<void(Json& event)> add_to_last_word;

  std::atomic<bool> has_error{false};

  void close_record() {
    if (open.count == 0) return;
    open.sequence = next_sequence++;
    record::append_record(step_bytes, open);
    step_ends.push_back(step_bytes.size());
    open = {};
  }

  void merge(const StepSample& sample) {
    const int64_t total = total_of(sample);
    const bool is_short = total < kMergeBelow.count();
    const bool follows = open.count > 0 && is_short && sample.epoch == static_cast<int32_t>(open.epoch) &&
                         static_cast<uint64_t>(sample.step) == open.first_step + open.count;
    if (!follows) {
      close_record();
      open.first_step = static_cast<uint64_t>(sample.step);
      open.epoch = static_cast<uint32_t>(sample.epoch);
    }
    open.exchange_ns[open.count] = sample.exchange_ns;
    open.hidden_ns[open.count] = sample.hidden_ns;
    ++open.count;
    open.samples += static_cast<uint64_t>(sample.samples);
    open.loss_sum += sample.loss_sum;
    open.lr = sample.lr;
    open.end_ns = sample.end_ns;
    open.bytes += sample.bytes;
    for (size_t kind = 0; kind < record::kStepKinds; ++kind) open.kinds_ns[kind] += sample.kinds_ns[kind];
    if (!is_short || open.count == kMostMerged) close_record();
  }

  void take_until(uint64_t count) {
    while (queue.taken() < count) {
      merge(queue.front());
      queue.pop();
    }
  }

  void keep_first(std::exception_ptr failure) {
    if (!failure) return;
    const std::lock_guard lock(mutex);
    if (!error) error = std::move(failure);
    has_error.store(true, std::memory_order_release);
  }

  void write() {
    keep_first(steps.append(step_bytes, step_ends));
    keep_first(events.append(event_bytes, event_ends));
    step_bytes.clear();
    event_bytes.clear();
    step_ends.clear();
    event_ends.clear();
  }

  void write_loop() {
    std::unique_lock lock(mutex);
    for (;;) {
      // Every wake-up is a poll, so a spurious or a lost one does no harm.
      if (!closing && pending.empty() && flushes_asked == flushes_done) wake_writer.wait_for(lock, kPollInterval);
      const bool last = closing;
      const uint64_t flush_to = flushes_asked;
      const bool flush = last || flush_to > flushes_done;
      std::deque<Event> due;
      due.swap(pending);
      // Read under the lock, so that everything pushed before an event or a flush was asked for is below it.
      const uint64_t pushed = queue.pushed();
      lock.unlock();

      for (const Event& event : due) {
        take_until(event.after);
        close_record();
        event_bytes += event.line;
        event_ends.push_back(event_bytes.size());
      }
      take_until(pushed);
      if (flush) close_record();
      write();
      if (flush) {
        keep_first(steps.sync());
        keep_first(events.sync());
      }

      lock.lock();
      if (flush) {
        flushes_done = flush_to;
        flushed.notify_all();
      }
      if (last) return;
    }
  }
};

record::SpoolHeader header_of(const RecorderOptions& options, const Clock& clock) {
  record::SpoolHeader header;
  header.run_id = options.run_id;
  header.segment = static_cast<uint32_t>(options.segment);
  header.rank = static_cast<uint32_t>(options.rank);
  header.start_wall_us = unix_us(clock.wall_now());
  header.identity = options.identity;
  return header;
}

Recorder::Recorder(const RecorderOptions& options, const Clock& clock) {
  make_folder(spool_dir(options.run_dir));
  state_ = std::make_unique<State>(options, clock);
  state_->steps.begin(record::encode_header(header_of(options, clock)));
  state_->writer = std::thread([state = state_.get()] { state->write_loop(); });
}

Recorder::~Recorder() { close(); }

void Recorder::push(const StepSample& sample) {
  while (!state_->queue.push(sample)) {
    // The writer is a whole queue behind: the disk hangs, or the machine is far too busy. Measurements are worth the
    // wait.
    state_->wake_writer.notify_one();
    std::this_thread::sleep_for(100us);
  }
  if (state_->queue.pushed() % kWakeEvery == 0) state_->wake_writer.notify_one();
}

void Recorder::event(Json event) {
  const std::lock_guard lock(state_->mutex);
  if (state_->closing) return;
  const std::string name = event.value("event", "");
  Json whole = {{"event", name}, {"sequence", state_->events_taken}, {"end_ns", nanoseconds_since_start()}};
  whole.update(event);
  std::string line = whole.dump(-1, ' ', false, Json::error_handler_t::replace);
  MLBENCH_CHECK(line.size() <= inputs::kEventLine.most_bytes,
                fmt::format("the event '{}' has {} bytes; at most {} are read back", name, line.size(),
                            inputs::kEventLine.most_bytes));
  ++state_->events_taken;
  state_->pending.push_back({state_->queue.pushed(), std::move(line) + "\n"});
  state_->wake_writer.notify_one();
}

void Recorder::last_word(Json event) {
  std::function<void(Json&)> add;
  {
    const std::lock_guard lock(state_->mutex);
    add = state_->add_to_last_word;
  }
  if (add) add(event);
  this->event(std::move(event));
}

void Recorder::on_last_word(std::function<void(Json&)> add) {
  const std::lock_guard lock(state_->mutex);
  state_->add_to_last_word = std::move(add);
}

void Recorder::flush() { state_->flush(); }

void Recorder::close() { state_->close(); }

std::exception_ptr Recorder::failed() const {
  if (!state_->has_error.load(std::memory_order_acquire)) return nullptr;
  const std::lock_guard lock(state_->mutex);
  return state_->error;
}

int64_t Recorder::nanoseconds_since_start() const { return (state_->clock.now() - state_->start).count(); }

}  // namespace mlbench::track
