#pragma once

#include <optional>

namespace mlbench::cli {

// Goes on as a child of this process: empty there, at once. Here it returns when the child has ended by itself, or
// because of SIGINT or SIGTERM, which it is handed: with its exit code, 128 + signal where one ended it. A child that a
// signal ended otherwise (a crash, kill -9, out of memory) is started again from here, after 1 s, and up to 30 s where
// that happens again and again; each is said. The child is asked to end (SIGTERM) when this process is gone. To be
// called before any thread, with end_signals() held.
std::optional<int> keep_running();

}  // namespace mlbench::cli
