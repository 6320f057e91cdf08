#pragma once

// Files of run folders that were packed to be kept: FILE.xz or FILE.gz in place of FILE.

#include <filesystem>

#include "mlbench/base/input.h"

namespace mlbench::report {

// Writes what FILE.xz or FILE.gz holds to `to`. Returns false where there is neither. Throws UserError, naming the
// packed file, where it is damaged or holds more than `input` allows.
bool unpack(const std::filesystem::path& file, const std::filesystem::path& to, const Input& input);

}  // namespace mlbench::report
