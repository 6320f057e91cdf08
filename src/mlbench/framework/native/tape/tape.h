#pragma once

// What a network is made of here: values, and operations that compute them sample by sample.
//
// Each thread has its own share of the samples of a batch and takes them through a *segment* of operations a few at a
// time (a chunk), so that what one operation writes is still in the cache when the next one reads it. Threads meet only
// at the end of a segment: where the statistics of the batch are needed, and around operations that take the batch as a
// whole. A value that is used in its own segment alone exists per chunk only; what backward needs of it is computed
// once more (`Operation::recompute`).

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/buffer.h"

namespace mlbench::framework::native_framework {

// Samples [first, first + count) of the batch, by this thread.
struct Chunk {
  int thread = 0;
  int64_t first = 0, count = 0;
};

// kBlocked: {blocks of channels, height, width, lanes} per sample; the last block is filled up with zeros. kImage:
// {channels, height, width}, as the loader has it. Both of the network's type of activations. kRows: {features}
// float32.
enum class Layout { kBlocked, kImage, kRows };

struct Shape {
  int64_t channels = 0, height = 1, width = 1;
  int64_t volume() const { return channels * height * width; }
  int64_t pixels() const { return height * width; }
};

// Memory of a value: of the whole batch, or of the chunk at hand of each thread.
struct Buffer {
  int64_t bytes_per_sample = 0;
  std::byte* whole = nullptr;       // null: per thread
  std::vector<std::byte*> scratch;  // [threads]

  template <typename T>
  T* at(const Chunk& chunk) const {
    return reinterpret_cast<T*>(whole != nullptr ? whole + chunk.first * bytes_per_sample
                                                 : scratch[static_cast<size_t>(chunk.thread)]);
  }
};

class Operation;

struct Value {
  Shape shape;
  Layout layout = Layout::kBlocked;
  int64_t blocks = 0;  // of channels, where blocked
  Buffer data;
  bool wants_gradient = true;

  // The gradient is what `writers` operations write to `gradient`, the first overwriting it, plus the gradient of
  // `alias` (a sum hands its gradient on to both terms: no copy).
  Buffer gradient;
  int writers = 0;
  Value* alias = nullptr;
  bool owns_gradient = false;  // `gradient` holds the whole gradient in the end; else it is that of `alias`
  const Buffer& final_gradient() const { return owns_gradient ? gradient : alias->final_gradient(); }

  Operation* producer = nullptr;
  std::vector<Operation*> consumers;

  int64_t planes(const Chunk& chunk) const { return chunk.count * blocks; }
};

// What an operation may ask about the pass it runs in.
struct Pass {
  bool training = false;
  int64_t step = 0, micro_batch = 0;
  int64_t samples = 0;
  int threads = 1;
  bool accumulate = false;  // gradients of parameters
};

// [begin, end) of `count` things for one of `threads`; multiples of `grain`.
struct Share {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};
inline Share share_of(int64_t count, int thread, int threads, int64_t grain = 1) {
  const int64_t units = (count + grain - 1) / grain;
  const auto bound = [&](int64_t i) {
    const int64_t at = units * i / threads * grain;
    return at < count ? at : count;
  };
  return {bound(thread), bound(thread + 1)};
}

// A parameter's place in the flat buffers.
struct Parameter {
  const float* value = nullptr;
  float* gradient = nullptr;
  int64_t offset = 0, count = 0;
};

// Calls come from the threads of a pass; those of different threads have different chunks.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  // Before a pass, by the calling thread: `counts` are the sizes of chunks that may come.
  virtual void prepare(const std::vector<int64_t>& /*counts*/) {}
  // Before the first segment, by every thread: packs this thread's share of the weights.
  virtual void pack(int /*thread*/, const Pass&) {}
  virtual void forward(const Chunk& chunk, const Pass& pass) = 0;
  // When every thread has done its chunks of the segment; by every thread.
  virtual void finish_forward(int /*thread*/, const Pass&) {}
  virtual void backward(const Chunk& chunk, const Pass& pass) = 0;
  virtual void finish_backward(int /*thread*/, const Pass&) {}

  // Seconds per sample of the kernels alone, data in the cache; zeros where not known.
  struct Floor {
    double forward_s = 0, backward_s = 0;
  };
  virtual Floor measure_floor() { return {}; }

  std::string name;  // "stage1.block1.conv1"
  std::vector<Value*> inputs;
  Value* output = nullptr;
  bool by_batch = false;  // takes the batch as a whole (chunk: all samples), each thread its share of the work
  const Operation* after = nullptr;             // whose finish_forward must have been called
  bool cheap = false;                           // the output may be computed once more instead of being kept
  bool recompute = false;                       // and is
  bool merges_alias = false;                    // backward reads the alias of its output's gradient itself
  std::vector<Value*> keeps;                    // data that backward reads
  std::vector<const Value*> reads_gradient_of;  // beside that of its output
  std::vector<Value*> writes_gradient_of;
  std::vector<bool> adds;             // of those: to what is there
  std::vector<Buffer*> state;         // of the whole batch, from forward to backward
  std::vector<Buffer*> temporary;     // of a chunk
  std::vector<Parameter> parameters;  // in the order in which their gradients are reported
  double flops = 0;                   // of forward, per sample; backward: as often as there are gradients
  std::string explanation;            // which implementation was taken
};

// The network's input, set before each pass: dense float32 samples, or rows of a matrix (`rows` not null). `in_place`:
// the output's data are the samples themselves; else they are copied.
struct Source {
  const float* features = nullptr;
  const int64_t* rows = nullptr;
  bool in_place = false;
};

// Operations in order of execution, and the values between them.
struct Tape {
  Tape() = default;
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Source source;
  std::deque<Value> values;
  std::vector<std::unique_ptr<Operation>> operations;
  Value* input = nullptr;
  Value* result = nullptr;
  bool reads_in_place = false;  // dense samples can be the input's data as they are
  // Adds the gradient of a value's alias to its own, where operations write to that, too.
  std::function<void(const Value& value, const Chunk& chunk)> add_alias;

  std::vector<std::string> fused;  // "batch_norm2d+relu" ...: layers that became one operation
  std::string layout;              // of blocked values: "nChw16c"
};

}  // namespace mlbench::framework::native_framework
