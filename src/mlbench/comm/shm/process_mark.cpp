#include "mlbench/comm/shm/process_mark.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "mlbench/base/process_status.h"

namespace mlbench::comm::shm_backend {

ProcessMark own_mark() {
  const auto status = process_status(getpid());
  return {getpid(), status ? status->start_time : 0, own_pid_namespace()};
}

bool has_ended(const ProcessMark& mark) {
  if (mark.pid <= 0 || mark.start_time == 0 || mark.pid_namespace != own_pid_namespace()) return false;
  if (kill(static_cast<pid_t>(mark.pid), 0) != 0 && errno == ESRCH) return true;
  const auto status = process_status(static_cast<pid_t>(mark.pid));
  return status && (status->ended() || status->start_time != mark.start_time);
}

}  // namespace mlbench::comm::shm_backend
