#pragma once

// What a rank that was killed leaves in /dev/shm: nobody else removes it before the host starts anew.

#include <sys/types.h>

#include <chrono>
#include <filesystem>

namespace mlbench::guard {

struct MemoryOfRank {
  int rank = 0;
  pid_t pid = 0;                          // that it had
  std::filesystem::file_time_type since;  // it began then, or later
};

// As files that are written now have it: their clock goes by ticks, and would lie before a finer one's.
std::filesystem::file_time_type file_time_now();

// Removes Open MPI's file of a rank of that number (vader_segment.HOST.UID.JOB.RANK) and the segments of the back end
// shm that its process made (comm/shm/segment.h), where they are this user's, younger than the rank, and mapped by no
// process that this one sees; waits up to `patience` for processes that map one to end. To be called once it has ended.
void remove_left_memory(const MemoryOfRank& of, std::chrono::milliseconds patience,
                        const std::filesystem::path& folder = "/dev/shm");

}  // namespace mlbench::guard
