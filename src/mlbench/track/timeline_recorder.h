#pragma once

// Records spans of one rank's threads, and samples of its clock, for its timeline (record/timeline.h). Handing a span
// over costs any thread a copy; a writer thread appends to the file. After a full disk or another write error, what is
// written whole stays, the error is logged once, and training is neither blocked nor failed. A disk that is too slow
// does no harm either: while 65,536 spans wait, further spans are dropped, and the log says how many.

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
  // Must be called on the training thread. Creates the file and starts the writer. Throws IoError, also when the file
  // exists. All times are those of `clock`, which must outlive the recorder.
  TimelineRecorder(const RecorderOptions& options, const Clock& clock);
  ~TimelineRecorder();  // close()

  const Clock& clock() const { return clock_; }

  // Sets the step to which phases, layers and operations belong from now on; -1: none.
  void set_step(int64_t step) { step_.store(step, std::memory_order_relaxed); }

  // Names must live as long as the recorder: literals, or kept(). Records a span of the training thread: anything
  // except an operation.
  void span(record::SpanKind kind, std::string_view name, TimePoint begin, TimePoint end);
  // Records an operation of communication. The thread that executes the operation must call this: the training thread
  // or the communication thread.
  void operation(std::string_view name, int64_t sequence, uint64_t bytes, int64_t root_peer, TimePoint begin,
                 TimePoint end);
  void clock_sample(const record::ClockSample& sample);
  // Keeps a copy of the text and returns it; equal texts have one copy.
  std::string_view kept(std::string_view name);

  // Returns when everything recorded before is on disk (write, fsync), or could not be written.
  void flush();
  // Flushes, then ends the writer; nothing is taken afterwards.
  void close();
  // The first error, an IoError, if anything failed.
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
