#pragma once

// What this process has read so far, as the kernel counts it in /proc/self/io (proc(5)).

#include <cstdint>
#include <optional>
#include <string>

namespace mlbench {

struct ReadBytes {
  // Fetched for this process from devices, or by a file system from another machine: what no memory of the host held.
  int64_t devices = 0;
  // Returned by read() and its like, from files wherever they were. Neither mapped memory nor recv() is in it.
  int64_t calls = 0;
};

// Empty where the kernel does not say.
std::optional<ReadBytes> read_bytes_so_far();

// From the text of /proc/PID/io; empty where a number is missing.
std::optional<ReadBytes> parse_read_bytes(const std::string& text);

}  // namespace mlbench
