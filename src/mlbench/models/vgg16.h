#pragma once

// VGG-16 for images of 224 x 224 pixels (Simonyan & Zisserman 2015, arXiv 1409.1556, table 1, column D) as torchvision
// has it without batch norm. Five stages of 2, 2, 3, 3 and 3 convolutions (3x3, with bias and ReLU) of 64, 128, 256,
// 512 and 512 channels end in 2x2 max-pooling each. Then come means over 7 x 7 windows, which leave images of 224 x 224
// pixels as they are, two dense layers with ReLU and dropout, and one of logits. There are 138,357,544 parameters for
// 1000 classes. Weights of convolutions start normal with deviation sqrt(2 / fan-out), those of dense layers with 0.01,
// and biases as zeros. Height and width are multiples of 32.
// Options: dropout (default 0.5); hidden, the units of each of the two dense layers (default 4096).

#include "mlbench/models/model.h"

namespace mlbench::models {

ModelDescription describe_vgg16(const spec::TaskSpec& task);

}  // namespace mlbench::models
