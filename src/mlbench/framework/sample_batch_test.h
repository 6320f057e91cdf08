#pragma once

// Makes batches of samples with one label each, for tests.

#include <utility>
#include <vector>

#include "mlbench/base/batch.h"

namespace mlbench::framework {

// A view of the arguments as a dense batch: `samples` samples of shape `sample_shape`, back to back.
inline BatchView samples_view(const float* features, const int64_t* labels, std::vector<int64_t> sample_shape,
                              int64_t samples) {
  sample_shape.insert(sample_shape.begin(), samples);
  BatchView batch;
  batch.samples = batch.weight = samples;
  const int64_t elements = volume_of(sample_shape);
  batch.tensors.push_back({"features", std::move(sample_shape), {features, elements, DType::kFloat32}, {}});
  batch.tensors.push_back({"labels", {samples}, {labels, samples, DType::kInt64}, {}});
  return batch;
}

// The batch with the samples `rows` of `matrix` instead of its own. The result is a view of both arguments.
inline BatchView gathered_view(BatchView batch, const std::vector<float>& matrix, const std::vector<int64_t>& rows) {
  BatchTensor& features = batch.tensors.front();
  features.values = {matrix.data(), static_cast<int64_t>(matrix.size()), DType::kFloat32};
  features.rows = rows;
  batch.samples = batch.weight = features.shape.front() = static_cast<int64_t>(rows.size());
  return batch;
}

}  // namespace mlbench::framework
