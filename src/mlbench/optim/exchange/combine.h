#pragma once

// Moves the payloads of coders.

#include <ATen/ATen.h>

#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/compress/coder.h"

namespace mlbench::optim {

// A view of a contiguous tensor's memory, which is accessed in the order of `stream`; the default is the host's memory.
BufferView view_of(const at::Tensor& tensor, const Stream& stream = {});

// Combines the payloads of all ranks, which lie in the memory of `stream`, into what the coder's absorb() takes.
// Collective; with one rank nothing is sent.
std::vector<at::Tensor> combine(comm::Communicator& comm, const compress::Payload& payload, const Stream& stream = {});

}  // namespace mlbench::optim
