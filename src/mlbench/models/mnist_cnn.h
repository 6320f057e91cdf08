#pragma once

// The network of the MNIST scaling exercise (tasks mnist and fashion-mnist): two 5x5 convolutions of 32 and 64
// channels, each with ReLU and 2x2 max-pooling, a dense layer of 1024 with ReLU and dropout, and a dense layer of one
// logit per class. The option dropout has the default 0.4. For 1 x 28 x 28 and 10 classes it has 3,274,634 parameters.

#include "mlbench/models/model.h"

namespace mlbench::models {

ModelDescription describe_mnist_cnn(const spec::TaskSpec& task);

}  // namespace mlbench::models
