#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace mlbench {

/// What the running binary was made from.
struct BuildInfo {
  std::string version;       ///< the project's, e.g. "0.1.0"
  std::string git_describe;  ///< `git describe --always --dirty` at build time; "unknown" outside a repository
  std::string build_id;      ///< elf_build_id() of the running binary; changes with any of its sources
  std::string compiler;      ///< e.g. "GNU 12.2.0"
  std::string build_type;    ///< e.g. "Release", "Release+address"
  std::map<std::string, std::string> libraries;  ///< name to the version that was compiled against
};

/// Any thread may call this. The reference lasts as long as the process.
const BuildInfo& build_info();

/// The GNU build id of an ELF file in lower-case hexadecimal. The program need not be started. Empty if the file cannot
/// be read or has no build id.
std::optional<std::string> elf_build_id(const std::filesystem::path& binary);

}  // namespace mlbench
