#pragma once

// Gradient coders, in rounds: encode(round) gives a payload and how the ranks combine it, absorb(round, results) takes
// the combination. After the last round the flat gradient is the aggregated one, with the same bits on every rank.
// Coders know nothing of transports.

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

namespace mlbench::compress {

enum class PayloadKind { kSum, kGather };

struct Payload {
  PayloadKind kind = PayloadKind::kSum;
  // Contiguous, where the gradient is, of a type that base/buffer.h has. kSum: as long on every rank, and the sum is
  // written back in place by the transport.
  at::Tensor data;
  uint64_t bytes = 0;  // what counts as sent: data without padding
  // kGather: the ranks' lengths differ. They are exchanged first, in a small collective that counts no bytes. The same
  // on every rank.
  bool uneven = false;
};

class GradientCoder {
 public:
  virtual ~GradientCoder() = default;
  virtual std::string name() const = 0;
  virtual int rounds() const = 0;
  // Whether what comes out is the sum of all ranks' gradients, but for the order of additions.
  virtual bool exact() const = 0;
  // What this rank sends in all rounds of a step; empty: it depends on the gradient.
  virtual std::optional<uint64_t> bytes_per_step() const = 0;
  // `gradient`: flat, this rank's share (already weighted so that the sum over ranks is the wanted mean); on the host,
  // but for "none", which sends it from where it lies.
  virtual Payload encode(int round, const at::Tensor& gradient) = 0;
  // `results`: kSum: one, the sum, of the payload's shape; kGather: the payload of each rank.
  // The last round leaves the aggregated gradient in `gradient`.
  virtual void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) = 0;
  // This rank's own, such as what it has not sent yet: another rank's is another one. Keys "coder/...".
  virtual void export_state(NamedState& state) const = 0;
  virtual void import_state(const NamedState& state) = 0;
};

// Whose gradients a coder gets.
struct CoderContext {
  const FlatLayout& layout;
  uint64_t seed = 42;  // of the run: ranks that are to draw the same numbers take it alone
  int rank = 0;
};

using MakeCoder = std::function<std::unique_ptr<GradientCoder>(const CoderContext&)>;

// Takes the options of the coder of that name ("none" has none). UserError listing the valid names.
MakeCoder read_coder(const std::string& name, OptionReader& options);
std::vector<std::string> coder_names();

}  // namespace mlbench::compress
