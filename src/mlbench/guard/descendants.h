#pragma once

// Everything below a process, also what changed its group or session or became a daemon: such a process becomes the
// child of the nearest subreaper above it, and so stays below.

#include <sys/types.h>

#include <chrono>
#include <span>

namespace mlbench::guard {

// From now on orphans below this process become its children.
void become_subreaper();

// Kills all that is below this process but the children `kept` and what is below these, again and again until nothing
// is left, and reaps what became its child. Whether that was reached within the time: what hangs in the kernel, or
// became another user's, stays.
bool end_descendants(std::span<const pid_t> kept, std::chrono::milliseconds patience);

// Waits until all that is below this process has ended by itself, and reaps what became its child. Whether it has.
bool wait_for_descendants(std::chrono::milliseconds patience);

// Waits until a process of anybody's has ended, and so given its children away; reaped or not. Whether it has.
bool wait_for_end(pid_t pid, std::chrono::milliseconds patience);

}  // namespace mlbench::guard
