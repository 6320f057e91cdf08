#pragma once

// Gradient coders, which work in rounds: encode(round) returns a payload and says how the ranks combine payloads;
// absorb(round, results) takes the combination. After the last round the flat gradient is the aggregated gradient, with
// the same bits on every rank. A coder knows nothing of transports.

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/flat_layout.h"
#include "mlbench/base/named_state.h"
#include "mlbench/base/options.h"
#include "mlbench/compress/step_context.h"

namespace mlbench::compress {

enum class PayloadKind { kSum, kGather };

struct Payload {
  PayloadKind kind = PayloadKind::kSum;
  // A contiguous tensor in the gradient's memory, of a type that base/buffer.h has. With kSum it has the same length on
  // every rank, and the transport writes the sum back in place.
  at::Tensor data;
  uint64_t bytes = 0;  // the bytes that count as sent: data without padding
  // With kGather: the lengths differ by rank, and are exchanged first in a small collective that counts no bytes.
  // `uneven` is the same on every rank.
  bool uneven = false;
};

class GradientCoder {
 public:
  virtual ~GradientCoder() = default;
  virtual std::string name() const = 0;
  virtual int rounds() const { return 1; }
  // Whether the payload is the gradient itself, which may then be divided (by layer, into buckets) and lie on a device.
  virtual bool sends_gradient() const { return false; }
  // Whether a step is one collective: one round, and no lengths that are exchanged before it (Payload::uneven).
  virtual bool one_collective() const { return rounds() == 1; }
  // Whether a step is one gathered payload of fixed length, and absorb() of one rank's payload gives what that rank
  // sent, with nothing left to send later: so that payloads may go to neighbours alone.
  virtual bool decodes_alone() const { return false; }
  // Whether a step is one gathered payload of bytes, of fixed length, and absorb() adds up what payloads stand for and
  // changes nothing else: so that one rank may add up a part of the gradient for all, and code the sum.
  virtual bool adds_payloads() const { return false; }
  // Whether the coder has a momentum of its own, so that the rule must have none.
  virtual bool has_momentum() const { return false; }
  // Whether the result is the sum of all ranks' gradients, except for the order of additions.
  virtual bool exact() const { return false; }
  // The bytes that this rank sends in all rounds of a step; empty: they depend on the gradient.
  virtual std::optional<uint64_t> bytes_per_step() const = 0;
  // A step begins. Called before its first round.
  virtual void begin(const StepContext& /*step*/) {}
  // `gradient` is this rank's flat share, weighted so that the sum over ranks is the wanted mean. The gradient lies on
  // the host, except for a coder that sends the gradient itself, from where it lies.
  virtual Payload encode(int round, const at::Tensor& gradient) = 0;
  // With kSum, `results` is one tensor, the sum, with the payload's shape; with kGather it has the payload of each
  // rank. The last round must leave the aggregated gradient in `gradient`, whose padding is zero and may stay as it is.
  virtual void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) = 0;
  // The state of this rank, such as what it has not sent yet; another rank's state differs. The keys are "coder/...".
  virtual void export_state(NamedState& /*state*/) const {}
  virtual void import_state(const NamedState& /*state*/) {}
};

// What a coder is made with.
struct CoderContext {
  const FlatLayout& layout;
  uint64_t seed = 42;  // the run's: ranks that must draw the same numbers use nothing else
  int rank = 0;
  int size = 1;  // number of ranks
};

using MakeCoder = std::function<std::unique_ptr<GradientCoder>(const CoderContext&)>;

// The coder called `name`, with its part of `options` ("none" has none). Throws UserError listing the valid names.
MakeCoder read_coder(const std::string& name, OptionReader& options);
// A row per coder, for lists: {name, sends, source, exact, options: [{name, default, expected}]}.
Json list_coders();

}  // namespace mlbench::compress
