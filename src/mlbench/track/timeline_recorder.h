#pragma once

// Spans of one rank's threads, and samples of its clock, for its timeline (record/timeline.h). Any thread hands them
// over at the cost of a copy; a writer thread appends to the file. A full disk or another write error keeps what is
// written whole, is logged once, and neither blocks nor fails training. Nor does a disk that is too slow: of what comes
// while 65,536 spans wait, nothing is kept, and it is logged how much that is.

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string_view>
#include <thread>

#include "mlbench/base/clock.h"
#include "mlbench/record/timeline.h"
#include "mlbench/track/recorder.h"

namespace mlbench::track {

class TimelineRecorder {
 public:
  // On the training thread. Creates the file (IoError; also when it exists) and starts the writer. All times are of
  // `clock`, which outlives the recorder.
  TimelineRecorder(const RecorderOptions& options, const Clock& clock);
  ~TimelineRecorder();  // close()

  const Clock& clock() const { return clock_; }

  // The step that phases, layers and operations belong to from now on; -1: none.
  void set_step(int64_t step) { step_.store(step, std::memory_order_relaxed); }

  // Names live as long as the recorder: literals, or kept().
  // Of the training thread: anything but an operation.
  void span(record::SpanKind kind, std::string_view name, TimePoint begin, TimePoint end);
  // Of communication, by the thread that makes this call: the training thread, or that of communication.
  void operation(std::string_view name, int64_t sequence, uint64_t bytes, int64_t root_peer, TimePoint begin,
                 TimePoint end);
  void clock_sample(const record::ClockSample& sample);
  // A copy of the text, the same for the same text.
  std::string_view kept(std::string_view name);

  // Returns when everything from before is on disk (write, fsync), or could not be written.
  void flush();
  // flush(), then ends the writer; nothing is taken afterwards.
  void close();
  // The first of what went wrong, an IoError, if anything did.
  std::exception_ptr failed() const;

 private:
  struct Entry;
  struct State;
  void add(const Entry& entry);

  const Clock& clock_;
  const std::thread::id training_thread_ = std::this_thread::get_id();
  std::atomic<int64_t> step_{-1};
  std::unique_ptr<State> state_;
};

}  // namespace mlbench::track
