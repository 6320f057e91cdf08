#pragma once

// What is special about a machine's processor and firmware.

#include <filesystem>
#include <string>

namespace mlbench {

// Why products of bfloat16 are usually slower than those of float32 on the processor that this text of /proc/cpuinfo
// describes; "" where they are not, and where nothing is known of it (no x86-64).
std::string why_bfloat16_is_slow(const std::string& cpuinfo);
// The same of this processor.
std::string why_bfloat16_is_slow();

// Maker, version and date of the firmware, as the kernel has them from its tables; "" where it has none, as in many
// virtual machines. `root` stands before /sys.
std::string firmware_version(const std::filesystem::path& root = "/");

}  // namespace mlbench
