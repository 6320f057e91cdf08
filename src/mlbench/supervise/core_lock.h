#pragma once

// Local runs take turns on one machine: they lock one file (flock) for all users. The ranks inherit its descriptor, so
// that the lock ends with the last of them, even when the supervisor is killed.
//
//   LOCK         held alone by a run that has the host to itself, together by those that share it (--share-host)
//   LOCK.each    a byte per core, by its number: locked by the run that has the core while it shares the host
//   LOCK.turn    held by the run that is next to get its cores, so that no later run gets them first
//   LOCK.beside  held by runs that did not wait (--no-wait)

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench::supervise {

// The path in MLBENCH_CORE_LOCK, else mlbench-cores.lock in /run/lock where that can be written, else in /tmp.
std::filesystem::path default_core_lock();

// Takes the lock LOCK; empty where another run holds it for all of `timeout`. The file is never opened through a
// symbolic link, and never written. Must be called before other threads create files: creating it widens the umask for
// a moment.
std::optional<FileLock> take_core_lock(const std::filesystem::path& path, std::chrono::milliseconds timeout);

// The cores of this host that a run holds, until this object and all copies of its descriptors are closed.
class HeldCores {
 public:
  // The cores of a run that shares the host, ascending. Empty: the run holds all cores alone.
  const std::vector<int>& cores() const { return cores_; }
  std::vector<int> descriptors() const;  // at most two, for ranks to inherit

 private:
  friend class CoreQueue;
  std::vector<FileDescriptor> locks_;
  std::vector<int> cores_;
};

// The place in the queue of a run that wants cores of this host. Once a run is the next, it stays the next until it has
// its cores. So small runs that share the host never keep back one that wants it alone. The runs behind the next have
// no order.
class CoreQueue {
 public:
  // `cores` is the number of cores to take of those that the calling thread may use, beside other runs that share the
  // host; 0: all, alone. Throws UserError where `cores` is more than there are. Files are created as by
  // take_core_lock().
  CoreQueue(std::filesystem::path core_lock, int64_t cores);
  // Takes the cores; empty where other runs hold them for all of `timeout`.
  std::optional<HeldCores> take(std::chrono::milliseconds timeout);

 private:
  std::optional<HeldCores> try_alone() const;
  std::optional<HeldCores> try_shared() const;

  const std::filesystem::path core_lock_;
  const size_t wanted_;
  const std::vector<int> allowed_;
  FileDescriptor turn_;  // held while this run is the next
};

// Who took the lock, as the kernel says: "process 123 of user anna: mlbench supervise", or "" where nobody did. The
// process may have ended and left the lock to its ranks.
std::string describe_holder(const std::filesystem::path& path);

// Shows that a run starts beside the lock's holder (--no-wait), so that the holder's record can say that cores were
// shared. Holds until the descriptor is closed everywhere; ranks inherit it.
FileDescriptor show_beside(const std::filesystem::path& core_lock);
bool somebody_beside(const std::filesystem::path& core_lock);

}  // namespace mlbench::supervise
