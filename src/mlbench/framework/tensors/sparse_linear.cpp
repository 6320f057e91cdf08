#include "mlbench/framework/tensors/sparse_linear.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/framework/threads.h"

namespace mlbench::framework {

namespace {

// The sum is in double precision: reading the weights takes longer than the arithmetic.
float product_of(SparseRow row, const float* weight) {
  double sum = 0;
  for (const SparseEntry& entry : row) sum += static_cast<double>(entry.value) * weight[entry.column];
  return static_cast<float>(sum);
}

}  // namespace

bool is_one_product(const models::ModelDescription& model) {
  const std::vector<models::LayerSpec>& layers = model.layers;
  return layers.size() == 1 && layers[0].kind == "linear" && layers[0].options.at("out") == 1 &&
         !layers[0].options.value("bias", true);
}

void check_sparse_rows(const std::string& framework, const FrameworkOptions& options) {
  if (!is_one_product(options.model)) {
    throw UserError(
        fmt::format("framework '{}' multiplies sparse rows with one vector, and model '{}' is another; valid: "
                    "logistic_regression, linear_regression",
                    framework, options.model.name));
  }
  if (options.precision != "float32") {
    throw UserError(fmt::format("framework '{}' reads sparse rows in float32, not {}; valid: float32", framework,
                                options.precision));
  }
  if (options.device == "cpu") return;
  throw UserError(fmt::format("framework '{}' reads sparse rows on the device cpu, not on {}; valid: --device cpu",
                              framework, options.device));
}

void SparseLinear::forward(const BatchView& batch, const float* weight) {
  rows_.clear();
  for (int64_t i = 0; i < batch.samples; ++i) {
    const SparseRow row = rows_.emplace_back(sparse_row(batch, i));
    MLBENCH_CHECK(row.empty() || (row.front().column >= 0 && row.back().column < features_), "columns of the model");
  }
  outputs_.resize(rows_.size());
#pragma omp parallel num_threads(threads_)
  {
    const Share share = share_of(batch.samples, omp_get_thread_num(), omp_get_num_threads());
    for (auto i = static_cast<size_t>(share.begin); i < static_cast<size_t>(share.end); ++i) {
      outputs_[i] = product_of(rows_[i], weight);
    }
  }
}

// Each thread adds to columns of its own, which are one piece of each row.
void SparseLinear::gradient(std::span<const float> output_gradient, bool add, float* gradient) const {
#pragma omp parallel num_threads(threads_)
  {
    const Share columns = share_of(features_, omp_get_thread_num(), omp_get_num_threads());
    if (!add) std::fill(gradient + columns.begin, gradient + columns.end, 0.0F);
    for (size_t i = 0; i < rows_.size(); ++i) {
      auto entry = std::ranges::lower_bound(rows_[i], columns.begin, {}, &SparseEntry::column);
      for (; entry != rows_[i].end() && entry->column < columns.end; ++entry) {
        gradient[entry->column] += output_gradient[i] * entry->value;
      }
    }
  }
}

}  // namespace mlbench::framework
