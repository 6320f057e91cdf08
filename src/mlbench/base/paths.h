#pragma once

// Where home folders and programs lie, and which names may become part of a path.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace mlbench {

// The home: the folder that holds runs, data and caches. The home is `option` if given, else MLBENCH_HOME, else
// "mlbench" under XDG_DATA_HOME (default ~/.local/share); the result is absolute. Throws UserError if that is a regular
// file. With HomeUse::kWrite the folder is created if absent; throws IoError if creating the folder or writing there is
// refused. With kRead the folder may be absent, or on a medium that nobody can write. A home is its user's alone: a new
// one is created so, and one of ours (it holds runs/.lock) that is open to others is closed.
enum class HomeUse { kRead, kWrite };
std::filesystem::path resolve_home(const std::optional<std::string>& option, HomeUse use = HomeUse::kWrite);

// Throws UserError unless `name` is 1 to 63 letters, digits, '.', '_' or '-', and starts with a letter or a digit. Such
// a name is safe as a file name, in tables and on a command line. `what` names the thing in the message ("run name").
void check_name(std::string_view name, std::string_view what);

// The full path of the running program, with links followed. The folder of that path holds the other programs:
// mlbench-worker lies beside mlbench in the build tree as in an installation, where bin/mlbench is a link.
std::filesystem::path program_path();

// The environment variable's value; empty when the variable is unset or "".
std::optional<std::string> environment_variable(const char* name);

}  // namespace mlbench
