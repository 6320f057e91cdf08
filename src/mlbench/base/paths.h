#pragma once

// Where things lie, and which names may become part of a path.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace mlbench {

// The folder that holds runs, data and caches: `option` if given, else MLBENCH_HOME, else "mlbench" under
// XDG_DATA_HOME (default ~/.local/share). Absolute. UserError if it is a regular file. To be written it is created if
// absent, IoError if that or writing there is refused; to be read it may lack, or be on a medium that nobody can write.
// It is its user's alone: a new one is made so, and one of ours (it holds runs/.lock) that is open to others is closed.
enum class HomeUse { kRead, kWrite };
std::filesystem::path resolve_home(const std::optional<std::string>& option, HomeUse use = HomeUse::kWrite);

// UserError unless `name` is 1 to 63 letters, digits, '.', '_' or '-', starting with a letter or digit, so that it
// is safe as a file name, in tables and on a command line. `what` names the thing in the message ("run name").
void check_name(std::string_view name, std::string_view what);

// Full path of the running program, links followed; folder of its siblings (mlbench-worker lies beside mlbench, in the
// build tree as where it is installed: bin/mlbench is a link there).
std::filesystem::path program_path();

// The environment variable, or empty when unset or "".
std::optional<std::string> environment_variable(const char* name);

}  // namespace mlbench
