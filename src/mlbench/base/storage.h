#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace mlbench {

// The kind of file system that a path lies on, as statfs(2) says. "local" stands for a file system of this host, on a
// disk or in memory. A file system of another machine has the name of its kind, "nfs" or "lustre". One that a program
// serves is "fuse". "" where the kind is not known.
std::string storage_kind(const std::filesystem::path& path);
// Returns what storage_kind() does, for the number `type` by which statfs(2) calls a kind.
std::string storage_kind_of(uint32_t type);

}  // namespace mlbench
