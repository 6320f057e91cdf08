#include "mlbench/optim/exchange/centralized.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "mlbench/base/errors.h"
#include "mlbench/optim/exchange/combine.h"

namespace mlbench::optim {

namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr double kLargestBucketMb = 1 << 20;

void check_options(const CentralizedOptions& options, const compress::GradientCoder& coder) {
  const bool buckets = options.bucket_mb > 0;
  if (!(options.bucket_mb >= 0 && options.bucket_mb <= kLargestBucketMb)) {
    throw UserError(
        fmt::format("bucket_mb is {}; expected 0 (one all-reduce for all) to {}", options.bucket_mb, kLargestBucketMb));
  }
  if (options.by_layer && buckets) {
    throw UserError(
        fmt::format("by_layer is true with bucket_mb {}: the gradient goes by layer or in buckets", options.bucket_mb));
  }
  if (coder.sends_gradient()) return;
  const auto refuse = [&](const std::string& given, const char* otherwise) {
    throw UserError(
        fmt::format("{} with compression '{}'; expected compression \"none\", or {}", given, coder.name(), otherwise));
  };
  if (buckets) refuse(fmt::format("bucket_mb is {}", options.bucket_mb), "bucket_mb 0");
  if (options.by_layer) refuse("by_layer is true", "by_layer false");
  if (options.overlap) refuse("overlap is true", "overlap false");
}

// The buckets; empty: one collective for all.
std::vector<Bucket> divide(const FlatLayout& layout, const CentralizedOptions& options) {
  if (options.by_layer) return tensor_buckets(layout);
  if (options.bucket_mb <= 0) return {};
  const auto bytes = std::max<int64_t>(1, std::llround(options.bucket_mb * kMiB));
  return sized_buckets(layout, std::min<int64_t>(bytes, kMiB), bytes);
}

}  // namespace

CentralizedExchange::CentralizedExchange(const ExchangeContext& context, const CentralizedOptions& options)
    : comm_(context.comm),
      coder_(context.coder),
      by_layer_(options.by_layer),
      overlap_(options.overlap && context.place.crowded.empty()),
      overlap_off_(options.overlap ? context.place.crowded : ""),
      separate_memory_(context.memory != nullptr),
      sum_(context) {
  check_options(options, coder_);
  buckets_ = divide(context.layout, options);
  if (!overlap_ || alone()) return;
  if (buckets_.empty()) buckets_.push_back({0, context.layout.parameter_elements});
  schedule_ = std::make_unique<BucketSchedule>(context.layout, buckets_);
  thread_ = std::make_unique<CommunicationThread>(context.place.cores);
}

Promise CentralizedExchange::promise() const {
  return {coder_.exact(), true, alone() ? std::optional<uint64_t>(0) : coder_.bytes_per_step()};
}

void CentralizedExchange::begin(const compress::StepContext& step, FlatTensors& tensors) {
  tensors_ = &tensors;
  coder_.begin(step);
  if (!buckets_.empty()) gradients_ = view_of(sent(), sum_.stream());
  if (schedule_) schedule_->begin();
}

void CentralizedExchange::ready(int64_t first, int64_t count) {
  if (!schedule_) return;
  schedule_->ready(first, count);
  send_ready();
}

void CentralizedExchange::send_ready() {
  while (const auto bucket = schedule_->next()) {
    thread_->submit([this, bucket = *bucket] { reduce(bucket); });
  }
}

void CentralizedExchange::reduce(size_t bucket) {
  const auto [offset, count] = buckets_[bucket];
  Staging* staging = sum_.staging();
  if (staging != nullptr) staging->fetch(tensors_->gradients, offset, count);
  comm_.all_reduce(gradients_.slice(offset, count), comm::ReduceOp::kSum);
  if (staging != nullptr) staging->put_back(tensors_->gradients, offset, count);
}

uint64_t CentralizedExchange::finish() {
  MLBENCH_CHECK(tensors_ != nullptr, "an exchange that has not begun");
  uint64_t bytes = 0;
  if (alone() || buckets_.empty()) {
    bytes = sum_.sum(tensors_->gradients);
  } else {
    // The payload of a coder that sends the gradient as it is is the gradient's memory.
    bytes = coder_.bytes_per_step().value();
    if (thread_) {
      finish_overlapped();
    } else {
      for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) reduce(bucket);
    }
  }
  tensors_ = nullptr;
  return bytes;
}

void CentralizedExchange::finish_overlapped() {
  schedule_->ready_all();
  send_ready();
  thread_->finish();
  if (order_agreed_ || buckets_.size() == 1) return;
  const std::span<const int64_t> found = schedule_->found_order();
  std::vector<int64_t> order(found.begin(), found.end());
  comm_.broadcast(mlbench::view_of(std::span(order)), 0);
  schedule_->set_order(order);
  order_agreed_ = true;
}

void CentralizedExchange::abandon() noexcept {
  if (thread_ && tensors_ != nullptr) thread_->abandon();
}

Json CentralizedExchange::effective() const {
  const size_t buckets = std::max<size_t>(1, buckets_.size());
  Json effective = {{"overlap", overlap_},
                    {"buckets", buckets},
                    {"by_layer", by_layer_},
                    {"one_collective", !overlap_ && buckets == 1 && coder_.one_collective()}};
  if (!overlap_off_.empty()) effective["overlap_off"] = overlap_off_;
  if (separate_memory_) effective["staged"] = sum_.staging() != nullptr;
  return effective;
}

}  // namespace mlbench::optim
