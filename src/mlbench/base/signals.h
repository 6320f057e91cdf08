#pragma once

// SIGINT and SIGTERM wait from the first instruction of a program (program_start.h) until there is somebody who acts on
// them. A signal that comes in between is neither lost nor ends the program half way.

#include <signal.h>

namespace mlbench {

// The set of these two signals.
sigset_t end_signals();

// Lets them arrive at the calling thread. A signal that came meanwhile arrives now, with its handler or default.
void release_end_signals();

}  // namespace mlbench
