#pragma once

// Plans the memory of a tape: which operations make a segment, which values and gradients are kept for the whole batch,
// which are computed a second time, and which buffers share their place.

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "mlbench/framework/native/tape/tape.h"

namespace mlbench::framework::native_framework {

// Operations that a chunk of samples passes through, one after the other.
struct Segment {
  std::vector<Operation*> operations;
  bool by_batch = false;  // the segment is one operation, which takes the whole batch
  int64_t chunk = 1;      // the most samples of a chunk
};

// Zeroed memory, for which huge pages are requested. Throws std::bad_alloc when there is none.
class HugePages {
 public:
  HugePages() = default;
  explicit HugePages(int64_t bytes);
  std::byte* get() const { return bytes_.get(); }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

class MemoryPlan {
 public:
  // Sets members of the tape's operations and values: `recompute`, `adds`, `writers` and `owns_gradient`. The tape must
  // outlive the plan.
  MemoryPlan(Tape& tape, int threads);

  const std::vector<Segment>& segments() const { return segments_; }

  // Gives buffers their memory and prepares operations, for batches of `samples` samples. Does nothing when the last
  // call had the same number.
  void settle(int64_t samples);
  // The chunks that `thread` takes through the segment, in order.
  const std::vector<Chunk>& chunks(size_t segment, int thread) const {
    return chunks_[segment][static_cast<size_t>(thread)];
  }
  // The memory in which the network's input is kept, after settle(); null: the input is not kept for the whole batch.
  std::byte* stored_input() const { return stored_input_; }

 private:
  // A buffer for the whole batch, and the first and last segment between which it is in use.
  struct Stored {
    Buffer* buffer;
    size_t first, last;
    int64_t offset = 0;  // place in memory_, in bytes per sample of the batch
  };
  // A buffer for one chunk of each thread.
  struct Temporary {
    Buffer* buffer;
    int64_t offset;  // place in the thread's scratch memory, in bytes
  };

  void cut_into_segments();
  void choose_what_is_kept();
  void keep(Value& value);
  void count_writers();
  void keep_gradients();
  void share_places();
  std::vector<std::vector<Chunk>> share_out(const Segment& segment, int64_t samples) const;
  int64_t place_temporaries(const Segment& segment, int64_t most_samples, std::vector<Temporary>& temporaries) const;
  size_t segment_of(const Operation* operation) const { return segment_of_.at(operation); }
  bool is_stored(const Buffer& buffer) const;
  bool is_data(const Stored& stored) const;

  Tape& tape_;
  int threads_;
  std::map<const Operation*, size_t> segment_of_;
  std::vector<Segment> segments_;
  std::vector<Stored> stored_;
  int64_t stored_bytes_ = 0;  // per sample

  int64_t capacity_ = 0;  // samples for which memory_ has room
  int64_t settled_ = 0;   // samples for which buffers and primitives are ready
  HugePages memory_;
  std::byte* stored_input_ = nullptr;
  std::vector<HugePages> scratch_;                       // per thread
  std::vector<std::vector<std::vector<Chunk>>> chunks_;  // [segment][thread]
};

}  // namespace mlbench::framework::native_framework
