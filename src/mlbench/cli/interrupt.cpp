#include "mlbench/cli/interrupt.h"

#include <signal.h>

#include <atomic>

namespace mlbench::cli {

namespace {
std::atomic<int> interrupts{0};
struct sigaction previous_int, previous_term;
extern "C" void count_interrupt(int) { interrupts.fetch_add(1, std::memory_order_relaxed); }
}  // namespace

InterruptGuard::InterruptGuard() {
  struct sigaction action {};
  action.sa_handler = count_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_int);
  sigaction(SIGTERM, &action, &previous_term);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_int, nullptr);
  sigaction(SIGTERM, &previous_term, nullptr);
}

int InterruptGuard::count() { return interrupts.load(std::memory_order_relaxed); }

}  // namespace mlbench::cli
