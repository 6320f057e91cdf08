#pragma once

// Memory that processes of one host share: a POSIX shared-memory object, mapped.

#include <cstddef>
#include <optional>
#include <string>

#include "mlbench/base/files.h"
#include "mlbench/comm/shm/process_mark.h"

namespace mlbench::comm::shm_backend {

// A mapping, and the object's name as long as it has one. All failures throw CommError.
class Segment {
 public:
  // Makes a new object that only this user can open. The object has no memory yet: see reserve().
  static Segment create(const std::string& name, size_t bytes);
  // Opens an object that this user made.
  static Segment open(const std::string& name);
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  // Unmaps the object. Its maker also removes the name, where that still exists.
  ~Segment();

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }

  // Gives [offset, offset + bytes) memory, zeroed: on the caller's NUMA node, and at once, so that accessing it later
  // cannot end the process. Throws CommError naming the size when /dev/shm is full.
  void reserve(size_t offset, size_t bytes);

  // Removes the name. Whoever has mapped the object keeps it, so nothing is left behind however the processes end.
  void unlink() noexcept;

 private:
  Segment(FileDescriptor fd, size_t bytes, const std::string& name);

  FileDescriptor fd_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  std::string name_;  // "": there is none, or it is not ours to remove
};

// A name that no other object has: "mlbench-shm.NAMESPACE.PID.START.RUN.RANDOM", with this process's mark and `run`
// (cut, and without characters that a file name cannot have).
std::string new_segment_name(const std::string& run);
// The mark in such a name; empty for names of another form.
std::optional<ProcessMark> maker_of(const std::string& name);

// Removes the objects of processes that ended before all ranks of their group had come.
void collect_dead_segments();

}  // namespace mlbench::comm::shm_backend
