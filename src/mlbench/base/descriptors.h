#pragma once

// How many files and sockets this process may have open at once.

#include <cstddef>

namespace mlbench {

// Raises the soft limit (RLIMIT_NOFILE) to the hard one, up to `most`, and returns what it is then. Processes started
// later (process.h) get the limit back that this one began with: some programs close every descriptor that they may
// have, one by one.
size_t raise_descriptor_limit(size_t most = 65'536);

// Async-signal-safe: between fork and exec.
void restore_descriptor_limit();

}  // namespace mlbench
