#pragma once

#include <span>

#include "mlbench/base/embedded_file.h"

namespace mlbench {

std::span<const EmbeddedFile> dashboard_files();  // the files of dashboard/dist

}  // namespace mlbench
