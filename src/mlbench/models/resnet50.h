#pragma once

// ResNet-50 for images of 224 x 224 pixels (He et al. 2015, arXiv 1512.03385, table 1): a 7x7 stem of 64 channels with
// stride 2, BN, ReLU and 3x3 max-pooling with stride 2, then four stages of 3, 4, 6 and 3 bottlenecks, the mean over
// the image and one dense layer. A bottleneck is conv 1x1-BN-ReLU-conv 3x3-BN-ReLU-conv 1x1-BN of w, w and 4 w channels
// beside a shortcut, with ReLU after the sum; w is 64, 128, 256 and 512 in the stages. Stages begin with a projection,
// which is a 1x1 convolution with BN, and from the second stage on with stride 2.
//   v1.5  the stride is the 3x3 convolution's, as in torchvision and tf_cnn_benchmarks
//   v1    the stride is the first convolution's, as in the paper
// Both have 25,557,032 parameters for 1000 classes. They start as torchvision's: convolutions, which have no bias, are
// normal with deviation sqrt(2 / fan-out), batch norms 1 and 0. Height and width are multiples of 32.
// Option: version (default "v1.5").

#include "mlbench/models/model.h"

namespace mlbench::models {

ModelDescription describe_resnet50(const spec::TaskSpec& task);

}  // namespace mlbench::models
