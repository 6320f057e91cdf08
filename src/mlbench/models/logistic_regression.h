#pragma once

// Logistic regression (task 2a): one linear layer with one output, the logit of class 1, and without bias. Samples have
// one dimension and two classes. The option l2 (default 0) is the weight of the penalty l2 / 2 * ||w||^2 in the loss.
// For epsilon the model has 2000 parameters.

#include "mlbench/models/model.h"

namespace mlbench::models {

ModelDescription describe_logistic_regression(const spec::TaskSpec& task);

}  // namespace mlbench::models
