#pragma once

// Payloads of coders, moved.

#include <ATen/ATen.h>

#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/compress/coder.h"

namespace mlbench::optim {

// The memory of a contiguous tensor, which is touched in the order of `stream`; by default one on the host.
BufferView view_of(const at::Tensor& tensor, const Stream& stream = {});

// What the coder's absorb() is to get of all ranks' payloads, which lie where `stream` is. Collective; with one rank
// nothing is sent.
std::vector<at::Tensor> combine(comm::Communicator& comm, const compress::Payload& payload, const Stream& stream = {});

}  // namespace mlbench::optim
