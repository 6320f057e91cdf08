#pragma once

#include <span>

namespace mlbench::framework {

// Binds cores.size() threads of the OpenMP pool that frameworks and LibTorch share to one of `cores` each, in order.
// The caller is the first of these threads. Threads that the caller starts later inherit its core, unless bind_thread
// (base/environment.h) gives them others. Returns false where `cores` is empty, where OpenMP gives fewer threads (then
// none is bound), and where the system refuses a core (then other threads may be bound).
bool bind_threads(std::span<const int> cores);

}  // namespace mlbench::framework
