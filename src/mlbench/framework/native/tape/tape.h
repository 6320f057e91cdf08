#pragma once

// The parts of a network: values, and operations that compute values sample by sample.
//
// Each thread has its own share of a batch's samples, and takes these through a *segment* of operations, a few samples
// (a chunk) at a time. So what one operation writes is still in the cache when the next one reads it. Threads meet only
// at the end of a segment: where statistics of the batch are needed, and around operations that take the whole batch. A
// value that only its own segment uses exists for one chunk at a time; what the backward pass needs of it is computed a
// second time (`Operation::recompute`).

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/framework/threads.h"

namespace mlbench::framework::native_framework {

// The samples [first, first + count) of the batch, taken by `thread`.
struct Chunk {
  int thread = 0;
  int64_t first = 0, count = 0;
};

// The layout of one sample. kBlocked is {blocks of channels, height, width, lanes}; the last block is padded with
// zeros. kImage is {channels, height, width}, as the loader has it. Both have the network's type of activations. kRows
// is {features}, float32.
enum class Layout { kBlocked, kImage, kRows };

struct Shape {
  int64_t channels = 0, height = 1, width = 1;
  int64_t volume() const { return channels * height * width; }
  int64_t pixels() const { return height * width; }
};

// Memory of a value: for the whole batch, or for the current chunk of each thread.
struct Buffer {
  int64_t bytes_per_sample = 0;
  std::byte* whole = nullptr;       // null: the memory is per thread
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
  int64_t blocks = 0;  // blocks of channels, where the layout is kBlocked
  Buffer data;
  bool wants_gradient = true;

  // The gradient is the sum of two parts. One is what `writers` operations write to `gradient`, the first of them
  // overwriting it. The other is the gradient of `alias`, since a sum hands its gradient on to both terms without a
  // copy.
  Buffer gradient;
  int writers = 0;
  Value* alias = nullptr;
  bool owns_gradient = false;  // `gradient` holds the whole gradient in the end; otherwise `alias` does
  const Buffer& final_gradient() const { return owns_gradient ? gradient : alias->final_gradient(); }

  Operation* producer = nullptr;
  std::vector<Operation*> consumers;

  int64_t planes(const Chunk& chunk) const { return chunk.count * blocks; }
};

// What an operation may need to know about the pass in which it runs.
struct Pass {
  bool training = false;
  int64_t step = 0, micro_batch = 0;
  int64_t samples = 0;
  int threads = 1;
  bool accumulate = false;  // add to the gradients of parameters instead of overwriting them
};

// A parameter's place in the flat buffers; null pointers: there is no such parameter.
struct Parameter {
  const float* value = nullptr;
  float* gradient = nullptr;
  int64_t offset = 0, count = 0;
};

// The threads of a pass call operations; different threads have different chunks.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  // Called before a pass, by the calling thread. `counts` are the sizes of chunks that may come.
  virtual void prepare(const std::vector<int64_t>& /*counts*/) {}
  // Called by every thread before the first segment; packs this thread's share of the weights.
  virtual void pack(int /*thread*/, const Pass&) {}
  virtual void forward(const Chunk& chunk, const Pass& pass) = 0;
  // Called by every thread when all threads have finished their chunks of the segment, as is finish_backward().
  virtual void finish_forward(int /*thread*/, const Pass&) {}
  virtual void backward(const Chunk& chunk, const Pass& pass) = 0;
  virtual void finish_backward(int /*thread*/, const Pass&) {}

  // Seconds per sample of the kernels alone, with data in the cache; zeros where they are not known.
  struct Floor {
    double forward_s = 0, backward_s = 0;
  };
  virtual Floor measure_floor() { return {}; }

  std::string name;  // "stage1.block1.conv1"
  std::vector<Value*> inputs;
  Value* output = nullptr;
  bool by_batch = false;  // takes the whole batch as one chunk, of which each thread does a share of the work
  const Operation* after = nullptr;             // operation whose finish_forward must have been called before
  bool cheap = false;                           // the output may be computed a second time instead of being kept
  bool recompute = false;                       // the output is computed a second time
  bool merges_alias = false;                    // backward itself reads the gradient of the output's alias
  std::vector<Value*> keeps;                    // values whose data backward reads
  std::vector<const Value*> reads_gradient_of;  // beside the gradient of its output
  std::vector<Value*> writes_gradient_of;
  std::vector<bool> adds;             // per element of writes_gradient_of: backward adds instead of overwriting
  std::vector<Buffer*> state;         // buffers for the whole batch, from forward to backward
  std::vector<Buffer*> temporary;     // buffers for one chunk
  std::vector<Parameter> parameters;  // in the order in which their gradients are reported
  double flops = 0;                   // of forward, per sample; backward has as many for each gradient
  std::string explanation;            // the implementation that was chosen
};

// The network's input, set before each pass: dense float32 samples, or rows of a matrix where `rows` is not null. With
// `in_place`, the data of the input's value are the samples themselves; otherwise the samples are copied.
struct Source {
  const float* features = nullptr;
  const int64_t* rows = nullptr;
  bool in_place = false;
};

// Operations in their order of execution, and the values between them.
struct Tape {
  Tape() = default;
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Source source;
  std::deque<Value> values;
  std::vector<std::unique_ptr<Operation>> operations;
  Value* input = nullptr;
  Value* result = nullptr;
  bool reads_in_place = false;  // the input's value can use dense samples as its data
  // Adds the gradient of a value's alias to the value's own gradient, where operations write to that, too.
  std::function<void(const Value& value, const Chunk& chunk)> add_alias;

  std::vector<std::string> fused;  // layers that became one operation: "batch_norm2d+relu"
  std::string layout;              // the layout of blocked values: "nChw16c"
  // The number of convolutions by their order of sums ("direct", "winograd") and the reason for it.
  std::map<std::string, std::map<std::string, int>> convolutions;
};

}  // namespace mlbench::framework::native_framework
