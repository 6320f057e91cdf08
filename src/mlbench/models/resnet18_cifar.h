#pragma once

// ResNet-18 for images of 32 x 32 pixels: a 3x3 stem of 64 channels with BN and ReLU, without pooling, four stages of
// two basic blocks (basic_block.h), and one dense layer. The last three stages begin with stride 2.
//   v1          stages of 64, 128, 256 and 512 channels in torchvision's order, with mean pooling: 11,173,962
//               parameters for 10 classes, 11,220,132 for 100
//   v2-mlbench  MLBench's "resnet18", which comes from an entry of DAWNBench: blocks v2 whose projections have no batch
//               norm, stages of 64, 128, 256 and 256 channels, and a head of means and maxima over the image: 5,205,962
//               parameters for 10 classes
// Convolutions of v1 start as in torchvision (He et al. 2015); those of v2-mlbench have PyTorch's default start.
// Option: version (default "v1").

#include "mlbench/models/model.h"

namespace mlbench::models {

ModelDescription describe_resnet18_cifar(const spec::TaskSpec& task);

}  // namespace mlbench::models
