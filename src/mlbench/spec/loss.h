#pragma once

// The losses of tasks, by name. What they are computed from: models::LossSpec. A framework has them, or refuses them by
// name.

#include <string_view>

namespace mlbench::spec {

struct LossKind {
  std::string_view name;
  bool over_tokens = false;  // of each position of a sequence; else of each sample
  // Each sample has one of a number of classes, and the outputs are their scores: what metrics look at. Of any other
  // loss they see the sums that the framework makes.
  bool classifies = false;
};

// Of a name that is none of the table: a loss over samples that classifies nothing. `name` outlives the answer.
LossKind loss_kind(std::string_view name);

}  // namespace mlbench::spec
