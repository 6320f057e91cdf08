#pragma once

// Programs of ours that this one starts. Internal to dataset/.

#include <filesystem>
#include <string_view>

namespace mlbench::dataset {

// The path of that program: beside this program or, where it is not there, in the folder bin beside this program's
// folder (for tests). No file need exist at the path.
std::filesystem::path program_beside(std::string_view name);

}  // namespace mlbench::dataset
