#pragma once

// Everything below a process, also what changed its group or session or became a daemon. Such a process becomes the
// child of the nearest subreaper above it, and so stays below.

#include <sys/types.h>

#include <chrono>
#include <span>

namespace mlbench::guard {

// From now on, orphans below this process become its children.
void become_subreaper();

// Kills all that is below this process, except the children `kept` and what is below these, again and again until
// nothing is left. Reaps what became this process's child. Returns whether nothing is left within `patience`: what
// hangs in the kernel, or became another user's, stays.
bool end_descendants(std::span<const pid_t> kept, std::chrono::milliseconds patience);

// Waits up to `patience` until all that is below this process has ended by itself, and reaps what became its child.
// Returns whether all has ended.
bool wait_for_descendants(std::chrono::milliseconds patience);

// Waits up to `patience` until the process `pid`, of any parent and reaped or not, has ended, and so given its children
// away. Returns whether it has.
bool wait_for_end(pid_t pid, std::chrono::milliseconds patience);

}  // namespace mlbench::guard
