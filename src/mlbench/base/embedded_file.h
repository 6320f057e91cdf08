#pragma once

#include <string_view>

namespace mlbench {

/// A file that mlbench_embed() (cmake/MlbenchEmbed.cmake) put into the binary. Both views last like the process.
struct EmbeddedFile {
  std::string_view name;  ///< the path relative to the embedded folder, e.g. "data/epsilon.toml"
  std::string_view text;  ///< the bytes of the file as it was when the binary was built
};

}  // namespace mlbench
