#pragma once

// How many files and sockets this process may have open at once.

#include <cstddef>

namespace mlbench {

// Raises the soft limit (RLIMIT_NOFILE) to the hard one, but to no more than `most`, and returns the resulting limit.
// Processes started later (process.h) get the limit back that this process began with: some programs close every
// descriptor that they may have, one by one.
size_t raise_descriptor_limit(size_t most = 65'536);

// Sets that limit back, between fork and exec. Async-signal-safe.
void restore_descriptor_limit();

}  // namespace mlbench
