#pragma once

// A framework computes forward pass, loss and backward pass on flat float32 buffers in the neutral order. The framework
// owns these buffers, which are in the memory of the device that computes; parameter tensors are views of them. The
// thread that makes a framework is the only one that uses it (OpenMP keeps the number of threads per caller). A
// framework's folder exports `Availability available()` and `std::unique_ptr<Framework> make(const FrameworkOptions&)`.
// `make` throws UserError for a loss, precision or layer that the framework lacks, naming those that it has.

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

// The values of `flat`, a float32 buffer in the host's memory. HostValues (host_values.h) takes a buffer in any memory.
inline std::span<float> values_of(const BufferView& flat) {
  MLBENCH_CHECK(flat.stream.device.kind == Device::Kind::kCpu, "values of a buffer that is not in the host's memory");
  return {static_cast<float*>(flat.data), static_cast<size_t>(flat.count)};
}

using MakeMemory = std::function<std::shared_ptr<std::byte>(size_t bytes)>;

struct FrameworkOptions {
  models::ModelDescription model;  // includes the loss
  int threads = 1;
  int inter_op_threads = 1;  // of the pool for concurrent operations of LibTorch (set once per process) or TensorFlow
  std::vector<int> cores;    // one per thread, to which the thread is bound; empty: no thread is bound
  uint64_t seed = 42;
  int rank = 0;
  std::string precision = "float32";
  std::string device = "cpu";      // cpu | cuda
  int local_rank = 0;              // the number of the rank on its host, and of its GPU there
  bool dropout = true;             // false in tests alone, for example to compare runs with different numbers of ranks
  bool frozen_batch_norm = false;  // true in tests alone: normalise by the running statistics in training, too
  // Whether samples are sparse rows (base/sparse_rows.h); catalog/worker refuses them where the framework takes none.
  bool sparse_rows = false;
  // Allocates zeroed memory, aligned to 64 bytes, for gradients(), where a communicator reads them best. The
  // constructor calls this function once, as the call may be collective over all ranks. Null: the framework allocates
  // the memory itself. A framework with separate memory does not call it.
  MakeMemory gradient_memory;
  std::string convolution = "auto";  // spec::kConvolutions; catalog/worker refuses what the framework does not have
};

// One operation of a training step, with its measured and theoretical costs.
struct OperationCost {
  std::string name;            // "stage1.block1.conv1"
  std::string implementation;  // the one that was chosen, and the reason where there was a choice
  // Seconds on the first thread since profiling was switched on.
  double forward_s = 0, backward_s = 0;
  // Per sample: multiplications and additions; bytes of inputs and output; and the seconds that the kernel takes on one
  // thread when it runs alone, again and again on one small batch in the cache (0: not known).
  double forward_flops = 0, backward_flops = 0;
  int64_t bytes = 0;
  double forward_floor_s = 0, backward_floor_s = 0;
};

enum class LayerPass { kForward, kBackward };

// The time that a layer, or several that are computed as one ("conv1+bn1"), took in a training pass.
struct LayerTime {
  std::string_view layer;  // the text lives as long as the framework, and does not move
  LayerPass pass = LayerPass::kForward;
  TimePoint begin{}, end{};
};

struct BackwardOptions {
  double scale = 1;         // factor of the mean loss
  bool accumulate = false;  // add to the gradients of earlier micro-batches; otherwise overwrite the gradients
  bool last = true;         // the step's last micro-batch: gradients become final, and the callback is called
};

// Throws the UserError of Framework::outputs() for `model`, which is over tokens.
[[noreturn]] void refuse_outputs(const models::ModelDescription& model);

// Sums over the batch of one forward pass.
struct MetricSums {
  double loss = 0;     // sum of losses, without the model's penalties
  double nll = 0;      // sum of the targets' negative log likelihoods, without label smoothing; in nats
  int64_t weight = 0;  // BatchView::weight
};

// A decoder writes sequences, one token per step. Each row is a hypothesis, whose state the decoder keeps. One thread
// uses it.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Encodes `sources` (the tensors that the model's encoder reads) and begins `rows_per_sample` rows for each source.
  // Rows of one source are next to each other.
  virtual void start(const BatchView& sources, int64_t rows_per_sample) = 0;
  // Goes on by one token. `tokens` [rows] are the last token of each row; the result [rows, vocabulary] has the log
  // probabilities of the next token, and is valid until the next call.
  virtual std::span<const float> step(std::span<const int64_t> tokens) = 0;
  // Row i goes on from what was row rows[i]. The number of rows may change. Precondition: a step was made.
  virtual void reorder(std::span<const int64_t> rows) = 0;
  // The attention weights of each row in the last step, [rows, source positions], from which beam search computes the
  // coverage. Empty where the model does not have exactly one attention over the source.
  virtual std::span<const float> attention() = 0;
};

class Framework {
 public:
  virtual ~Framework() = default;

  virtual const models::FlatLayout& layout() const = 0;
  // The flat float32 buffers, on the device that computes; their memory never moves. The next forward pass uses the
  // values that it finds there, and after backward the gradients and statistics are complete. The host reads and writes
  // the buffers through HostValues.
  virtual BufferView parameters() = 0;  // flat [layout().parameter_elements]
  virtual BufferView gradients() = 0;   // flat, same layout
  virtual BufferView buffers() = 0;     // flat [layout().buffer_elements]: BatchNorm running statistics
  // The memory of the buffers where that is not the host's; null: they are in the host's memory. The object lives as
  // long as the framework.
  virtual SeparateMemory* separate_memory() { return nullptr; }
  // Waits until the device has finished all work that was begun in separate memory.
  virtual void synchronize() {}

  // Draws parameters and buffers from the seed (models::initialise), with the same bits on every rank.
  virtual void initialise() = 0;

  // The order of calls in a training step: begin_step once; then, for each micro-batch, forward(kTrain), loss and
  // backward. begin_step clears what must be cleared. `step` selects the dropout stream (seed, rank, step), within
  // which the step's training passes are numbered from 0.
  virtual void begin_step(int64_t step) = 0;
  // Precondition: the batch has a sample. A rank without samples in a whole step calls zero_gradients instead.
  virtual void forward(const BatchView& batch, Mode mode) = 0;
  // The mean loss of the last forward pass: the sum of losses (models::LossSpec) divided by BatchView::weight, plus the
  // model's penalties.
  virtual double loss() = 0;
  // Sums over the last forward pass. The device computes them, so that the logits need not come to the host.
  virtual MetricSums metric_sums() = 0;
  // Computes the gradients of `options.scale` times the mean loss of the last forward pass.
  virtual void backward(const BackwardOptions& options) = 0;
  // Sets the whole gradient to zeros, for a rank without samples in a step, and calls the callback once, for all of it.
  virtual void zero_gradients() = 0;
  // The outputs of the last forward pass on the host, [samples, outputs] row-major float32, valid until the next one:
  // logits, with binary_cross_entropy the probability of class 1, or with mean_squared_error the predicted number.
  // Throws UserError where the model's loss is over tokens, for which metric_sums() has the figures.
  virtual std::span<const float> outputs() = 0;

  // For models that carry a state from batch to batch. carried_state() copies the state after the last training pass to
  // the host, for a checkpoint; empty where there is none. set_carried_state() sets the state of `sequences` sequences
  // from which the next training pass with BatchView::continues goes on.
  virtual std::vector<float> carried_state() { return {}; }
  virtual void set_carried_state(std::span<const float> /*state*/, int64_t /*sequences*/) {}

  // Makes a decoder for a model that writes sequences (one with a ModelDescription::decoder_input). Throws UserError,
  // naming the framework, for other models. The decoder uses the framework's current parameters, and no dropout. There
  // may be one decoder at a time, and none during a training step.
  virtual std::unique_ptr<Decoder> make_decoder();
  // Calls `work` with a decoder of its own, at most `most` times (at least once), each call by another thread at the
  // same time where the framework can have several decoders. Returns when all calls have ended, and throws what one of
  // them threw. In float32, calls at the same time give the bits of a decoder that has one thread. A single call may
  // have all threads. Precondition: `most` is at least 1.
  using DecoderWork = std::function<void(Decoder& decoder)>;
  virtual void decode(int64_t most, const DecoderWork& work);

  // backward() calls `callback` with ranges [first, first + count) of gradients() as soon as these are final, the last
  // layer's first, while the pass goes on; each element is reported once. In separate memory, final means final in the
  // order of its stream. The call is made outside of any parallel region, so that the callback may wait, by the thread
  // that called backward or (GPU; several inter-op threads of TensorFlow) by one for which that thread waits.
  // backward() throws what the callback throws.
  using GradientReady = std::function<void(int64_t first, int64_t count)>;
  virtual void on_gradient_ready(GradientReady callback) = 0;

  // From now on, training passes call `done` with the times of layers on `clock`. They do so before they return,
  // outside of any parallel region, from the caller's thread or (GPU) from one for which the caller waits. An empty
  // `done` ends this. Times of one pass do not overlap. On a GPU, a time is that in which the host launches the layer's
  // work. A framework that cannot tell layers apart never calls `done`.
  using LayerDone = std::function<void(const LayerTime& time)>;
  virtual void on_layer(const Clock& /*clock*/, LayerDone /*done*/) {}

  // profile(true) starts to count the costs of operations in training steps, from zero; profile(false) stops. costs()
  // has these costs in the order of the forward pass; it is empty where a framework cannot tell its operations apart.
  virtual void profile(bool /*on*/) {}
  virtual std::vector<OperationCost> costs() { return {}; }

  // The choices that took effect, for the record's `effective`: {name, device, precision, layout, pinned: bool (threads
  // are bound to cores), fused: bool, ...}.
  virtual Json effective() const = 0;
  // The versions of libraries for the record's environment, for example {"libtorch": "2.15.0"}.
  virtual Json versions() const = 0;
};

}  // namespace mlbench::framework
