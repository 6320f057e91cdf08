#include "mlbench/base/signals.h"

#include <pthread.h>

namespace mlbench {

sigset_t end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

void release_end_signals() {
  const sigset_t signals = end_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace mlbench
