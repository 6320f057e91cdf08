#pragma once

// The losses of tasks, by name. models::LossSpec says from what they are computed. A framework implements a loss or
// refuses its name.

#include <string_view>

namespace mlbench::spec {

// Metrics are computed from the outputs of samples where the loss classifies or has one output. With any other loss,
// metrics are computed from sums that the framework makes.
struct LossKind {
  std::string_view name;
  bool over_tokens = false;  // the loss is over positions of sequences; false: over samples
  // Each sample has one of a number of classes, and the outputs are scores of classes.
  bool classifies = false;
  bool one_output = false;  // it is computed from one output per sample
};

// The loss of that name. An unknown name gives a loss over samples that classifies nothing. Precondition: `name`
// outlives the result.
LossKind loss_kind(std::string_view name);

}  // namespace mlbench::spec
