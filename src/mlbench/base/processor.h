#pragma once

// What is special about a machine's processor and firmware.

#include <filesystem>
#include <string>

namespace mlbench {

// Why products of bfloat16 are usually slower than those of float32 on the processor that `cpuinfo`, the text of
// /proc/cpuinfo, describes. "" where they are not slower, and where nothing is known of the processor (no x86-64).
std::string why_bfloat16_is_slow(const std::string& cpuinfo);
// why_bfloat16_is_slow() of this machine's processor.
std::string why_bfloat16_is_slow();

// Maker, version and date of the firmware, as the kernel has them from the firmware's tables. "" where there are none,
// as in many virtual machines. `root` is put before /sys.
std::string firmware_version(const std::filesystem::path& root = "/");

}  // namespace mlbench
