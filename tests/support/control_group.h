#pragma once

// A control group of a test's own, of cgroup version 1 or 2, with limits of processor and memory.

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace mlbench::test {

class ControlGroup {
 public:
  using Path = std::filesystem::path;

  // Null where this process may make none that takes both limits.
  static std::unique_ptr<ControlGroup> make(double cores, int64_t memory_bytes) {
    std::unique_ptr<ControlGroup> group(new ControlGroup);
    const std::string period = "100000", quota = std::to_string(static_cast<int64_t>(cores * 100000));
    const std::string memory = std::to_string(memory_bytes);
    const Path mount = "/sys/fs/cgroup";
    bool limited = false;
    if (std::filesystem::exists(mount / "cgroup.controllers")) {
      write(mount / "cgroup.subtree_control", "+cpu +memory");
      const Path own = group->add(mount, "");
      limited = write(own / "cpu.max", quota + " " + period) && write(own / "memory.max", memory);
      write(own / "memory.swap.max", "0");
    } else {
      const Path cpu = group->add(mount / "cpu", "cpu"), own = group->add(mount / "memory", "memory");
      limited = write(cpu / "cpu.cfs_period_us", period) && write(cpu / "cpu.cfs_quota_us", quota) &&
                write(own / "memory.limit_in_bytes", memory);
      write(own / "memory.memsw.limit_in_bytes", memory);
    }
    return limited ? std::move(group) : nullptr;
  }

  // Waits until all of its processes have ended.
  ~ControlGroup() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (const Place& place : places_) {
      while (rmdir(place.own.c_str()) != 0 && errno == EBUSY && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
  }
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;

  // What this process starts within `begin` is in the group, and so is all that starts in turn.
  template <typename Begin>
  auto with(Begin begin) const {
    const std::string self = std::to_string(getpid());
    for (const Place& place : places_) write(place.own / "cgroup.procs", self);
    auto begun = begin();
    for (const Place& place : places_) write(place.before / "cgroup.procs", self);
    return begun;
  }

 private:
  struct Place {
    Path own, before;  // the group's folder, and that of the group that this process is of
  };

  ControlGroup() = default;

  Path add(const Path& mount, const std::string& controller) {
    const Path own = mount / ("mlbench-test-" + std::to_string(getpid()));
    std::error_code error;
    std::filesystem::create_directory(own, error);
    std::ifstream lines("/proc/self/cgroup");
    std::string before;
    for (std::string line; std::getline(lines, line);) {
      const size_t first = line.find(':'), second = line.find(':', first + 1);
      const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
      if (controllers.find("," + controller + ",") != std::string::npos) before = line.substr(second + 1);
    }
    if (!error) places_.push_back({own, mount / Path(before).relative_path()});
    return own;
  }

  static bool write(const Path& file, const std::string& text) {
    std::ofstream out(file);
    out << text << std::flush;
    return out.good();
  }

  std::vector<Place> places_;
};

}  // namespace mlbench::test
