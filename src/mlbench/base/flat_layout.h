#pragma once

// Where tensors lie in flat buffers. Parameters (and their gradients) share one flat buffer; the model's buffers, such
// as running statistics, share another. Each tensor starts at a multiple of 64 bytes. Padding is never counted or
// hashed.

#include <cstdint>
#include <string>
#include <vector>

namespace mlbench {

// What a trainable tensor is used for, where a rule or a coder treats tensors differently.
enum class TensorUse {
  kMatrix,     // weights of a product or a convolution: at least two dimensions, the first of which is the outputs
  kEmbedding,  // one row per word, alone or as the output layer, too
  kNorm,       // scale and shift of a normalisation
  kVector,     // a bias, or another vector
};

struct FlatRange {
  std::string name;
  std::vector<int64_t> shape;
  int64_t offset = 0;  // elements from the start of its flat buffer
  int64_t count = 0;   // elements
  bool trainable = true;
  TensorUse use = TensorUse::kMatrix;
};

struct FlatLayout {
  std::vector<FlatRange> ranges;   // in neutral order: trainable ranges first
  int64_t parameter_elements = 0;  // padded size of the parameter (and gradient) buffer
  int64_t buffer_elements = 0;     // padded size of the flat buffer of the model's buffers

  // The number of trainable elements, without padding.
  int64_t parameter_count() const {
    int64_t count = 0;
    for (const FlatRange& range : ranges) count += range.trainable ? range.count : 0;
    return count;
  }
};

}  // namespace mlbench
