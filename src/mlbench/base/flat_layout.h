#pragma once

// Where tensors lie in flat buffers: parameters (and their gradients) in one, buffers such as running statistics in
// another, each tensor at a multiple of 64 bytes. Padding counts neither in hashes nor in bytes.

#include <cstdint>
#include <string>
#include <vector>

namespace mlbench {

struct FlatRange {
  std::string name;
  std::vector<int64_t> shape;
  int64_t offset = 0;  // elements from the start of its flat buffer
  int64_t count = 0;   // elements
  bool trainable = true;
};

struct FlatLayout {
  std::vector<FlatRange> ranges;   // neutral order: trainable first
  int64_t parameter_elements = 0;  // padded size of the parameter (and gradient) buffer
  int64_t buffer_elements = 0;     // padded size of the buffer of buffers

  // Trainable elements without padding.
  int64_t parameter_count() const {
    int64_t count = 0;
    for (const FlatRange& range : ranges) count += range.trainable ? range.count : 0;
    return count;
  }
};

}  // namespace mlbench
