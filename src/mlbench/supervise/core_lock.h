#pragma once

// Local runs take turns on one machine: a flock on one file for all users, kept by the ranks, too (they inherit the
// descriptor), so that it ends with the last of them even when the supervisor is killed.

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "mlbench/base/files.h"

namespace mlbench::supervise {

// MLBENCH_CORE_LOCK, or mlbench-cores.lock in /run/lock where that can be written, else in /tmp.
std::filesystem::path default_core_lock();

// Empty when another run holds it for all of `timeout`. The file is never followed through a symbolic link, and never
// written. Call before other threads start files: creating it widens the umask for a moment.
std::optional<FileLock> take_core_lock(const std::filesystem::path& path, std::chrono::milliseconds timeout);

// "process 123 of user anna: mlbench supervise" or "": who took the lock, as the kernel says. It may have ended, and
// left the lock to its ranks.
std::string describe_holder(const std::filesystem::path& path);

// A run that starts beside the holder (--no-wait) shows it, so that the holder's record can say that the cores were
// shared, too. Shown until the descriptor is closed everywhere; ranks inherit it.
FileDescriptor show_beside(const std::filesystem::path& core_lock);
bool somebody_beside(const std::filesystem::path& core_lock);

}  // namespace mlbench::supervise
