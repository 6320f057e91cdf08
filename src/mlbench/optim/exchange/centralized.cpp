#include "mlbench/optim/exchange/centralized.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "mlbench/base/errors.h"
#include "mlbench/optim/exchange/combine.h"

namespace mlbench::optim {

namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr double kLargestBucketMb = 1 << 20;

void check_options(const CentralizedOptions& options, const std::string& compression) {
  const bool buckets = options.bucket_mb > 0;
  if (!(options.bucket_mb >= 0 && options.bucket_mb <= kLargestBucketMb)) {
    throw UserError(
        fmt::format("bucket_mb is {}; expected 0 (one all-reduce for all) to {}", options.bucket_mb, kLargestBucketMb));
  }
  if (options.by_layer && buckets) {
    throw UserError(
        fmt::format("by_layer is true with bucket_mb {}: the gradient goes by layer or in buckets", options.bucket_mb));
  }
  if ((options.by_layer || buckets) && compression != "none") {
    throw UserError(fmt::format("{} with compression '{}'; expected compression \"none\", or {}",
                                buckets ? fmt::format("bucket_mb is {}", options.bucket_mb) : "by_layer is true",
                                compression, buckets ? "bucket_mb 0" : "by_layer false"));
  }
}

}  // namespace

CentralizedExchange::CentralizedExchange(const ExchangeContext& context, const CentralizedOptions& options)
    : comm_(context.comm), coder_(context.coder), options_(options) {
  check_options(options, coder_.name());
  if (options.by_layer) buckets_ = tensor_buckets(context.layout);
  if (options.bucket_mb > 0) {
    const auto bytes = std::max<int64_t>(1, std::llround(options.bucket_mb * kMiB));
    buckets_ = sized_buckets(context.layout, std::min<int64_t>(bytes, kMiB), bytes);
  }
}

Promise CentralizedExchange::promise() const {
  return {coder_.exact(), true, comm_.size() == 1 ? std::optional<uint64_t>(0) : coder_.bytes_per_step()};
}

std::vector<at::Tensor> CentralizedExchange::combine_payload(const compress::Payload& payload) {
  if (buckets_.empty() || comm_.size() == 1) return combine(comm_, payload);
  const BufferView whole = view_of(payload.data);
  for (const Bucket& bucket : buckets_)
    comm_.all_reduce(whole.slice(bucket.offset, bucket.count), comm::ReduceOp::kSum);
  return {payload.data};
}

void CentralizedExchange::begin(int64_t /*step*/, FlatTensors& tensors) { tensors_ = &tensors; }

uint64_t CentralizedExchange::finish() {
  MLBENCH_CHECK(tensors_ != nullptr, "an exchange that has not begun");
  at::Tensor& gradients = tensors_->gradients;
  uint64_t bytes = 0;
  for (int round = 0; round < coder_.rounds(); ++round) {
    const compress::Payload payload = coder_.encode(round, gradients);
    coder_.absorb(round, combine_payload(payload), gradients);
    bytes += payload.bytes;
  }
  tensors_ = nullptr;
  return comm_.size() == 1 ? 0 : bytes;
}

Json CentralizedExchange::effective() const {
  return {{"overlap", false},
          {"buckets", buckets_.empty() ? 1 : static_cast<int64_t>(buckets_.size())},
          {"by_layer", options_.by_layer}};
}

}  // namespace mlbench::optim
