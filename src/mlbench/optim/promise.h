#pragma once

#include <cstdint>
#include <optional>

namespace mlbench::optim {

// What an optimizer promises of every step; contract tests check it.
struct Promise {
  // k ranks compute what one rank computes with the whole batch, except for the order of additions.
  bool exact = true;
  // All ranks hold the same parameters, and the same state of the rule unless each has a part of it
  // (Exchange::own_part). Where they do not, the average of the ranks' parameters is evaluated, hashed and stored, and
  // a checkpoint also has each rank's own parameters.
  bool replicated = true;
  // The bytes that each rank gives to the transport; empty: they depend on the gradient or on the step.
  std::optional<uint64_t> bytes_per_step;
  // The same gradients give the same bits again. Where they do not, what comes out depends on when messages arrive.
  bool deterministic = true;
};

}  // namespace mlbench::optim
