#pragma once

// Logistic regression (task 2a) in one pass over the batch. While a row is in the core's first-level cache, its logit
// and its shares of loss and gradient are computed, and the next rows are prefetched. Rows are read directly from the
// mapped cache. A gradient is linear in the scale of the loss, so forward() can compute it before gradient() knows the
// scale.

#include <cstdint>
#include <span>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/framework/native/tape/vector_kernels.h"

namespace mlbench::framework::native_framework {

class LinearRows {
 public:
  LinearRows(int64_t features, int threads, const RowKernels& kernels);

  // Computes logits and mean loss, and with `training` the gradient of the mean loss. Labels are 0 or 1.
  void forward(const BatchView& batch, const float* weight, bool training);
  double mean_loss() const { return mean_loss_; }
  std::span<const float> logits() const { return logits_; }
  // Sets gradient to, or with `add` adds to it, scale * the gradient of the mean loss.
  void gradient(float scale, bool add, float* gradient);

 private:
  struct PerThread {
    double loss = 0;
    std::vector<float> gradient;
  };
  int64_t features_;
  const RowKernels& kernels_;
  std::vector<PerThread> threads_;
  std::vector<float> sum_;  // of the threads' gradients
  size_t team_ = 0;         // threads that the last pass had, which may be fewer than asked for
  std::vector<float> logits_;
  double mean_loss_ = 0;
};

}  // namespace mlbench::framework::native_framework
