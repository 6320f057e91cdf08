#include "mlbench/guard/shared_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/process_status.h"
#include "mlbench/base/temporary_folders.h"

namespace mlbench::guard {
namespace {

namespace fs = std::filesystem;

bool is_of(const std::string& name, const MemoryOfRank& of, uint64_t pid_namespace) {
  const std::string user = "." + std::to_string(geteuid()) + ".", rank = "." + std::to_string(of.rank);
  if (name.starts_with("vader_segment.")) return name.find(user) != std::string::npos && name.ends_with(rank);
  return name.starts_with("mlbench-shm." + std::to_string(pid_namespace) + "." + std::to_string(of.pid) + ".");
}

// The inode of a plain file of this user's; empty for anything else.
std::optional<ino_t> own_file(const fs::path& file) {
  struct stat info {};
  const bool own = lstat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid();
  return own ? std::optional(info.st_ino) : std::nullopt;
}

// Whether some process maps the file, among the processes whose maps may be read: this user's.
bool is_mapped(const fs::path& file) {
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const std::string pid = entry->path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    try {
      if (read_file(entry->path() / "maps").find(" " + file.string() + "\n") != std::string::npos) return true;
    } catch (const std::exception&) {
      // The process has ended, or is another user's.
    }
  }
  return false;
}

}  // namespace

std::set<ino_t> files_of_memory(const fs::path& folder) {
  std::set<ino_t> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (const auto file = own_file(entry->path())) files.insert(*file);
  }
  return files;
}

void remove_left(const MemoryOfRank& of, std::chrono::milliseconds patience, const fs::path& folder) {
  remove_temporary_folders_of(of.pid);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const uint64_t pid_namespace = own_pid_namespace();
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const auto file = own_file(entry->path());
    if (file && !of.before.contains(*file) && is_of(entry->path().filename(), of, pid_namespace)) {
      files.push_back(entry->path());
    }
  }
  for (const fs::path& file : files) {
    bool mapped = is_mapped(file);
    for (; mapped && std::chrono::steady_clock::now() < deadline; mapped = is_mapped(file)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (!mapped) fs::remove(file, error);
  }
}

}  // namespace mlbench::guard
