#pragma once

// Logistic regression (task 2a) in one pass over the batch: while a row is in the core's first-level cache, its logit,
// its share of the loss and its share of the gradient are computed, and the next rows are asked for. Rows are read
// where they lie in the mapped cache. A gradient is linear in the scale of the loss, so forward can compute it before
// backward knows the scale.

#include <cstdint>
#include <span>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/framework/native/tape/vector_kernels.h"

namespace mlbench::framework::native_framework {

class LinearRows {
 public:
  LinearRows(int64_t features, int threads, const RowKernels& kernels);

  // Labels are 0 or 1. With `training` the gradient of the mean loss, too.
  void forward(const BatchView& batch, const float* weight, bool training);
  double mean_loss() const { return mean_loss_; }
  std::span<const float> logits() const { return logits_; }
  // gradient = (or, with `add`, +=) scale * gradient of the mean loss
  void gradient(float scale, bool add, float* gradient) const;

 private:
  struct PerThread {
    double loss = 0;
    std::vector<float> gradient;
  };
  int64_t features_;
  const RowKernels& kernels_;
  std::vector<PerThread> threads_;
  size_t team_ = 0;  // threads of the last pass, which may be fewer than asked for
  std::vector<float> logits_;
  double mean_loss_ = 0;
};

}  // namespace mlbench::framework::native_framework
