#pragma once

// A framework computes: forward, loss, backward, on flat float32 buffers in the neutral order. It owns the buffers,
// which lie where it computes; parameter tensors are views of them. One thread makes it and uses it (OpenMP keeps the
// number of threads per caller). A framework's folder exports `Availability available()` and
// `std::unique_ptr<Framework> make(const FrameworkOptions&)`; make throws UserError for a loss, precision or
// layer that it lacks, naming those that it has.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/base/buffer.h"
#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/base/separate_memory.h"
#include "mlbench/models/model.h"
#include "mlbench/spec/task.h"

namespace mlbench::framework {

enum class Mode { kTrain, kEvaluate };

// The values of a flat float32 buffer in the host's memory. Wherever a framework's buffers lie: host_values.h.
inline std::span<float> values_of(const BufferView& flat) {
  MLBENCH_CHECK(flat.stream.device.kind == Device::Kind::kCpu, "values of a buffer that is not in the host's memory");
  return {static_cast<float*>(flat.data), static_cast<size_t>(flat.count)};
}

using MakeMemory = std::function<std::shared_ptr<std::byte>(size_t bytes)>;

struct FrameworkOptions {
  models::ModelDescription model;  // its loss included
  int threads = 1;
  int inter_op_threads = 1;  // of the pool for operations beside each other, where there is one; set once per process
  std::vector<int> cores;    // one per thread, which is bound to it; empty: no thread is bound
  uint64_t seed = 42;
  int rank = 0;
  std::string precision = "float32";
  std::string device = "cpu";      // cpu | cuda
  int local_rank = 0;              // number of the GPU, on its host
  bool dropout = true;             // tests of equality over k switch it off
  bool frozen_batch_norm = false;  // normalise by the running statistics in training, too: the same tests
  // Zeroed memory, aligned to 64 bytes, for gradients(): where a communicator reads them best. The constructor asks
  // once, as all ranks may have to together. Null: the framework's own memory. A framework with separate memory does
  // not ask.
  MakeMemory gradient_memory;
};

// What one operation of a training step is, and what it cost.
struct OperationCost {
  std::string name;            // "stage1.block1.conv1"
  std::string implementation;  // which was taken, and why where there was a choice
  // Since profiling was switched on, on the first thread.
  double forward_s = 0, backward_s = 0;
  // Per sample that this thread computes: multiplications and additions; bytes of inputs and output; and the seconds
  // that the kernel takes alone, again and again on one small batch in the cache (0: not known).
  double forward_flops = 0, backward_flops = 0;
  int64_t bytes = 0;
  double forward_floor_s = 0, backward_floor_s = 0;
};

enum class LayerPass { kForward, kBackward };

// When a layer, or what is computed as one ("conv1+bn1"), went through a training pass.
struct LayerTime {
  std::string_view layer;  // as long as the framework, at one place
  LayerPass pass = LayerPass::kForward;
  TimePoint begin{}, end{};
};

struct BackwardOptions {
  double scale = 1;         // of the mean loss
  bool accumulate = false;  // adds to the gradients, of the micro-batches before; otherwise overwrites them
  bool last = true;         // of its step: gradients are final, and the callback learns of it
};

// UserError of Framework::outputs() for a model over tokens.
[[noreturn]] void refuse_outputs(const models::ModelDescription& model);

// Of one forward pass.
struct MetricSums {
  double loss = 0;     // what the mean loss is made of, without the model's penalties
  double nll = 0;      // negative log likelihood of the targets, without label smoothing; in nats
  int64_t weight = 0;  // of the batch
};

// Writes sequences, one token per step, for rows of hypotheses. It keeps the state of every row. One thread uses it.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Encodes the sources of the batch (the tensors that the model's encoder reads) and begins `rows_per_sample` rows for
  // each of them, next to each other.
  virtual void start(const BatchView& sources, int64_t rows_per_sample) = 0;
  // One token further: `tokens` [rows] are the last ones, `log_probabilities` [rows, vocabulary] of the next ones is
  // valid until the next call.
  virtual std::span<const float> step(std::span<const int64_t> tokens) = 0;
  // Row i goes on from row rows[i] of before; there may be fewer, or more.
  virtual void reorder(std::span<const int64_t> rows) = 0;
  // Of the last step: [rows, source positions], what each row looked at, for coverage; empty where the model has no one
  // attention.
  virtual std::span<const float> attention() = 0;
};

class Framework {
 public:
  virtual ~Framework() = default;

  virtual const models::FlatLayout& layout() const = 0;
  // Float32, where the framework computes, the same memory for ever: what stands in them counts from the next forward
  // pass on, and after backward the gradients and statistics are complete. The host reads and writes them through
  // host_values.h.
  virtual BufferView parameters() = 0;  // flat [layout().parameter_elements]
  virtual BufferView gradients() = 0;   // flat, same layout
  virtual BufferView buffers() = 0;     // flat [layout().buffer_elements]: BatchNorm running statistics
  // Where these lie apart from the host's memory; null: they are in it. As long as the framework.
  virtual SeparateMemory* separate_memory() { return nullptr; }
  // The host waits for all that was begun in separate memory.
  virtual void synchronize() {}

  // Draws parameters and buffers from the seed (models::initialise); the same bits on every rank.
  virtual void initialise() = 0;

  // Order per training step: begin_step once; then for each micro-batch forward(kTrain), loss, backward.
  // begin_step: clears what must be cleared; `step` selects the dropout stream (seed, rank, step), in which the forward
  // passes since are numbered.
  virtual void begin_step(int64_t step) = 0;
  // At least one sample: a rank that has none in a whole step calls zero_gradients instead.
  virtual void forward(const BatchView& batch, Mode mode) = 0;
  // Mean loss of the last forward: the sum of losses over BatchView::weight, plus the model's penalties. Losses are
  // those of models::LossSpec.
  virtual double loss() = 0;
  // Sums over the last forward, made beside the logits: nothing of their size comes to the host.
  virtual MetricSums metric_sums() = 0;
  // Gradients of `scale` times the mean loss.
  virtual void backward(const BackwardOptions& options) = 0;
  // The whole gradient as zeros: a rank without samples in a step. Tells the callback all of it at once.
  virtual void zero_gradients() = 0;
  // Outputs of the last forward on the host, [samples, outputs] row-major float32; valid until the next forward.
  // Logits; with binary_cross_entropy the probability of class 1. UserError where the model's loss is over tokens:
  // metric_sums() has what counts of them.
  virtual std::span<const float> outputs() = 0;

  // Models that carry a state from batch to batch: that of the last training pass, on the host, for a checkpoint; and
  // where the next training pass with BatchView::continues goes on, for `sequences` sequences. Empty: there is none.
  virtual std::vector<float> carried_state() { return {}; }
  virtual void set_carried_state(std::span<const float> /*state*/, int64_t /*sequences*/) {}

  // For models that write sequences (ModelDescription says so); UserError naming the model or framework otherwise. The
  // decoder uses the framework's parameters as they stand, and no dropout; one at a time, none during a training step.
  virtual std::unique_ptr<Decoder> make_decoder();

  // Called by backward as soon as they are final, the last layer's first, with ranges [first, first + count) of
  // gradients(): each element once, while the pass goes on; in separate memory final in the order of its stream.
  // Outside of any parallel region, so that the callback may wait, on the thread that called backward or (GPU) on one
  // that it waits for; what it throws, backward throws.
  using GradientReady = std::function<void(int64_t first, int64_t count)>;
  virtual void on_gradient_ready(GradientReady callback) = 0;

  // From now on called with the times of layers by `clock`, in training passes, before the pass returns: outside of any
  // parallel region, by its caller or (GPU) by a thread that it waits for. Empty: no more. Times of one pass do not
  // overlap; a GPU's layers are timed as the host hands them over. Never called where layers cannot be told apart.
  using LayerDone = std::function<void(const LayerTime& time)>;
  virtual void on_layer(const Clock& /*clock*/, LayerDone /*done*/) {}

  // Costs of training steps from now on, counted from zero, in the order of the forward pass. Empty: this framework
  // cannot tell its operations apart.
  virtual void profile(bool /*on*/) {}
  virtual std::vector<OperationCost> costs() { return {}; }

  // {name, device, precision, layout, pinned: bool (threads to cores), fused: bool, ...} for the record's `effective`.
  virtual Json effective() const = 0;
  // Versions for the record's environment, e.g. {"libtorch": "2.15.0"}.
  virtual Json versions() const = 0;
};

}  // namespace mlbench::framework
