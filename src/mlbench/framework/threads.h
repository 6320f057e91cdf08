#pragma once

#include <cstdint>
#include <span>

namespace mlbench::framework {

// Binds cores.size() threads of the OpenMP pool that frameworks and LibTorch share to one of `cores` each, in order.
// The caller is the first of these threads. Threads that the caller starts later inherit its core, unless bind_thread
// (base/environment.h) gives them others. Returns false where `cores` is empty, where OpenMP gives fewer threads (then
// none is bound), and where the system refuses a core (then other threads may be bound).
bool bind_threads(std::span<const int> cores);

// The share [begin, end) of one thread in some things; share_of() divides `count` things into `threads` shares, whose
// bounds are multiples of `grain`.
struct Share {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};
inline Share share_of(int64_t count, int thread, int threads, int64_t grain = 1) {
  const int64_t units = (count + grain - 1) / grain;
  const auto bound = [&](int64_t i) {
    const int64_t at = units * i / threads * grain;
    return at < count ? at : count;
  };
  return {bound(thread), bound(thread + 1)};
}

}  // namespace mlbench::framework
