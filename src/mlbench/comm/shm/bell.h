#pragma once

// Where a rank sleeps while it waits, and how peers wake it. A bell is a word in shared memory that is 1 while its rank
// sleeps. A peer that changed something for which the rank may wait looks at the bell, which costs nothing while nobody
// sleeps.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace mlbench::comm::shm_backend {

using Bell = std::atomic<uint32_t>;
static_assert(sizeof(Bell) == sizeof(uint32_t) && Bell::is_always_lock_free);

// Called between two looks at memory that another core is about to change.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Sleeps while the bell is 1, for at most `limit`; may return early.
void sleep_at(Bell& bell, std::chrono::nanoseconds limit) noexcept;

// Sets the bell to 0 and wakes the rank that sleeps at it.
void wake_at(Bell& bell) noexcept;

}  // namespace mlbench::comm::shm_backend
