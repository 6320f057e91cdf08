#pragma once

// The event recorder of one rank. The training thread pushes one struct per step into a lock-free queue; a writer
// thread merges short steps and appends them to the spool (record/spool.h). After a full disk or another write error,
// what is written stays, failed() reports the error once, and training is never blocked.

#include <array>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "mlbench/base/clock.h"
#include "mlbench/base/json.h"
#include "mlbench/record/spool.h"

namespace mlbench::track {

struct StepSample {
  int64_t step = 0;
  int32_t epoch = 0;
  int64_t samples = 0;
  double loss_sum = 0;
  double lr = 0;
  int64_t end_ns = 0;  // since the segment's start
  uint64_t bytes = 0;
  std::array<int64_t, record::kStepKinds> kinds_ns{};  // their sum is the step's total
  int64_t exchange_ns = 0;                             // within operations of communication
  int64_t hidden_ns = 0;  // the part of it while the gradient was computed; the rest is exposed
};

struct RecorderOptions {
  std::filesystem::path run_dir;
  uint64_t run_id = 0;
  std::string identity = {};  // the run's
  int64_t segment = 1;
  int64_t rank = 0;
};

// The header of the files of this rank in this segment.
record::SpoolHeader header_of(const RecorderOptions& options, const Clock& clock);

class Recorder {
 public:
  // Creates both files and starts the writer. Throws IoError, also when a file exists: a segment has its files to
  // itself. Makes the process ignore SIGXFSZ, so that a file-size limit is an error like a full disk.
  Recorder(const RecorderOptions& options, const Clock& clock);
  ~Recorder();  // close()

  // Only the training thread may call this. push() is one queue push, and waits only if the writer is a whole queue
  // behind.
  void push(const StepSample& sample);
  // Ends the current merged record, then appends the event, to which "sequence" and "end_ns" are added. Any thread may
  // call this; after close() it does nothing. Throws InternalError for an event whose line is too long to be read back
  // (inputs::kEventLine), which is not written.
  void event(Json event);
  // The last word of this rank in its segment, whichever thread says it and whatever ended the segment: an event() to
  // which `add` of on_last_word() adds its members first.
  void last_word(Json event);
  // Any thread may call `add` then, so it must not wait. Whatever `add` refers to must outlive the recorder.
  void on_last_word(std::function<void(Json& event)> add);
  // Returns when everything pushed so far is on disk (write, fsync), or could not be written. Ends the current merged
  // record.
  void flush();
  // Flushes, then ends the writer.
  void close();
  // The first write error (an IoError), if any; cheap enough to ask for after every step. After an error a file keeps
  // what was written whole and takes nothing more.
  std::exception_ptr failed() const;
  int64_t nanoseconds_since_start() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlbench::track
