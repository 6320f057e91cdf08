#pragma once

#include <optional>

namespace mlbench::cli {

// Keeps this program running: forks a child, in which it returns empty at once. In the parent it returns when the child
// has exited, or when SIGINT or SIGTERM, which are handed on to the child, have ended it. The result is then the exit
// code, or 128 + the signal that ended the child. A child that a signal ended otherwise (a crash, kill -9, out of
// memory) is forked again after 1 s, or up to 30 s where that happens again and again; a diagnostic says so each time.
// When the parent is gone, the child gets SIGTERM. Precondition: no threads yet, and end_signals() blocked.
std::optional<int> keep_running();

}  // namespace mlbench::cli
