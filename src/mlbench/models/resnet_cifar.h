#pragma once

// The CIFAR ResNets of He et al. (2015, arXiv 1512.03385, section 4.2; 2016, arXiv 1603.05027): a 3x3 stem of 16
// channels, three stages of (depth - 2) / 6 basic blocks with 16, 32 and 64 channels, mean pooling, and one dense
// layer. The last two stages begin with stride 2. Shortcuts that change the shape are 1x1 convolutions with batch
// normalisation.
//   v1          conv-BN-ReLU-conv-BN, then ReLU after the sum: 272,474 parameters at depth 20
//   v2          BN-ReLU-conv-BN-ReLU-conv; a projection takes the output of the first BN-ReLU; no BN after the stem,
//               BN-ReLU before the pooling: 272,474
//   v2-mlbench  as v2, but with BN-ReLU after the stem and none before the pooling: 272,378
// At depth 6n + 2 the number of parameters is that at depth 20 plus (n - 3) * 97,216.
// Options: version (default "v1"), depth (default 20; 20, 32, 44, 56 are the task's).

#include "mlbench/models/model.h"

namespace mlbench::models {

ModelDescription describe_resnet_cifar(const spec::TaskSpec& task);

}  // namespace mlbench::models
