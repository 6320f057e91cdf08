#include "mlbench/optim/exchange/choco.h"

#include <fmt/format.h>

#include "mlbench/base/errors.h"
#include "mlbench/optim/rules/flat_state.h"

namespace mlbench::optim {

namespace {

constexpr int kChocoTag = 8;
const std::string kCopy = "exchange/copy";
const std::string kCopies = "exchange/copies";

}  // namespace

ChocoExchange::ChocoExchange(const ExchangeContext& context, const ChocoOptions& options)
    : NeighbourExchange(context, options.every),
      coder_(context.coder),
      layout_(context.layout),
      consensus_rate_(options.consensus_rate) {
  if (!context.coder.decodes_alone()) {
    throw UserError(fmt::format(
        "compression '{}' with the pattern choco, which decodes the payload of each neighbour by "
        "itself; expected qsgd with coding=\"fixed\", natural, fp4, or top_k, int8 or fp8 with error_feedback=false",
        context.coder.name()));
  }
  const Graph graph(options.graph, MixingDemand::kSymmetric, comm_.rank(), comm_.size());
  if (graph.changes()) {
    throw UserError(
        "topology \"exponential\" with the pattern choco, whose neighbours are always the same; expected "
        "ring, torus, complete or custom");
  }
  require_host_memory(context, "choco");
  mixing_ = graph.mixing(0);
}

uint64_t ChocoExchange::bytes_per_mixing() const { return coder_.bytes_per_step().value() * mixing_.to.size(); }

void ChocoExchange::begin(const compress::StepContext& step, FlatTensors& tensors) {
  NeighbourExchange::begin(step, tensors);
  if (copy_.defined()) return;
  copy_ = tensors.parameters.clone();
  copies_ = tensors.parameters.clone();
}

void ChocoExchange::decode(const at::Tensor& payload) {
  if (!decoded_.defined()) decoded_ = at::zeros_like(copy_);
  coder_.absorb(0, std::span(&payload, 1), decoded_);
}

// One rank encodes, too, so that the time of its coder is in its step.
uint64_t ChocoExchange::after_update(FlatTensors& tensors) {
  if (!mixes_behind_this_update()) return 0;
  const at::Tensor difference = at::sub(tensors.parameters, copy_);
  coder_.begin(step_);
  const compress::Payload payload = coder_.encode(0, difference);
  const std::vector<at::Tensor> received = exchange_with(comm_, mixing_.to, mixing_.from, payload.data, kChocoTag);

  decode(payload.data);
  copy_.add_(decoded_);
  copies_.add_(decoded_, mixing_.own);
  for (size_t i = 0; i < received.size(); ++i) {
    decode(received[i]);
    copies_.add_(decoded_, mixing_.weights[i]);
  }
  tensors.parameters.add_(at::sub(copies_, copy_), consensus_rate_);
  return payload.bytes * mixing_.to.size();
}

void ChocoExchange::export_state(NamedState& state) const {
  NeighbourExchange::export_state(state);
  if (!copy_.defined()) return;
  export_flat(kCopy, layout_, copy_, nullptr, state);
  export_flat(kCopies, layout_, copies_, nullptr, state);
}

void ChocoExchange::import_state(const NamedState& state) {
  NeighbourExchange::import_state(state);
  if (updates_ == 0) return;
  copy_ = at::zeros({layout_.parameter_elements});
  copies_ = at::zeros_like(copy_);
  import_flat(kCopy, layout_, state, nullptr, copy_);
  import_flat(kCopies, layout_, state, nullptr, copies_);
}

}  // namespace mlbench::optim
