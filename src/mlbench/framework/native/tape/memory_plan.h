#pragma once

// Where the values of a tape live: which operations make a segment, which values and gradients are kept for the whole
// batch, which are computed once more, and who shares whose place.

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "mlbench/framework/native/tape/tape.h"

namespace mlbench::framework::native_framework {

// Operations that take a chunk of samples through, one after the other.
struct Segment {
  std::vector<Operation*> operations;
  bool by_batch = false;  // one operation, of the whole batch
  int64_t chunk = 1;      // samples, at most
};

// Zeroed memory of huge pages.
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
  // Notes in the tape what it decides: `recompute`, `adds`, `writers`, `owns_gradient`. The tape outlives the plan.
  MemoryPlan(Tape& tape, int threads);

  const std::vector<Segment>& segments() const { return segments_; }

  // Gives buffers their memory and prepares operations, for batches of this size. At once for the size that it had.
  void settle(int64_t samples);
  // In order, what a thread takes through a segment of the batch.
  const std::vector<Chunk>& chunks(size_t segment, int thread) const {
    return chunks_[segment][static_cast<size_t>(thread)];
  }
  // Where the input is kept, once settled; null: nowhere.
  std::byte* stored_input() const { return stored_input_; }

 private:
  // A buffer of the whole batch, and the segments between which it is in use.
  struct Stored {
    Buffer* buffer;
    size_t first, last;
    int64_t offset = 0;  // bytes per sample of the batch
  };
  // A buffer of a chunk.
  struct Temporary {
    Buffer* buffer;
    int64_t offset;  // bytes
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

  int64_t capacity_ = 0;  // samples that memory_ holds
  int64_t settled_ = 0;   // samples that buffers and primitives are ready for
  HugePages memory_;
  std::byte* stored_input_ = nullptr;
  std::vector<HugePages> scratch_;                       // per thread
  std::vector<std::vector<std::vector<Chunk>>> chunks_;  // [segment][thread]
};

}  // namespace mlbench::framework::native_framework
