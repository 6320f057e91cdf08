#pragma once

#include <cstdint>
#include <optional>

namespace mlbench::optim {

// What an optimizer promises of every step; the contract tests hold it to that.
struct Promise {
  // k ranks compute what one rank computes with the whole batch, but for the order of additions.
  bool exact = true;
  // All ranks hold the same parameters and the same state of the rule. Where they do not, the average of the ranks'
  // parameters is what is evaluated, hashed and stored, and a checkpoint has each rank's own beside it.
  bool replicated = true;
  // What each rank hands to the transport; empty: it depends on the gradient or on the step.
  std::optional<uint64_t> bytes_per_step;
};

}  // namespace mlbench::optim
