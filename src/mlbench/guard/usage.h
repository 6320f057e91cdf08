#pragma once

// What a rank uses of its host: it and all that it started, as /proc says, which needs no right.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "mlbench/base/environment.h"

namespace mlbench::guard {

inline constexpr std::chrono::seconds kUsageInterval{2};

struct Usage {
  static constexpr std::string_view kWord = "usage";  // of a message
  std::chrono::microseconds processor{0};  // user and system time so far, also of what has ended and was waited for
  int64_t memory_bytes = 0;                // resident now: memory that several processes share counts in each
  // Of the pod, or the host, whose network this is: of all that use it. Empty where the kernel does not say.
  std::optional<NetworkBytes> network = {};
  std::string text() const;
  // What is none, or no amount that a rank can have used, is empty.
  static std::optional<Usage> parse(std::string_view text);
};

// Of all below the process `root`, a guard, but its children `left_out` and what is below these. Empty where that is
// not known. What starts or ends meanwhile may be missing until the next look. Some 20 us for a process, and 5 us for
// each of its threads.
std::optional<Usage> usage_below(pid_t root, std::span<const pid_t> left_out = {});

// Of the network namespace of this process.
std::optional<NetworkBytes> network_here();

}  // namespace mlbench::guard
