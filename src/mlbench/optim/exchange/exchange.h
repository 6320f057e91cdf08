#pragma once

// Communication patterns: who talks to whom, when.

#include <cstdint>

#include "mlbench/base/json.h"
#include "mlbench/optim/flat_tensors.h"

namespace mlbench::optim {

// Called where the train loop's `agg` step stands.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Gradients hold this rank's share, weighted by n_i / N (samples of this rank over those of the step); on return they
  // hold what the rule consumes. Returns the bytes this rank handed to the transport.
  virtual uint64_t aggregate(FlatTensors& tensors) = 0;
  // {overlap: with the backward pass, buckets: of the gradient, by_layer} for the record.
  virtual Json effective() const = 0;
};

}  // namespace mlbench::optim
