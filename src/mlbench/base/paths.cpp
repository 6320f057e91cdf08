#include "mlbench/base/paths.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "mlbench/base/files.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/system_error.h"

namespace mlbench {

namespace fs = std::filesystem;

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

namespace {

// Closes a home to other users. Any other folder, which a command may have been given, is left alone.
void close_to_others(const fs::path& home) {
  struct stat info {};
  std::error_code unreadable;
  if (stat(home.c_str(), &info) != 0 || info.st_uid != geteuid() || (info.st_mode & 077) == 0) return;
  if ((info.st_mode & S_ISVTX) != 0 || !fs::exists(runs_lock_path(home), unreadable)) return;
  chmod(home.c_str(), info.st_mode & 0700);
}

}  // namespace

fs::path resolve_home(const std::optional<std::string>& option, HomeUse use) {
  fs::path home;
  if (option) {
    home = *option;
  } else if (const auto variable = environment_variable(variables::kHome)) {
    home = *variable;
  } else if (const auto xdg = environment_variable("XDG_DATA_HOME")) {
    home = fs::path(*xdg) / "mlbench";
  } else if (const auto user = environment_variable("HOME")) {
    home = fs::path(*user) / ".local/share/mlbench";
  } else {
    throw UserError(fmt::format("no home folder: give --home DIR, or set {} or HOME", variables::kHome));
  }
  home = fs::absolute(home).lexically_normal();
  std::error_code error;
  const fs::file_status status = fs::status(home, error);
  if (fs::exists(status) && !fs::is_directory(status)) {
    throw UserError(
        fmt::format("home {} is not a folder: give another with --home DIR or {}", home.string(), variables::kHome));
  }
  if (fs::exists(status)) {
    close_to_others(home);
  } else if (use == HomeUse::kWrite) {
    make_folder(home);
    fs::permissions(home, fs::perms::owner_all);
  }
  if (use == HomeUse::kWrite && access(home.c_str(), W_OK | X_OK) != 0) {
    throw_system_error("cannot write into home " + home.string(), errno);
  }
  return home;
}

void check_name(std::string_view name, std::string_view what) {
  const auto alphanumeric = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  const bool good = !name.empty() && name.size() <= 63 && alphanumeric(name.front()) &&
                    std::all_of(name.begin(), name.end(),
                                [&](char c) { return alphanumeric(c) || c == '.' || c == '_' || c == '-'; });
  if (!good) {
    throw UserError(std::string(what) + " '" + std::string(name) +
                    "' is not valid: 1 to 63 letters, digits, '.', '_' or '-', starting with a letter or digit");
  }
}

fs::path program_path() { return fs::read_symlink("/proc/self/exe"); }

}  // namespace mlbench
