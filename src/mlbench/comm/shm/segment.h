#pragma once

// Memory that processes of one host share: a POSIX shared-memory object, mapped.

#include <cstddef>
#include <optional>
#include <string>

#include "mlbench/base/files.h"
#include "mlbench/comm/shm/process_mark.h"

namespace mlbench::comm::shm_backend {

// A mapping, and the object's name as long as it has one. All failures are CommError.
class Segment {
 public:
  // A new object that this user alone can open. Nothing of it has memory yet: see reserve().
  static Segment create(const std::string& name, size_t bytes);
  // One that this user made.
  static Segment open(const std::string& name);
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  // Unmaps. Its maker removes the name, too, where that is still there.
  ~Segment();

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }

  // Gives [offset, offset + bytes) memory, zeroed: on the caller's NUMA node, and now, so that touching it later does
  // not end the process. CommError naming the size when /dev/shm is full.
  void reserve(size_t offset, size_t bytes);

  // Takes the name away; who has mapped the object keeps it. So nothing is left behind however the processes end.
  void unlink() noexcept;

 private:
  Segment(FileDescriptor fd, size_t bytes, const std::string& name);

  FileDescriptor fd_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  std::string name_;  // "": has none, or is not ours to remove
};

// One that no other has: "mlbench-shm.NAMESPACE.PID.START.RUN.RANDOM", of this process and of `run` (cut, and without
// characters that a file name cannot have).
std::string new_segment_name(const std::string& run);
// Empty for names that are not of that form.
std::optional<ProcessMark> maker_of(const std::string& name);

// Removes the objects of processes that ended before all ranks of their group had come.
void collect_dead_segments();

}  // namespace mlbench::comm::shm_backend
