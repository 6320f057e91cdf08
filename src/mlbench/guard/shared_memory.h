#pragma once

// What a rank that was killed leaves in /dev/shm: nobody else removes it before the host starts anew.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <set>

namespace mlbench::guard {

// Files of shared memory by their inodes: what was there before a rank began is not its own, whatever its time of
// change says, which is that of a clock that may be set.
std::set<ino_t> files_of_memory(const std::filesystem::path& folder = "/dev/shm");

struct MemoryOfRank {
  int rank = 0;
  pid_t pid = 0;           // that it had
  std::set<ino_t> before;  // files_of_memory() when it began
};

// Removes Open MPI's file of a rank of that number (vader_segment.HOST.UID.JOB.RANK) and the segments of the back end
// shm that its process made (comm/shm/segment.h), where they are this user's, were not there before the rank, and are
// mapped by no process that this one sees; waits up to `patience` for processes that map one to end. To be called once
// the rank has ended.
void remove_left_memory(const MemoryOfRank& of, std::chrono::milliseconds patience,
                        const std::filesystem::path& folder = "/dev/shm");

}  // namespace mlbench::guard
