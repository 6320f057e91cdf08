#pragma once

// What a rank and all that it started use of their host, as /proc says, for which no right is needed.

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
  static constexpr std::string_view kWord = "usage";  // the word of a message (words.h)
  std::chrono::microseconds processor{0};  // user and system time so far, also of what has ended and was waited for
  int64_t memory_bytes = 0;                // resident now: memory that several processes share counts in each
  // The bytes of the network of the pod or host, by all that use that network. Empty where the kernel does not say.
  std::optional<NetworkBytes> network = {};
  std::string text() const;
  // Empty where `text` is no usage, or has an amount that no rank can have used.
  static std::optional<Usage> parse(std::string_view text);
};

// What all processes use that are below the process `root`, a guard, except its children `left_out` and what is below
// these. Empty where that is not known. A process that starts or ends meanwhile may be missing until the next look. A
// call takes some 20 us for each process, and 5 us for each of its threads.
std::optional<Usage> usage_below(pid_t root, std::span<const pid_t> left_out = {});

// The bytes of the network namespace of this process; empty where the kernel does not say.
std::optional<NetworkBytes> network_here();

}  // namespace mlbench::guard
