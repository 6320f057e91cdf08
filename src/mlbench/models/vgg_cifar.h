#pragma once

// The VGG networks of Simonyan & Zisserman (2015, arXiv 1409.1556, table 1) as MLBench has them for images of 32 x 32
// pixels. Each 3x3 convolution, which has a bias, is followed by batch normalisation (Ioffe & Szegedy 2015) and ReLU.
// One dense layer of 512 inputs stands for the paper's three. Five stages of 64, 128, 256, 512 and 512 channels end in
// 2x2 max-pooling. All parameters have PyTorch's default start.
//   depth  convolutions of the stages  parameters for 10 classes
//   11     1 1 2 2 2                    9,231,114
//   13     2 2 2 2 2                    9,416,010
//   16     2 2 3 3 3                   14,728,266
//   19     2 2 4 4 4                   20,040,522
// Option: depth (default 16).

#include "mlbench/models/model.h"

namespace mlbench::models {

ModelDescription describe_vgg_cifar(const spec::TaskSpec& task);

}  // namespace mlbench::models
