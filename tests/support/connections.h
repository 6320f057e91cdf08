#pragma once

// Cuts the TCP connections between two processes, as a network that fails would: both live on and find them closed.

#include <sys/types.h>

namespace mlbench::test {

// Between two processes of this host that the caller may trace (its own children, or all for root); the number of
// connections cut. -1: the kernel does not let this process reach into theirs.
int cut_connections(pid_t one, pid_t other);

}  // namespace mlbench::test
