#pragma once

// The basic block of residual networks: two 3x3 convolutions beside a shortcut.
//   v1  conv-BN-ReLU-conv-BN, then ReLU after the sum (He et al. 2015, arXiv 1512.03385)
//   v2  BN-ReLU-conv-BN-ReLU-conv; a projection takes the output of the first BN-ReLU (He et al. 2016, arXiv
//       1603.05027)
// A shortcut that changes the shape must be a projection, a 1x1 convolution. Convolutions have no bias.

#include <string>

#include "mlbench/models/chain.h"

namespace mlbench::models {

struct BasicBlock {
  enum class Shortcut { kIdentity, kProjection, kNormalisedProjection };  // the last one ends in a batch norm
  using Convolution = Chain& (Chain::*)(const std::string& name, int64_t out_channels, int64_t kernel, int64_t stride);

  std::string name;  // prefix of the names of the block's layers
  int64_t channels = 0;
  int64_t stride = 1;  // of the first convolution and of the projection
  Shortcut shortcut = Shortcut::kIdentity;
  Convolution convolution = &Chain::conv2d_normal;  // which also says how weights start
  double norm_momentum = 0.1;                       // of the batch norms
};

void add_block_v1(Chain& chain, const BasicBlock& block);
void add_block_v2(Chain& chain, const BasicBlock& block);

}  // namespace mlbench::models
