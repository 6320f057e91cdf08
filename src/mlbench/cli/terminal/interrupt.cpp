#include "mlbench/cli/terminal/interrupt.h"

#include <atomic>

#include "mlbench/base/signals.h"

namespace mlbench::cli {

namespace {
std::atomic<int> interrupts{0};
extern "C" void count_interrupt(int) { interrupts.fetch_add(1, std::memory_order_relaxed); }
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
