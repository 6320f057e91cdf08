#pragma once

// The gradient of the whole step on every rank: the coder's payload is summed (or gathered) over all ranks. There is
// one collective per coder round or, for a coder whose payload is the gradient, one per bucket of the gradient (a
// tensor, or a size), the last layer's first. With one rank nothing is sent.
//
// Collectives come one after the other when the backward pass is over. With overlap they run on a thread of their own
// during the backward pass; a bucket is sent as soon as all of its gradient is final and the buckets before it have
// been sent. The sums are the same to the bit. All ranks need the same order of buckets. In the first step it is that
// of the layout; from then on it is the order in which rank 0's backward pass finished them in that step, which rank 0
// tells the others (8 bytes per bucket, once, not counted).
//
// A gradient in separate memory is sent from there where the back end takes it and the coder sends it as it is.
// Otherwise each bucket goes through the host's memory, on the thread that sends it.

#include <memory>
#include <string>
#include <vector>

#include "mlbench/optim/exchange/bucket_schedule.h"
#include "mlbench/optim/exchange/buckets.h"
#include "mlbench/optim/exchange/coded_sum.h"
#include "mlbench/optim/exchange/communication_thread.h"
#include "mlbench/optim/exchange/exchange.h"

namespace mlbench::optim {

struct CentralizedOptions {
  bool by_layer = false;  // one collective per tensor
  // Above 0: buckets of this many MiB, the first of at most 1 MiB (PyTorch's rule). 0: one collective for all.
  double bucket_mb = 0;
  // Whether to overlap with the backward pass, unless the thread would take time from computing
  // (CommunicationPlace::crowded).
  bool overlap = false;
};

class CentralizedExchange final : public Exchange {
 public:
  // Throws UserError for a negative size, for buckets together with by_layer, and for buckets or overlap of a gradient
  // that the coder compresses.
  CentralizedExchange(const ExchangeContext& context, const CentralizedOptions& options);
  Promise promise() const override;
  void begin(const compress::StepContext& step, FlatTensors& tensors) override;
  bool listens() const override { return thread_ != nullptr; }
  void ready(int64_t first, int64_t count) override;
  uint64_t finish() override;
  void abandon() noexcept override;
  Json effective() const override;

 private:
  bool alone() const { return comm_.size() == 1; }
  // Where what is sent in buckets lies.
  at::Tensor& sent() { return sum_.staging() != nullptr ? sum_.staging()->host() : tensors_->gradients; }
  void reduce(size_t bucket);
  void send_ready();
  void finish_overlapped();

  comm::Communicator& comm_;
  compress::GradientCoder& coder_;
  const bool by_layer_;
  bool overlap_;
  std::string overlap_off_;
  bool separate_memory_;
  std::vector<Bucket> buckets_;  // empty: the payload as it is
  CodedSum sum_;
  FlatTensors* tensors_ = nullptr;
  BufferView gradients_;  // what is sent, divided into buckets
  // These are set with overlap and peers.
  std::unique_ptr<BucketSchedule> schedule_;
  bool order_agreed_ = false;
  std::unique_ptr<CommunicationThread> thread_;  // last: it uses the others
};

}  // namespace mlbench::optim
