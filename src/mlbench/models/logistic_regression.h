#pragma once

// Logistic regression (task 2a): one linear layer with one output, the logit of class 1, and without bias. Samples have
// one dimension and two classes. The options l1 and l2 (both default 0) are the weights of the penalties l1 * ||w||_1
// and l2 / 2 * ||w||^2 in the loss. For epsilon the model has 2000 parameters.

#include "mlbench/models/model.h"

namespace mlbench::models {

ModelDescription describe_logistic_regression(const spec::TaskSpec& task);

}  // namespace mlbench::models
