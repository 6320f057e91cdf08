#pragma once

// SIGINT and SIGTERM wait from the first instruction of a program (program_start.h) until there is somebody who acts on
// them: one that comes in between is neither lost nor ends the program half way.

#include <signal.h>

namespace mlbench {

// The two.
sigset_t end_signals();

// For the calling thread: what came meanwhile arrives now, and finds the handlers that were set up, or the default.
void release_end_signals();

}  // namespace mlbench
