#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "mlbench/dataset/description.h"

namespace mlbench::dataset {

// Downloads what is missing into DATA_DIR/<description.folder>, where locate(description, {DATA_DIR}) finds it, and
// returns that folder. Only http and https. A broken transfer leaves FILE.part and is taken up where it stopped (now, a
// few times, or by the next call); a file gets its name after its checksum was right. `progress` (may be empty) is
// called with bytes done and in all (0: unknown). IoError (network, disk) / UserError (no URL known, checksum).
std::filesystem::path fetch(const DatasetDescription& description, const std::filesystem::path& data_dir,
                            const std::function<void(const std::string& file, int64_t done, int64_t total)>& progress);

}  // namespace mlbench::dataset
