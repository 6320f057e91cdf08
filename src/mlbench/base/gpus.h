#pragma once

// The NVIDIA GPUs of this host, as far as a program can tell without NVIDIA's libraries.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mlbench {

// This variable names the GPUs that a program may use. CUDA, and all that uses it, sees only these, counted from 0.
inline constexpr const char* kVisibleGpus = "CUDA_VISIBLE_DEVICES";

// The names of the GPUs that programs of this process may use. The names are those in CUDA_VISIBLE_DEVICES where that
// is set (CUDA ignores what follows a word that is no GPU's name). Otherwise the names are the numbers, from 0, of the
// device files or, on a host that has not made these files yet, of the GPUs that the driver lists. The second form
// takes the variable's value and the folders of the device files and of the driver.
std::vector<std::string> visible_gpus();
std::vector<std::string> visible_gpus(const std::optional<std::string>& variable, const std::filesystem::path& devices,
                                      const std::filesystem::path& driver);

// The GPU of the rank that has number `local_rank` on its host. Throws UserError where there are not so many GPUs.
const std::string& gpu_of_rank(const std::vector<std::string>& gpus, int local_rank);

// The number of a GPU that is named by one, as "3"; empty for other names.
std::optional<int> gpu_number(const std::string& name);

}  // namespace mlbench
