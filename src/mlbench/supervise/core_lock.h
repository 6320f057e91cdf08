#pragma once

// Local runs take turns on one machine: a flock on one file for all users, kept by the ranks, too (they inherit the
// descriptor), so that it ends with the last of them even when the supervisor is killed.
//
//   LOCK         held alone by a run that has the host to itself, together by those that share it (--share-host)
//   LOCK.each    a byte per core, by its number: locked by the run that has the core while it shares the host
//   LOCK.turn    held by the run that is the next to get what it needs, so that none that comes later gets it first
//   LOCK.beside  held by runs that did not wait (--no-wait)

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench::supervise {

// MLBENCH_CORE_LOCK, or mlbench-cores.lock in /run/lock where that can be written, else in /tmp.
std::filesystem::path default_core_lock();

// Empty when another run holds it for all of `timeout`. The file is never followed through a symbolic link, and never
// written. Call before other threads start files: creating it widens the umask for a moment.
std::optional<FileLock> take_core_lock(const std::filesystem::path& path, std::chrono::milliseconds timeout);

// What a run has of this host, until this and all copies of the descriptors are closed.
class HeldCores {
 public:
  // Of a run that shares the host, ascending. Empty: all of them, alone.
  const std::vector<int>& cores() const { return cores_; }
  std::vector<int> descriptors() const;  // at most two, for ranks to inherit

 private:
  friend class CoreQueue;
  std::vector<FileDescriptor> locks_;
  std::vector<int> cores_;
};

// A run that wants cores of this host. Once one is the next, it stays that until it has them: a run that wants the host
// alone is not overtaken for ever by small ones that share it. Those behind it have no order.
class CoreQueue {
 public:
  // `cores`: how many of those that the calling thread may run on, beside runs that share the host, too; 0: the host
  // alone. UserError for more than there are. Files as with take_core_lock().
  CoreQueue(std::filesystem::path core_lock, int64_t cores);
  // Empty when others hold what it needs for all of `timeout`.
  std::optional<HeldCores> take(std::chrono::milliseconds timeout);

 private:
  std::optional<HeldCores> try_alone() const;
  std::optional<HeldCores> try_shared() const;

  const std::filesystem::path core_lock_;
  const size_t wanted_;
  const std::vector<int> allowed_;
  FileDescriptor turn_;  // while it is the next
};

// "process 123 of user anna: mlbench supervise" or "": who took the lock, as the kernel says. It may have ended, and
// left the lock to its ranks.
std::string describe_holder(const std::filesystem::path& path);

// A run that starts beside the holder (--no-wait) shows it, so that the holder's record can say that the cores were
// shared, too. Shown until the descriptor is closed everywhere; ranks inherit it.
FileDescriptor show_beside(const std::filesystem::path& core_lock);
bool somebody_beside(const std::filesystem::path& core_lock);

}  // namespace mlbench::supervise
