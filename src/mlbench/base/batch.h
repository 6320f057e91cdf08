#pragma once

// What a rank computes at once: named, typed tensors with a weight. A batch owns nothing and needs no tensor library.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/base/shape.h"

namespace mlbench {

// One named tensor. The tensor is dense, or it consists of rows of a matrix such as the mapped cache; then the
// framework gathers the rows (or fuses the gathering into its first operation).
struct BatchTensor {
  std::string name;               // the model's input that it feeds, or what the loss reads: "features", "labels"
  std::vector<int64_t> shape;     // {samples, 1, 28, 28}, {samples}, {positions, columns}; row-major
  ConstBufferView values;         // dense: volume_of(shape) elements; gathered: all rows of the matrix
  std::span<const int64_t> rows;  // empty, or shape[0] numbers of rows, each row of row_volume() elements

  bool dense() const { return rows.empty(); }
  int64_t row_volume() const { return volume_of(std::span(shape).subspan(1)); }  // elements per index of shape[0]
};

// One mini-batch, or one micro-batch of a step that accumulates several.
struct BatchView {
  int64_t samples = 0;  // records: images, rows, pairs of sentences, columns of a token stream
  // The sum of losses is divided by this for the mean: samples, or target tokens without padding.
  int64_t weight = 0;
  // Whether the model's carried state goes on where the previous batch left it. Otherwise the state starts from zeros.
  bool continues = false;
  std::vector<BatchTensor> tensors;

  const BatchTensor* find(std::string_view name) const;  // null: there is none of this name
  const BatchTensor& at(std::string_view name) const;    // precondition: there is one
};

}  // namespace mlbench
