#pragma once

// The sum over all ranks of a flat tensor, by way of a coder: its rounds one after the other, each a collective.

#include <memory>

#include "mlbench/optim/exchange/exchange.h"
#include "mlbench/optim/exchange/staging.h"

namespace mlbench::optim {

class CodedSum {
 public:
  // A tensor in separate memory goes from there where the back end takes it and the coder sends it as it is; else by
  // way of the host's memory.
  explicit CodedSum(const ExchangeContext& context);

  // Where values go by way of the host's memory; else null.
  Staging* staging() const { return staging_.get(); }
  // The stream of values that the transport gets.
  const Stream& stream() const { return stream_; }

  // `values` become what the coder makes of those of all ranks: on every rank the same. Precondition: coder.begin() was
  // called for this sum. Returns the bytes that this rank handed to the transport: none with one rank.
  uint64_t sum(at::Tensor& values);

 private:
  comm::Communicator& comm_;
  compress::GradientCoder& coder_;
  std::unique_ptr<Staging> staging_;
  Stream stream_;
};

}  // namespace mlbench::optim
