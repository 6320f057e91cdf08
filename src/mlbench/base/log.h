#pragma once

// Diagnostics go to standard error through spdlog; results go to standard output and never through here.

#include <spdlog/spdlog.h>

#include <string>

namespace mlbench {

// Line format "HH:MM:SS.mmm level [who] text". Colour only on a terminal without NO_COLOR. Whatever a text holds, no
// control character is written, and none of its lines passes for one of the log (printable_lines).
// Level from MLBENCH_LOG (trace debug info warn error off; default info).
void set_up_logging(const std::string& who);

}  // namespace mlbench
