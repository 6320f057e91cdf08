#include "mlbench/comm/shm/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace mlbench::comm::shm_backend {

// The futex is not of the private kind: the sleeper may be in another process.
void sleep_at(Bell& bell, std::chrono::nanoseconds limit) noexcept {
  if (limit <= limit.zero()) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds.count());
  time.tv_nsec = static_cast<long>((limit - seconds).count());
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&bell), FUTEX_WAIT, 1, &time, nullptr, 0);
}

void wake_at(Bell& bell) noexcept {
  bell.store(0, std::memory_order_relaxed);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&bell), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace mlbench::comm::shm_backend
