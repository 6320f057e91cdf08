#include "mlbench/optim/exchange/centralized.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "mlbench/base/errors.h"

namespace mlbench::optim {

namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr double kLargestBucketMb = 1 << 20;

BufferView view_of(const at::Tensor& tensor) {
  MLBENCH_CHECK(tensor.is_cpu() && tensor.is_contiguous() && tensor.scalar_type() == at::kFloat,
                "payloads of this exchange are contiguous float32 on the host");
  return {tensor.data_ptr<float>(), tensor.numel(), DType::kFloat32, {}};
}

}  // namespace

CentralizedExchange::CentralizedExchange(comm::Communicator& comm, compress::GradientCoder& coder,
                                         const FlatLayout& layout, const CentralizedOptions& options)
    : comm_(comm), coder_(coder), options_(options) {
  const bool buckets = options.bucket_mb > 0;
  if (!(options.bucket_mb >= 0 && options.bucket_mb <= kLargestBucketMb)) {
    throw UserError(
        fmt::format("bucket_mb is {}; expected 0 (one all-reduce for all) to {}", options.bucket_mb, kLargestBucketMb));
  }
  if (options.by_layer && buckets) {
    throw UserError(
        fmt::format("by_layer is true with bucket_mb {}: the gradient goes by layer or in buckets", options.bucket_mb));
  }
  if ((options.by_layer || buckets) && coder.name() != "none") {
    throw UserError(fmt::format("{} with compression '{}'; expected compression \"none\", or {}",
                                buckets ? fmt::format("bucket_mb is {}", options.bucket_mb) : "by_layer is true",
                                coder.name(), buckets ? "bucket_mb 0" : "by_layer false"));
  }
  if (options.by_layer) buckets_ = tensor_buckets(layout);
  if (buckets) {
    const auto bytes = std::max<int64_t>(1, std::llround(options.bucket_mb * kMiB));
    buckets_ = sized_buckets(layout, std::min<int64_t>(bytes, kMiB), bytes);
  }
}

at::Tensor CentralizedExchange::combine(const compress::Payload& payload) {
  const bool alone = comm_.size() == 1;
  if (payload.kind == compress::PayloadKind::kGather) {
    if (alone) return payload.data.unsqueeze(0);
    at::Tensor all = at::empty({comm_.size(), payload.data.numel()}, payload.data.options());
    comm_.all_gather(view_of(payload.data), view_of(all));
    return all;
  }
  if (alone) return payload.data;
  const BufferView whole = view_of(payload.data);
  if (buckets_.empty()) comm_.all_reduce(whole, comm::ReduceOp::kSum);
  for (const Bucket& bucket : buckets_)
    comm_.all_reduce(whole.slice(bucket.offset, bucket.count), comm::ReduceOp::kSum);
  return payload.data;
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

Json CentralizedExchange::effective() const {
  return {{"overlap", false},
          {"buckets", buckets_.empty() ? 1 : static_cast<int64_t>(buckets_.size())},
          {"by_layer", options_.by_layer}};
}

}  // namespace mlbench::optim
