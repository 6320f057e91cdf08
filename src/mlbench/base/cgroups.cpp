#include "mlbench/base/cgroups.h"

#include <algorithm>
#include <functional>
#include <sstream>
#include <string>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  try {
    return read_file(path);
  } catch (const IoError&) {
    return "";
  }
}

// The number after `key` at the start of a line; without a key, the file's first number.
std::optional<int64_t> number_in_file(const fs::path& path, const std::string& key = "") {
  std::istringstream lines(text_of(path));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t value = 0;
    if (!key.empty() && (!(words >> name) || name != key)) continue;
    if (words >> value) return value;
    if (key.empty()) break;
  }
  return std::nullopt;
}

// Visits the folders that control `controller` for the process's group and for the groups above it, from the group's
// own up to the mount point. In a container the group's path may be the host's and lead nowhere; the container's own
// group is then the mount point.
using Look = std::function<void(int version, const fs::path& folder)>;
void for_each_group(const fs::path& root, const std::string& controller, const Look& look) {
  const fs::path mount = root / "sys/fs/cgroup";
  const auto go_up = [&](int version, const fs::path& hierarchy, const std::string& group) {
    for (fs::path relative = fs::path(group).relative_path();; relative = relative.parent_path()) {
      look(version, hierarchy / relative);
      if (relative.empty()) return;
    }
  };
  std::istringstream lines(text_of(root / "proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {  // "0::/a/b" (version 2), "4:cpu,cpuacct:/a/b" (version 1)
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      go_up(2, mount, group);
      go_up(2, mount / "unified", group);  // beside version 1
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      go_up(1, mount / controller, group);
      if (controllers != controller) go_up(1, mount / controllers, group);
    }
  }
}

// The quota in a folder of version 2, where the file says "max 100000" or "200000 100000".
std::optional<double> quota_in_v2(const fs::path& folder) {
  std::istringstream in(text_of(folder / "cpu.max"));
  double quota = 0;
  double period = 0;
  if (in >> quota >> period && quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

std::optional<double> quota_in_v1(const fs::path& folder) {
  const auto quota = number_in_file(folder / "cpu.cfs_quota_us");  // -1: none
  const auto period = number_in_file(folder / "cpu.cfs_period_us");
  if (quota && period && *quota > 0 && *period > 0) return static_cast<double>(*quota) / static_cast<double>(*period);
  return std::nullopt;
}

struct MemoryFiles {
  const char* limit;  // version 2: "max" for none; version 1: a number larger than any machine's memory
  const char* used;
  const char* droppable;  // of memory.stat, within `used`
  const char* kills;
};
constexpr MemoryFiles kMemoryFiles[] = {
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "memory.oom_control"},
    {"memory.max", "memory.current", "inactive_file", "memory.events"}};
constexpr int64_t kNoLimit = int64_t{1} << 60;

const MemoryFiles& memory_files(int version) { return kMemoryFiles[version - 1]; }

}  // namespace

std::optional<double> cgroup_cpu_quota(const fs::path& root) {
  std::optional<double> smallest;
  for_each_group(root, "cpu", [&](int version, const fs::path& folder) {
    const auto quota = version == 2 ? quota_in_v2(folder) : quota_in_v1(folder);
    if (quota) smallest = std::min(smallest.value_or(*quota), *quota);
  });
  return smallest;
}

std::optional<CgroupMemory> cgroup_memory(const fs::path& root) {
  std::optional<CgroupMemory> smallest;
  for_each_group(root, "memory", [&](int version, const fs::path& folder) {
    const MemoryFiles& files = memory_files(version);
    const auto limit = number_in_file(folder / files.limit);
    if (!limit || *limit <= 0 || *limit >= kNoLimit || (smallest && smallest->limit_bytes <= *limit)) return;
    const int64_t used = number_in_file(folder / files.used).value_or(0);
    const int64_t droppable = number_in_file(folder / "memory.stat", files.droppable).value_or(0);
    smallest = {*limit, std::max<int64_t>(0, used - droppable)};
  });
  return smallest;
}

std::optional<int64_t> cgroup_out_of_memory_kills(const fs::path& root) {
  std::optional<int64_t> kills;
  for_each_group(root, "memory", [&](int version, const fs::path& folder) {
    if (!kills) kills = number_in_file(folder / memory_files(version).kills, "oom_kill");
  });
  return kills;
}

}  // namespace mlbench
