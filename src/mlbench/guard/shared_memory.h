#pragma once

// What a rank that was killed leaves in /dev/shm, from which nobody else removes it before the host starts again, and
// among temporary files.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <set>

namespace mlbench::guard {

// The files of shared memory, by their inodes. What was there before a rank began is not the rank's. A file's time of
// change does not tell that: clocks may be set.
std::set<ino_t> files_of_memory(const std::filesystem::path& folder = "/dev/shm");

struct MemoryOfRank {
  int rank = 0;
  pid_t pid = 0;           // the rank's
  std::set<ino_t> before;  // files_of_memory() when it began
};

// Removes what the rank left: its temporary folders; Open MPI's file (vader_segment.HOST.UID.JOB.RANK), and the
// segments that its process made for the back end shm (comm/shm/segment.h). A file is removed where it is this user's,
// was not there before the rank, and is mapped by no process that this one sees. Waits up to `patience` for processes
// that map a file to end. Precondition: the rank has ended.
void remove_left(const MemoryOfRank& of, std::chrono::milliseconds patience,
                 const std::filesystem::path& folder = "/dev/shm");

}  // namespace mlbench::guard
