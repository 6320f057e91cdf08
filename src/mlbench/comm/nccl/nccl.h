#pragma once

// NCCL: one rank per GPU. Compiled against NVIDIA's headers (cmake/FindNccl.cmake). State: the contract passed with 1,
// 2 and 3 ranks on one H200 (2026-11-27, docs/gpu.md); several GPUs were never tried.
//
// - NCCL uses buffers on the rank's GPU directly. Buffers on the host travel over a copy on the GPU, both ways, which
//   costs more than the collective.
// - A blocking operation is enqueued and waited for, with the timeout of the options: a peer that is lost or late
//   aborts the communicator on this rank. NCCL does not say which peer it was.
// - NCCL knows no tags: messages between two ranks match in the order in which they are begun, whatever their tags.
//   Messages begun since the last wait go together, so that two ranks may send to each other first.
// - Sums are NCCL's, in its order: the same bits on every rank, and again on the same machine.
// - Averages of buffers on the GPU are ncclAvg: floating-point values are multiplied by 1 / size() before they are
//   added, which is exact where size() is a power of two.
// - Two ranks on one GPU are refused before NCCL hears of them.

#include <memory>

#include "mlbench/base/availability.h"
#include "mlbench/comm/communicator.h"

namespace mlbench::comm::nccl_backend {

// Available where there are an NVIDIA GPU and its driver; otherwise the reason says what is missing.
Availability available();
// Makes a group's transport. Collective. Throws UserError where ranks share a GPU or there is none, and CommError where
// a rank does not come within the timeout of `options`.
std::unique_ptr<Transport> make(const CommOptions& options);

}  // namespace mlbench::comm::nccl_backend
