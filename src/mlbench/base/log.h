#pragma once

// Diagnostics go to standard error through spdlog. Results go to standard output and never through spdlog.

#include <spdlog/spdlog.h>

#include <string>

namespace mlbench {

// Sets the format of lines, "HH:MM:SS.mmm level [who] text", and takes the level from MLBENCH_LOG (trace debug info
// warn error off; default info). Lines have colour only on a terminal without NO_COLOR. Whatever a text holds, no
// control character is written, and none of its lines passes for a message of its own (printable_lines()).
void set_up_logging(const std::string& who);

}  // namespace mlbench
