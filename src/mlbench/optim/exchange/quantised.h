#pragma once

// "quantised": an all-reduce in two steps, both of coded gradients (ZeRO++, Wang et al. 2023; torchft's
// allreduce_quantized; with ef_sign or one_bit the compressed all-reduce of 1-bit Adam, Tang et al. 2021). The flat
// gradient is cut into k parts of ceil(n / k) elements, and rank r adds up part r:
//
//   all-to-all   each rank codes its own gradient part by part: c(g_i, part r) goes from rank i to rank r
//   on rank r    s_r = the sum over i of what c(g_i, part r) stands for, in float32, in the order of ranks
//   all-gather   rank r codes s_r once more; all ranks decode what it stands for
//
// Each rank decodes the same bytes, so that all have the same gradient. A coder that gathers sends its payload to all
// k - 1 others, which grows with k; here each rank sends about twice its payload, whatever k is. Sums are coded, too:
// with B(x) the coder's bound for coding x, the error of an element is at most the sum over i of B(g_i), and B(s).
//
// With error feedback, each rank keeps what coding its own gradient left out, and what coding its sum left out.
//
// Bytes per rank and step: those of the coder for all k parts, and for this rank's part once more. A row that a part
// cuts counts as a row in both parts.

#include <memory>
#include <vector>

#include "mlbench/optim/exchange/exchange.h"
#include "mlbench/optim/exchange/staging.h"

namespace mlbench::optim {

class QuantisedExchange final : public Exchange {
 public:
  // Makes coders of the parts by context.make_coder. Throws UserError for a coder whose payloads one rank cannot add up
  // for all (GradientCoder::adds_payloads).
  explicit QuantisedExchange(const ExchangeContext& context);
  Promise promise() const override;
  void begin(const compress::StepContext& step, FlatTensors& tensors) override;
  uint64_t finish() override;
  // What the coder of part p keeps, as "exchange/part<p>/coder/...", and that of the sum, as "exchange/sum/coder/...".
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;
  Json effective() const override;

 private:
  struct Part {
    FlatPart part;
    FlatLayout layout;
    std::unique_ptr<compress::GradientCoder> coder;
    int64_t bytes() const { return static_cast<int64_t>(coder->bytes_per_step().value()); }
    at::Tensor of(const at::Tensor& flat) const { return flat.narrow(0, part.offset, part.count); }
  };

  bool alone() const { return comm_.size() == 1; }
  Part& own() { return parts_[static_cast<size_t>(comm_.rank())]; }
  const Part& own() const { return parts_[static_cast<size_t>(comm_.rank())]; }
  // What rank r made of its part, for each r.
  std::vector<at::Tensor> exchange_parts(const at::Tensor& gradients);
  std::vector<at::Tensor> gather_sums(const compress::Payload& sum);

  comm::Communicator& comm_;
  std::vector<Part> parts_;                             // of each rank
  std::unique_ptr<compress::GradientCoder> sum_coder_;  // of this rank's part
  std::unique_ptr<Staging> staging_;                    // null: gradients lie in the host's memory
  std::vector<int64_t> counts_;                         // bytes of each part's payload
  at::Tensor sum_;
  FlatTensors* tensors_ = nullptr;
};

}  // namespace mlbench::optim
