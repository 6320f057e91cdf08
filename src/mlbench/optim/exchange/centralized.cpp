#include "mlbench/optim/exchange/centralized.h"

#include "mlbench/base/errors.h"

namespace mlbench::optim {

namespace {

BufferView view_of(const at::Tensor& tensor) {
  MLBENCH_CHECK(tensor.is_cpu() && tensor.is_contiguous() && tensor.scalar_type() == at::kFloat,
                "payloads of this exchange are contiguous float32 on the host");
  return {tensor.data_ptr<float>(), tensor.numel(), DType::kFloat32, {}};
}

}  // namespace

CentralizedExchange::CentralizedExchange(comm::Communicator& comm, compress::GradientCoder& coder,
                                         const FlatLayout& layout, bool by_layer)
    : comm_(comm), coder_(coder) {
  if (!by_layer) return;
  for (const FlatRange& range : layout.ranges) {
    if (range.trainable) pieces_.emplace_back(range.offset, range.count);
  }
}

at::Tensor CentralizedExchange::combine(const compress::Payload& payload) {
  const bool alone = comm_.size() == 1;
  switch (payload.kind) {
    case compress::PayloadKind::kSum:
      if (alone) return payload.data;
      if (pieces_.empty()) {
        comm_.all_reduce(view_of(payload.data), comm::ReduceOp::kSum);
      } else {
        const BufferView whole = view_of(payload.data);
        for (const auto& [offset, count] : pieces_) comm_.all_reduce(whole.slice(offset, count), comm::ReduceOp::kSum);
      }
      return payload.data;
    case compress::PayloadKind::kGather: {
      if (alone) return payload.data.unsqueeze(0);
      at::Tensor all = at::empty({comm_.size(), payload.data.numel()}, payload.data.options());
      comm_.all_gather(view_of(payload.data), view_of(all));
      return all;
    }
    case compress::PayloadKind::kVote:
      break;
  }
  throw UserError("compression '" + coder_.name() + "' votes, which the centralized exchange does not transport");
}

uint64_t CentralizedExchange::aggregate(FlatTensors& tensors) {
  uint64_t bytes = 0;
  for (int round = 0; round < coder_.rounds(); ++round) {
    const compress::Payload payload = coder_.encode(round, tensors.gradients);
    coder_.absorb(round, combine(payload), tensors.gradients);
    bytes += payload.bytes;
  }
  return comm_.size() == 1 ? 0 : bytes;
}

}  // namespace mlbench::optim
