#pragma once

// The CIFAR ResNets of He et al. (2015, arXiv 1512.03385, section 4.2; 2016, arXiv 1603.05027): a 3x3 stem of 16
// channels, three stages of (depth - 2) / 6 basic blocks with 16, 32 and 64 channels, mean pooling, and one dense
// layer. The last two stages begin with stride 2. Shortcuts that change the shape are 1x1 convolutions with batch
// normalisation.
//   v1          conv-BN-ReLU-conv-BN, then ReLU after the sum: 272,474 parameters at depth 20
//   v2          BN-ReLU-conv-BN-ReLU-conv; a projection takes the output of the first BN-ReLU; no BN after the stem,
//               BN-ReLU before the pooling: 272,474
//   v2-mlbench  as v2, but with BN-ReLU after the stem and none before the pooling: 272,378
//   v2-tensorflow  as v2, but each stage begins with a projection, and projections have no batch normalisation:
//               272,538. It is the network of MLBench's TensorFlow image: running statistics take 0.003 of a batch,
//               convolutions start normal with deviation sqrt(1 / fan_in), and the dense layer uniform (Glorot and
//               Bengio 2010) with biases of 0
// At depth 6n + 2 the number of parameters is that at depth 20 plus (n - 3) * 97,216.
// Options: version (default "v1"), depth (default 20; 20, 32, 44, 56 are the task's), and l2 (default 0), the weight of
// the penalty l2 / 2 * the sum of squares of all parameters but those of norms in the loss.

#include "mlbench/models/model.h"

namespace mlbench::models {

ModelDescription describe_resnet_cifar(const spec::TaskSpec& task);

}  // namespace mlbench::models
