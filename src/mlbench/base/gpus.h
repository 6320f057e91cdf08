#pragma once

// The NVIDIA GPUs of this host, as far as a program can tell without a library of theirs.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mlbench {

// Names the GPUs that a program may use; CUDA, and all that is built on it, sees no others, and counts these from 0.
inline constexpr const char* kVisibleGpus = "CUDA_VISIBLE_DEVICES";

// The GPUs that programs of this process may use, as CUDA_VISIBLE_DEVICES names them: what that says where it is set
// (CUDA ignores what follows a word that is no GPU's name); else the numbers from 0 of the device files, or, of a host
// that has not made these yet, of the GPUs that the driver lists.
std::vector<std::string> visible_gpus();
std::vector<std::string> visible_gpus(const std::optional<std::string>& variable, const std::filesystem::path& devices,
                                      const std::filesystem::path& driver);

// The one of the rank with this number on its host. UserError where there are not so many.
const std::string& gpu_of_rank(const std::vector<std::string>& gpus, int local_rank);

// "3" is 3; empty for the GPUs that are named otherwise.
std::optional<int> gpu_number(const std::string& name);

}  // namespace mlbench
