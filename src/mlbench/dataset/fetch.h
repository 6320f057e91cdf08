#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "mlbench/dataset/description.h"

namespace mlbench::dataset {

// Downloads the files that are missing into DATA_DIR/<description.folder>, where locate(description, {DATA_DIR}) finds
// them, and returns that folder. Only http and https are allowed. An interrupted transfer leaves FILE.part and is
// resumed from there, up to 5 times in this call and again by the next one. A file gets its name once its checksum is
// right. `progress` may be empty; it is called on this thread with bytes done and in all (0: unknown). Throws IoError
// for errors of network and disk, and UserError where no URL is known, a checksum is wrong, or another process is
// fetching.
std::filesystem::path fetch(const DatasetDescription& description, const std::filesystem::path& data_dir,
                            const std::function<void(const std::string& file, int64_t done, int64_t total)>& progress);

}  // namespace mlbench::dataset
