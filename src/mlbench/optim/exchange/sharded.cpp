#include "mlbench/optim/exchange/sharded.h"

#include "mlbench/base/errors.h"
#include "mlbench/optim/exchange/combine.h"
#include "mlbench/optim/exchange/neighbour_exchange.h"

namespace mlbench::optim {

ShardedExchange::ShardedExchange(const ExchangeContext& context)
    : comm_(context.comm),
      elements_(context.layout.parameter_elements),
      part_elements_(part_of_rank(elements_, 0, context.comm.size()).count) {
  require_no_coder(context, "sharded");
  require_host_memory(context, "sharded");
  whole_ = at::zeros({part_elements_ * comm_.size()});
  part_ = at::zeros({part_elements_});
}

Promise ShardedExchange::promise() const {
  const auto bytes = static_cast<uint64_t>(whole_.numel() + part_.numel()) * sizeof(float);
  return {true, true, comm_.size() == 1 ? 0 : bytes};
}

std::optional<FlatPart> ShardedExchange::own_part() const {
  if (comm_.size() == 1) return std::nullopt;
  return part_of_rank(elements_, comm_.rank(), comm_.size());
}

void ShardedExchange::begin(const compress::StepContext& /*step*/, FlatTensors& tensors) { tensors_ = &tensors; }

uint64_t ShardedExchange::finish() {
  MLBENCH_CHECK(tensors_ != nullptr, "an exchange that has not begun");
  at::Tensor& gradients = tensors_->gradients;
  tensors_ = nullptr;
  if (comm_.size() == 1) return 0;
  whole_.narrow(0, 0, elements_).copy_(gradients);
  comm_.reduce_scatter(view_of(whole_), view_of(part_), comm::ReduceOp::kSum);
  const FlatPart own = *own_part();
  gradients.narrow(0, own.offset, own.count).copy_(part_.narrow(0, 0, own.count));
  return static_cast<uint64_t>(whole_.numel()) * sizeof(float);
}

uint64_t ShardedExchange::after_update(FlatTensors& tensors) {
  if (comm_.size() == 1) return 0;
  const FlatPart own = *own_part();
  part_.narrow(0, 0, own.count).copy_(tensors.parameters.narrow(0, own.offset, own.count));
  part_.narrow(0, own.count, part_elements_ - own.count).zero_();
  comm_.all_gather(view_of(part_), view_of(whole_));
  tensors.parameters.copy_(whole_.narrow(0, 0, elements_));
  return static_cast<uint64_t>(part_.numel()) * sizeof(float);
}

Json ShardedExchange::effective() const { return effective_as_a_whole(comm_.size() == 1); }

}  // namespace mlbench::optim
