#pragma once

#include <filesystem>
#include <memory>

#include "mlbench/objects/object_store.h"

namespace mlbench::objects {

// The files below a folder of this machine. Links below it are refused: they may lead elsewhere. Throws UserError where
// there is no such folder.
std::unique_ptr<ObjectStore> make_folder_store(const std::filesystem::path& folder);

}  // namespace mlbench::objects
