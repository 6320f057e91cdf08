#pragma once

// The gradient of the whole step on every rank: the coder's payload is summed (or gathered) over all ranks. One
// collective per coder round, or one per bucket of the gradient (per tensor, or of a size; for a coder whose payload is
// the gradient), the last layer's first. With one rank nothing is sent.
//
// Collectives come one after the other when the backward pass is over; with overlap on a thread of their own while it
// runs, a bucket as soon as all of its gradient is final and those before it have gone. The sums are the same to the
// bit. All ranks need the same order of buckets: in the first step that of the layout, from then on the order in which
// rank 0's backward pass finished them in that step, which it tells the others (8 bytes per bucket, once, not counted).
//
// A gradient in separate memory goes from there where the back end takes it and the coder sends it as it is; else each
// bucket by way of the host's memory, on the thread that sends it.

#include <memory>
#include <string>
#include <vector>

#include "mlbench/optim/exchange/bucket_schedule.h"
#include "mlbench/optim/exchange/buckets.h"
#include "mlbench/optim/exchange/communication_thread.h"
#include "mlbench/optim/exchange/exchange.h"
#include "mlbench/optim/exchange/staging.h"

namespace mlbench::optim {

struct CentralizedOptions {
  bool by_layer = false;  // one collective per tensor
  // Above 0: buckets of this many MiB, the first of at most 1 MiB (PyTorch's rule). 0: one for all.
  double bucket_mb = 0;
  bool overlap = false;  // with the backward pass, unless its thread would be in the way (CommunicationPlace::crowded)
};

class CentralizedExchange final : public Exchange {
 public:
  // UserError: a negative size, buckets by layer, or buckets or overlap of a gradient that the coder compresses.
  CentralizedExchange(const ExchangeContext& context, const CentralizedOptions& options);
  Promise promise() const override;
  void begin(int64_t step, FlatTensors& tensors) override;
  bool listens() const override { return thread_ != nullptr; }
  void ready(int64_t first, int64_t count) override;
  uint64_t finish() override;
  void abandon() noexcept override;
  Json effective() const override;

 private:
  bool alone() const { return comm_.size() == 1; }
  // Where what is sent lies.
  at::Tensor& sent() { return staging_ ? staging_->host() : tensors_->gradients; }
  void reduce(size_t bucket);
  void send_ready();
  void finish_overlapped();
  uint64_t finish_by_coder();

  comm::Communicator& comm_;
  compress::GradientCoder& coder_;
  const bool by_layer_;
  bool overlap_;
  std::string overlap_off_;
  bool separate_memory_;
  std::vector<Bucket> buckets_;       // empty: the payload as it is
  std::unique_ptr<Staging> staging_;  // null: gradients go from where they are
  Stream stream_;                     // of what is sent
  FlatTensors* tensors_ = nullptr;
  BufferView gradients_;  // what is sent, for the buckets
  // With overlap and peers.
  std::unique_ptr<BucketSchedule> schedule_;
  bool order_agreed_ = false;
  std::unique_ptr<CommunicationThread> thread_;  // last: it uses the others
};

}  // namespace mlbench::optim
