#pragma once

// Logistic regression (task 2a): one linear layer of one output without bias on samples of one dimension and two
// classes. Its output is the logit of class 1. Option: l2 (default 0), the weight of the penalty l2 / 2 * ||w||^2 in
// the loss. For epsilon: 2000 parameters.

#include "mlbench/models/model.h"

namespace mlbench::models {

ModelDescription describe_logistic_regression(const spec::TaskSpec& task);

}  // namespace mlbench::models
