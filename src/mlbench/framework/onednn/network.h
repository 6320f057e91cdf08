#pragma once

// A model's layers as a tape of operations (tape.h), the memory they need and their execution by a team of threads.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/base/flat_layout.h"
#include "mlbench/framework/framework.h"
#include "mlbench/models/model.h"

namespace mlbench::framework::onednn_framework {

struct NetworkOptions {
  models::ModelDescription model;
  FlatLayout layout;
  // The flat buffers; they outlive the network.
  float* parameters = nullptr;
  float* gradients = nullptr;
  float* buffers = nullptr;
  int threads = 1;
  uint64_t seed = 42;
  int rank = 0;
  bool dropout = true;
  bool frozen_batch_norm = false;
};

// Every call comes from the thread that made the network.
class Network {
 public:
  virtual ~Network() = default;

  virtual void forward(const BatchView& batch, bool training, int64_t step) = 0;
  // Logits of the last forward, [samples, outputs].
  virtual std::span<const float> outputs() const = 0;
  // Of the last forward(training): gradients of parameters from that of the outputs. `ready` is told each range when
  // it is final, in this thread, while the others work on.
  using Ready = std::function<void(int64_t first, int64_t count)>;
  virtual void backward(std::span<const float> output_gradient, bool accumulate, const Ready& ready) = 0;

  virtual const std::vector<std::string>& fused() const = 0;  // "batch_norm2d+relu" ...
  virtual std::string layout() const = 0;                     // "nChw16c"
  virtual const char* instruction_set() const = 0;            // of our own kernels
  virtual void profile(bool on) = 0;                          // on: costs are counted from zero
  virtual std::vector<OperationCost> costs() = 0;
};

// UserError for a layer kind that this framework lacks, naming those that it has.
std::unique_ptr<Network> make_float32_network(const NetworkOptions& options);
// Activations and copies of weights in bfloat16, all else in float32. UserError where the CPU cannot multiply it.
std::unique_ptr<Network> make_bfloat16_network(const NetworkOptions& options);

}  // namespace mlbench::framework::onednn_framework
