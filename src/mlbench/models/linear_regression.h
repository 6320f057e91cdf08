#pragma once

// Linear regression: one linear layer with one output and without bias, as MLBench's. Samples have one dimension; the
// target is the label as a number. Options: l1 and l2 (both default 0), the weights of the penalties l1 * ||w||_1 and
// l2 / 2 * ||w||^2 in the loss. With mean_squared_error over n samples (rows of X) the optimum for l1 = 0 solves
// (2 / n X^T X + l2 I) w = 2 / n X^T y.

#include "mlbench/models/model.h"

namespace mlbench::models {

ModelDescription describe_linear_regression(const spec::TaskSpec& task);

}  // namespace mlbench::models
