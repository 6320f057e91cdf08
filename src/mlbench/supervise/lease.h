#pragma once

// RUN/lease says who owns a run. Its holder keeps an exclusive flock on it and refreshes the content. On the holder's
// host the kernel's lock is the truth; elsewhere (a shared folder) it is the counter: a run whose counter stands still
// for 60 s of the reader's clock is lost.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench::supervise {

inline constexpr std::chrono::seconds kLeaseStandstill{60};

// A process beyond doubt: pids are reused, the pair is not.
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
  std::vector<ProcessIdentity> ranks;  // on the holder's host; who takes over ends those that are left
};

// Of this host.
bool alive(const ProcessIdentity& process);

class Lease {
 public:
  // Empty when somebody else holds it. Waits a moment for readers that only try.
  static std::optional<Lease> take(const std::filesystem::path& run_dir);
  Lease(Lease&&) noexcept = default;
  Lease& operator=(Lease&&) noexcept = default;
  ~Lease();  // nobody's name stays behind: the holder in the content is then process 0
  // Writes the content with the next counter. IoError when the disk refuses (the lock is held all the same).
  void refresh(const std::vector<ProcessIdentity>& ranks);

 private:
  explicit Lease(FileLock lock) : lock_(std::move(lock)) {}
  bool write(const ProcessIdentity& holder, const std::vector<ProcessIdentity>& ranks);
  FileLock lock_;
  int64_t counter_ = 0;
};

// What the file says; empty when there is none or it holds nothing readable.
std::optional<LeaseContent> read_lease(const std::filesystem::path& run_dir);

// Whether somebody holds the lease. From another host it watches the counter, up to `standstill`.
bool lease_held(const std::filesystem::path& run_dir, std::chrono::milliseconds standstill);

}  // namespace mlbench::supervise
