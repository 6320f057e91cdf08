#include "mlbench/optim/exchange/combine.h"

#include <numeric>
#include <span>

#include "mlbench/base/errors.h"

namespace mlbench::optim {

namespace {

DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kByte:
      return DType::kUInt8;
    case at::kChar:
      return DType::kInt8;
    case at::kInt:
      return DType::kInt32;
    case at::kLong:
      return DType::kInt64;
    case at::kHalf:
      return DType::kFloat16;
    case at::kBFloat16:
      return DType::kBFloat16;
    case at::kFloat:
      return DType::kFloat32;
    case at::kDouble:
      return DType::kFloat64;
    default:
      MLBENCH_CHECK(false, std::string("a payload of ") + at::toString(type));
      return DType::kUInt8;
  }
}

std::vector<at::Tensor> gather(comm::Communicator& comm, const compress::Payload& payload, const Stream& stream) {
  std::vector<int64_t> counts(static_cast<size_t>(comm.size()), payload.data.numel());
  if (payload.uneven) {
    const int64_t own = payload.data.numel();
    comm.all_gather(const_view_of(std::span(&own, 1)), mlbench::view_of(std::span(counts)));
  }
  const at::Tensor all = at::empty({std::reduce(counts.begin(), counts.end())}, payload.data.options());
  comm.all_gather_v(view_of(payload.data, stream), view_of(all, stream), counts);
  std::vector<at::Tensor> results;
  int64_t first = 0;
  for (const int64_t count : counts) {
    const at::Tensor one = all.narrow(0, first, count);
    results.push_back(payload.uneven ? one : one.view(payload.data.sizes()));
    first += count;
  }
  return results;
}

}  // namespace

BufferView view_of(const at::Tensor& tensor, const Stream& stream) {
  MLBENCH_CHECK((tensor.is_cpu() || stream.device.kind != Device::Kind::kCpu) && tensor.is_contiguous(),
                "a payload is a contiguous tensor where its stream is");
  return {tensor.data_ptr(), tensor.numel(), dtype_of(tensor.scalar_type()), stream};
}

std::vector<at::Tensor> combine(comm::Communicator& comm, const compress::Payload& payload, const Stream& stream) {
  if (comm.size() == 1) return {payload.data};
  if (payload.kind == compress::PayloadKind::kGather) return gather(comm, payload, stream);
  comm.all_reduce(view_of(payload.data, stream), comm::ReduceOp::kSum);
  return {payload.data};
}

}  // namespace mlbench::optim
