#pragma once

#include <span>
#include <string>

#include "mlbench/base/embedded_file.h"

namespace mlbench {

// api/openapi.json, which CMake embeds into the program.
std::span<const EmbeddedFile> openapi_files();

namespace master {

std::string openapi_document();

}  // namespace master
}  // namespace mlbench
