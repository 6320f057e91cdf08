#include "mlbench/cli/terminal/interrupt.h"

#include <time.h>

#include <atomic>

#include "mlbench/base/signals.h"

namespace mlbench::cli {

namespace {
std::atomic<int> interrupts{0};
std::atomic<int64_t> last_counted_ns{INT64_MIN};  // of the monotonic clock
constexpr int64_t kSameRequestNs = 500'000'000;

extern "C" void count_interrupt(int) {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t now = time.tv_sec * 1'000'000'000 + time.tv_nsec;
  int64_t before = last_counted_ns.load(std::memory_order_relaxed);
  if (before != INT64_MIN && now - before < kSameRequestNs) return;
  if (last_counted_ns.compare_exchange_strong(before, now, std::memory_order_relaxed)) interrupts.fetch_add(1);
}
}  // namespace

InterruptGuard::InterruptGuard() {
  struct sigaction action {};
  action.sa_handler = count_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_int_);
  sigaction(SIGTERM, &action, &previous_term_);
  release_end_signals();
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_int_, nullptr);
  sigaction(SIGTERM, &previous_term_, nullptr);
}

int InterruptGuard::count() { return interrupts.load(std::memory_order_relaxed); }

}  // namespace mlbench::cli
