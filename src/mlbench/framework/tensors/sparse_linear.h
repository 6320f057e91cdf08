#pragma once

// A linear layer with one output and without bias over sparse rows (base/sparse_rows.h), which are read where they lie
// in the mapped cache. Both passes read the values that are not zero, and touch the weights and the gradients of their
// columns alone. All sums are made in the order of the batch, so that results are the same bits for any number of
// threads.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/base/sparse_rows.h"
#include "mlbench/framework/framework.h"

namespace mlbench::framework {

// Whether the model is a single product with one vector.
bool is_one_product(const models::ModelDescription& model);

// Throws UserError where `options` ask for more than such a product of sparse rows, in float32 and on the CPU.
// `framework` is for the message.
void check_sparse_rows(const std::string& framework, const FrameworkOptions& options);

class SparseLinear {
 public:
  SparseLinear(int64_t features, int threads) : features_(features), threads_(threads) {}

  // Computes the outputs of a batch. Its rows must stay where they are until gradient().
  void forward(const BatchView& batch, const float* weight);
  std::span<const float> outputs() const { return outputs_; }
  // Sets `gradient` [features] to the gradient of the weights, or with `add` adds that. `output_gradient` has the
  // gradient of each output of the last pass.
  void gradient(std::span<const float> output_gradient, bool add, float* gradient) const;

 private:
  int64_t features_;
  int threads_;
  std::vector<SparseRow> rows_;  // of the last pass
  std::vector<float> outputs_;
};

}  // namespace mlbench::framework
