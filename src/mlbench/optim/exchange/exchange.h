#pragma once

// Communication patterns: who talks to whom, when; and their table.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/flat_layout.h"
#include "mlbench/base/json.h"
#include "mlbench/base/options.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/compress/coder.h"
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

// Communicator and coder outlive the exchange.
using MakeExchange =
    std::function<std::unique_ptr<Exchange>(comm::Communicator&, compress::GradientCoder&, const FlatLayout&)>;

// Takes the options of the exchange of that name (defaults):
// - "centralized" (centralized.h): by_layer (false; true: one all-reduce per tensor), bucket_mb (0: one for all; else
//   buckets of this many MiB).
MakeExchange read_exchange(const std::string& name, OptionReader& options);
std::vector<std::string> exchange_names();

}  // namespace mlbench::optim
