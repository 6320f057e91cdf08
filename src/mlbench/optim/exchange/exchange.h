#pragma once

// Communication patterns: who talks to whom, when; and their table.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/flat_layout.h"
#include "mlbench/base/json.h"
#include "mlbench/base/named_state.h"
#include "mlbench/base/options.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/compress/coder.h"
#include "mlbench/optim/exchange/communication_thread.h"
#include "mlbench/optim/flat_tensors.h"
#include "mlbench/optim/promise.h"

namespace mlbench::optim {

// Calls come from the thread of the train loop, in every step in this order: begin, ready as often as there is
// something to tell, finish, after_update. Between begin and finish the communicator is the exchange's alone.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual Promise promise() const = 0;

  // The gradient is about to be computed. `tensors` stay until finish().
  virtual void begin(int64_t step, FlatTensors& tensors) = 0;
  // Whether ready() is of use; where it is not, nobody need call it.
  virtual bool listens() const { return false; }
  // While the backward pass runs: elements [first, first + count) of the flat gradient are final. Each is told once at
  // most, the last layer's first. Padding need not be told.
  virtual void ready(int64_t /*first*/, int64_t /*count*/) {}
  // The whole gradient is final: this rank's share, weighted by n_i / N (samples of this rank over those of the step).
  // On return gradients hold what the rule consumes. Returns the bytes that this rank handed to the transport since
  // begin(). Throws what went wrong since then, too.
  virtual uint64_t finish() = 0;
  // The step under way, if there is one, will not be finished, as something has failed. On return no operation of it is
  // under way and none begins any more: the exchange is over.
  virtual void abandon() noexcept {}
  // The rule has updated the parameters. Returns as finish().
  virtual uint64_t after_update(FlatTensors& /*tensors*/) { return 0; }

  // This rank's own state. Keys "exchange/...".
  virtual void export_state(NamedState& /*state*/) const {}
  virtual void import_state(const NamedState& /*state*/) {}
  // {overlap: with the backward pass, buckets: of the gradient, by_layer} for the record; overlap_off: why overlap that
  // was asked for is not; with separate memory staged: gradients go by way of the host's.
  virtual Json effective() const = 0;
};

// What an exchange is made with. Communicator and coder outlive it; its rank is the communicator's.
struct ExchangeContext {
  comm::Communicator& comm;
  compress::GradientCoder& coder;
  const FlatLayout& layout;
  uint64_t seed = 42;                // of the run
  CommunicationPlace place = {};     // of a thread that communicates, if it has one
  SeparateMemory* memory = nullptr;  // where the tensors are; null: the host's
};

using MakeExchange = std::function<std::unique_ptr<Exchange>(const ExchangeContext&)>;

// Takes the options of the exchange of that name (defaults):
// - "centralized" (centralized.h): by_layer (false; true: one all-reduce per tensor), bucket_mb (0: one for all; else
//   buckets of this many MiB), overlap (false; true: with the backward pass).
MakeExchange read_exchange(const std::string& name, OptionReader& options);
std::vector<std::string> exchange_names();

}  // namespace mlbench::optim
