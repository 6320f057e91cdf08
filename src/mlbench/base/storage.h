#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace mlbench {

// What a path lies on, as statfs says: "local" for a file system of this host, on a disk or in memory; of another
// machine's the name of its kind, "nfs" or "lustre"; "fuse" for what a program serves. "" where that is not known.
std::string storage_kind(const std::filesystem::path& path);
// The same of the number by which statfs(2) calls a kind.
std::string storage_kind_of(uint32_t type);

}  // namespace mlbench
