#pragma once

// What is special about a machine's processor and firmware.

#include <filesystem>
#include <string>

namespace mlbench {

// What tells one kind of processor from another by the text of /proc/cpuinfo: maker, model and instruction sets of the
// first core. "" where the text has nothing of these.
std::string processor_kind(const std::string& cpuinfo);
// processor_kind() of this machine; with the variables by which users hide instruction sets from oneDNN and LibTorch.
// "" where the kernel does not say.
std::string processor_kind();

// Maker, version and date of the firmware, as the kernel has them from the firmware's tables. "" where there are none,
// as in many virtual machines. `root` is put before /sys.
std::string firmware_version(const std::filesystem::path& root = "/");

}  // namespace mlbench
