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

std::vector<at::Tensor> gather(comm::Communicator& comm, const compress::Payload& payload) {
  std::vector<int64_t> counts(static_cast<size_t>(comm.size()), payload.data.numel());
  if (payload.uneven) {
    const int64_t own = payload.data.numel();
    comm.all_gather(const_view_of(std::span(&own, 1)), mlbench::view_of(std::span(counts)));
  }
  const at::Tensor all = at::empty({std::reduce(counts.begin(), counts.end())}, payload.data.options());
  comm.all_gather_v(view_of(payload.data), view_of(all), counts);
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

BufferView view_of(const at::Tensor& tensor) {
  MLBENCH_CHECK(tensor.is_cpu() && tensor.is_contiguous(), "a payload is a contiguous tensor on the host");
  return {tensor.data_ptr(), tensor.numel(), dtype_of(tensor.scalar_type()), {}};
}

std::vector<at::Tensor> combine(comm::Communicator& comm, const compress::Payload& payload) {
  if (comm.size() == 1) return {payload.data};
  if (payload.kind == compress::PayloadKind::kGather) return gather(comm, payload);
  comm.all_reduce(view_of(payload.data), comm::ReduceOp::kSum);
  return {payload.data};
}

}  // namespace mlbench::optim
