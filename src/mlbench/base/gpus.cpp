#include "mlbench/base/gpus.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "mlbench/base/errors.h"
#include "mlbench/base/text.h"
#include "mlbench/base/to_number.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool names_gpu(const std::string& word) {
  return gpu_number(word) || word.starts_with("GPU-") || word.starts_with("MIG-");
}

// nvidia0, nvidia1, ...: beside them lie nvidiactl, nvidia-uvm and others.
size_t count_device_files(const fs::path& folder) {
  constexpr std::string_view kDevice = "nvidia";
  std::error_code none;
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kDevice) && is_number(std::string_view(name).substr(kDevice.size()))) ++count;
  }
  return count;
}

size_t count_entries(const fs::path& folder) {
  std::error_code none;
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder, none)) ++count;
  return count;
}

}  // namespace

std::vector<std::string> visible_gpus() {
  // A variable that is set to "" names no GPU.
  const char* variable = std::getenv(kVisibleGpus);
  return visible_gpus(variable != nullptr ? std::optional<std::string>(variable) : std::nullopt, "/dev",
                      "/proc/driver/nvidia/gpus");
}

std::vector<std::string> visible_gpus(const std::optional<std::string>& variable, const fs::path& devices,
                                      const fs::path& driver) {
  std::vector<std::string> names;
  if (variable) {
    for (size_t begin = 0; begin <= variable->size();) {
      const size_t end = std::min(variable->find(',', begin), variable->size());
      std::string word = trimmed(variable->substr(begin, end - begin));
      if (!names_gpu(word)) break;
      names.push_back(std::move(word));
      begin = end + 1;
    }
    return names;
  }
  size_t count = count_device_files(devices);
  if (count == 0) count = count_entries(driver);
  for (size_t number = 0; number < count; ++number) names.push_back(std::to_string(number));
  return names;
}

const std::string& gpu_of_rank(const std::vector<std::string>& gpus, int local_rank) {
  if (gpus.empty()) {
    throw UserError("--gpu: this host has no NVIDIA GPU that ranks may use; leave it out, or run where there is one");
  }
  if (static_cast<size_t>(local_rank) < gpus.size()) return gpus[static_cast<size_t>(local_rank)];
  const std::string count = std::to_string(gpus.size());
  throw UserError("--gpu: each rank needs a GPU of its own, and the GPUs of this host that ranks may use are " + count +
                  "; start at most " + count + " here");
}

std::optional<int> gpu_number(const std::string& name) { return is_number(name) ? to_number<int>(name) : std::nullopt; }

}  // namespace mlbench
