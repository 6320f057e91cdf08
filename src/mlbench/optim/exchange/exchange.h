#pragma once

// Exchange patterns (who talks to whom, and when), and their table.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/flat_layout.h"
#include "mlbench/base/json.h"
#include "mlbench/base/named_state.h"
#include "mlbench/base/options.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/compress/coder.h"
#include "mlbench/optim/exchange/communication_thread.h"
#include "mlbench/optim/flat_parts.h"
#include "mlbench/optim/flat_tensors.h"
#include "mlbench/optim/promise.h"

namespace mlbench::optim {

// The thread of the train loop makes all calls. Every step has this order: begin, ready as often as there is something
// to tell, finish, after_update. Between begin and finish only the exchange may use the communicator; between steps the
// others may, once they have called settle.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual Promise promise() const = 0;

  // The part whose gradient this rank has after finish(), and which its rule updates; empty: all of it. after_update()
  // then brings the other parts, as their ranks updated them.
  virtual std::optional<FlatPart> own_part() const { return std::nullopt; }

  // The gradient is about to be computed. `tensors` must stay until finish().
  virtual void begin(const compress::StepContext& step, FlatTensors& tensors) = 0;
  // Whether ready() has an effect. Where it has none, nobody need call it.
  virtual bool listens() const { return false; }
  // Called while the backward pass runs: the elements [first, first + count) of the flat gradient are final. Each
  // element may be reported once, the last layer's first. Padding need not be reported.
  virtual void ready(int64_t /*first*/, int64_t /*count*/) {}
  // The whole gradient is final: this rank's share, weighted as the context of the step says. On return, the gradients
  // are what the rule takes. Returns the bytes that this rank gave to the transport since begin(). Also throws what
  // went wrong since then.
  virtual uint64_t finish() = 0;
  // Something has failed, and a step that was begun will not be finished. On return, none of its operations is under
  // way and none will begin: the exchange must not be used any more.
  virtual void abandon() noexcept {}
  // The rule has updated the parameters. Returns bytes as finish() does.
  virtual uint64_t after_update(FlatTensors& /*tensors*/) { return 0; }
  // Ranks are about to do something else together: evaluate, write a checkpoint, end. All ranks call it behind the same
  // step. On return nothing of earlier steps is under way, and nobody waits for this rank. Returns bytes as finish()
  // does.
  virtual uint64_t settle(FlatTensors& /*tensors*/) { return 0; }

  // The numbers of this object's steps that began with parameters of staleness 0, 1, ...: of so many earlier steps they
  // may lack some rank's update. Empty where they never lack one.
  virtual std::vector<int64_t> staleness() const { return {}; }

  // This rank's own state, under keys "exchange/...". Nothing is under way when it is exported (settle).
  virtual void export_state(NamedState& /*state*/) const {}
  virtual void import_state(const NamedState& /*state*/) {}
  // For the record: {overlap: with the backward pass?, buckets: of the gradient, or fragments of the weights, by_layer,
  // one_collective: is a step's exchange at most one blocking collective of all ranks?}; overlap_off: why there is no
  // overlap though it was asked for; with separate memory staged: do gradients go through the host's memory?
  virtual Json effective() const = 0;
};

// What effective() says of a pattern that sends the whole gradient, or all weights, at once.
Json effective_as_a_whole(bool one_collective);

// For patterns whose ranks step by themselves: the gradient becomes the mean over this rank's own samples, whatever its
// share of the batch is. A rank that has none makes no step of its own.
void take_mean_of_own_samples(const compress::StepContext& step, FlatTensors& tensors);

// What an exchange is made with. Communicator and coder must outlive it; its rank is the communicator's.
struct ExchangeContext {
  comm::Communicator& comm;
  compress::GradientCoder& coder;
  const FlatLayout& layout;
  uint64_t seed = 42;                // the run's
  CommunicationPlace place = {};     // of the communication thread, if there is one
  SeparateMemory* memory = nullptr;  // where the tensors are; null: in the host's memory
  // Makes coders such as `coder` for parts of the layout, for the patterns that codes_parts() names.
  compress::MakeCoder make_coder = {};
};

using MakeExchange = std::function<std::unique_ptr<Exchange>(const ExchangeContext&)>;

// The exchange called `name`, whose options are taken from `options`: each pattern's header has them, and
// list_exchanges() their defaults. Throws UserError listing the valid names or options.
MakeExchange read_exchange(const std::string& name, OptionReader& options);
// Whether the pattern has coders of its own for parts of the parameters, and codes nothing with that of the whole.
bool codes_parts(const std::string& name);
// Whether all ranks hold the same parameters, as Promise says, whatever their number.
bool keeps_replicas(const std::string& name);
// A row per pattern, for lists: {name, sends, source, replicated, deterministic, options: [{name, default, expected}]}.
Json list_exchanges();

}  // namespace mlbench::optim
