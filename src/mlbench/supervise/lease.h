#pragma once

// RUN/lease says who owns a run. The holder keeps an exclusive flock on it and refreshes the content. On the holder's
// host the kernel's lock is decisive. On other hosts (of a shared folder) the counter is: a run whose counter stands
// still for 60 s of the reader's clock is lost.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench::supervise {

inline constexpr std::chrono::seconds kLeaseStandstill{60};

// Identifies a process for good: pids are reused, but the pair of pid and start time is not.
struct ProcessIdentity {
  pid_t pid = 0;
  uint64_t start_time = 0;
  bool operator==(const ProcessIdentity&) const = default;
};

struct LeaseContent {
  std::string host;
  std::string boot_id;
  ProcessIdentity holder;
  int64_t counter = 0;
  std::vector<ProcessIdentity> ranks;  // ranks on the holder's host; who takes over the lease ends those left
};

// Whether the process of this host is alive.
bool alive(const ProcessIdentity& process);

class Lease {
 public:
  // Takes the lease; empty where another process holds it. Waits up to 200 ms for readers that only test it.
  static std::optional<Lease> take(const std::filesystem::path& run_dir);
  Lease(Lease&&) noexcept = default;
  Lease& operator=(Lease&&) noexcept = default;
  ~Lease();  // writes process 0 as the holder
  // Writes this process, `ranks` and the next counter. Throws IoError where the disk refuses; the lock is held all the
  // same.
  void refresh(const std::vector<ProcessIdentity>& ranks);

 private:
  explicit Lease(FileLock lock) : lock_(std::move(lock)) {}
  bool write(const ProcessIdentity& holder, const std::vector<ProcessIdentity>& ranks);
  FileLock lock_;
  int64_t counter_ = 0;
};

// What the file says; empty where it does not exist or cannot be read.
std::optional<LeaseContent> read_lease(const std::filesystem::path& run_dir);

// Whether a process holds the lease. Where the holder's host is another one, watches the counter for up to
// `standstill`.
bool lease_held(const std::filesystem::path& run_dir, std::chrono::milliseconds standstill);

}  // namespace mlbench::supervise
