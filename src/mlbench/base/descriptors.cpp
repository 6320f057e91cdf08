#include "mlbench/base/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "mlbench/base/system_error.h"

namespace mlbench {

namespace {

// The process's limit before it was raised. It is written before other threads exist.
rlimit before_raise{};
bool raised = false;

}  // namespace

size_t raise_descriptor_limit(size_t most) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) throw_system_error("cannot read the limit of open files", errno);
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, most);
  if (wanted > limit.rlim_cur) {
    const rlimit more{wanted, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &more) == 0) {
      if (!raised) before_raise = limit;
      raised = true;
      return static_cast<size_t>(wanted);
    }
  }
  return static_cast<size_t>(std::min<rlim_t>(limit.rlim_cur, most));
}

void restore_descriptor_limit() {
  if (raised) setrlimit(RLIMIT_NOFILE, &before_raise);
}

}  // namespace mlbench
