#pragma once

// What a rank computes at once: named, typed tensors with a weight. No owner, no tensor library.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/base/shape.h"

namespace mlbench {

// One named tensor. Either dense, or rows of a matrix such as the mapped cache, which the framework gathers (or fuses
// into its first operation).
struct BatchTensor {
  std::string name;               // of the model's input that it feeds, or of what its loss reads: "features", "labels"
  std::vector<int64_t> shape;     // {samples, 1, 28, 28}, {samples}, {positions, columns}; row-major
  ConstBufferView values;         // dense: volume_of(shape) elements; gathered: all rows of the matrix
  std::span<const int64_t> rows;  // empty, or [shape[0]] numbers of rows, each of row_volume() elements

  bool dense() const { return rows.empty(); }
  int64_t row_volume() const { return volume_of(std::span(shape).subspan(1)); }  // elements per index of shape[0]
};

// One mini-batch, or one micro-batch of a step that accumulates several.
struct BatchView {
  int64_t samples = 0;  // records: images, rows, pairs of sentences, columns of a token stream
  // What the sum of losses is divided by for the mean: samples, or target tokens without padding.
  int64_t weight = 0;
  // The model's carried state goes on where the batch before left it; otherwise it starts from zeros.
  bool continues = false;
  std::vector<BatchTensor> tensors;

  const BatchTensor* find(std::string_view name) const;  // null: none of this name
  const BatchTensor& at(std::string_view name) const;    // our own bug where it is missing
};

}  // namespace mlbench
