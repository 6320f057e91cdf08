#include "mlbench/optim/exchange/choco.h"

#include <fmt/format.h>

#include "mlbench/base/errors.h"
#include "mlbench/optim/rules/flat_state.h"

namespace mlbench::optim {

namespace {

constexpr int kTag = 8;
const std::string kUpdates = "exchange/updates";
const std::string kCopy = "exchange/copy";
const std::string kCopies = "exchange/copies";

}  // namespace

ChocoExchange::ChocoExchange(const ExchangeContext& context, const ChocoOptions& options)
    : comm_(context.comm), coder_(context.coder), layout_(context.layout), options_(options) {
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
  if (context.memory != nullptr) {
    throw UserError("the pattern choco sends parameters from the host's memory; expected a framework on the CPU");
  }
  mixing_ = graph.mixing(0);
}

Promise ChocoExchange::promise() const {
  if (comm_.size() == 1) return {true, true, 0};
  Promise promise{false, false, std::nullopt};
  if (options_.every == 1) promise.bytes_per_step = coder_.bytes_per_step().value() * mixing_.to.size();
  return promise;
}

void ChocoExchange::begin(const compress::StepContext& step, FlatTensors& tensors) {
  step_ = step;
  tensors_ = &tensors;
  if (copy_.defined()) return;
  copy_ = tensors.parameters.clone();
  copies_ = tensors.parameters.clone();
}

uint64_t ChocoExchange::finish() {
  MLBENCH_CHECK(tensors_ != nullptr, "an exchange that has not begun");
  take_mean_of_own_samples(step_, *tensors_);
  tensors_ = nullptr;
  return 0;
}

void ChocoExchange::decode(const at::Tensor& payload) {
  if (!decoded_.defined()) decoded_ = at::zeros_like(copy_);
  coder_.absorb(0, std::span(&payload, 1), decoded_);
}

uint64_t ChocoExchange::after_update(FlatTensors& tensors) {
  if (comm_.size() == 1 || ++updates_ % options_.every != 0) return 0;
  const at::Tensor difference = at::sub(tensors.parameters, copy_);
  coder_.begin(step_);
  const compress::Payload payload = coder_.encode(0, difference);
  const std::vector<at::Tensor> received = exchange_with(comm_, mixing_.to, mixing_.from, payload.data, kTag);

  decode(payload.data);
  copy_.add_(decoded_);
  copies_.add_(decoded_, mixing_.own);
  for (size_t i = 0; i < received.size(); ++i) {
    decode(received[i]);
    copies_.add_(decoded_, mixing_.weights[i]);
  }
  tensors.parameters.add_(at::sub(copies_, copy_), options_.consensus_rate);
  return payload.bytes * mixing_.to.size();
}

void ChocoExchange::export_state(NamedState& state) const {
  state.scalars[kUpdates] = updates_;
  if (!copy_.defined()) return;
  export_flat(kCopy, layout_, copy_, nullptr, state);
  export_flat(kCopies, layout_, copies_, nullptr, state);
}

void ChocoExchange::import_state(const NamedState& state) {
  updates_ = state.integer(kUpdates);
  if (updates_ == 0) return;
  copy_ = at::zeros({layout_.parameter_elements});
  copies_ = at::zeros_like(copy_);
  import_flat(kCopy, layout_, state, nullptr, copy_);
  import_flat(kCopies, layout_, state, nullptr, copies_);
}

Json ChocoExchange::effective() const { return effective_as_a_whole(false); }

}  // namespace mlbench::optim
