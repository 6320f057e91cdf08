#include "mlbench/report/records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/growing_lines.h"
#include "mlbench/base/input.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/record.h"

namespace mlbench::report {

namespace fs = std::filesystem;

namespace {
constexpr std::uintmax_t kMostTailBytes = 4 << 20;
}

bool is_run(const fs::path& folder) {
  std::error_code error;
  return fs::symlink_status(spec_path(folder), error).type() != fs::file_type::not_found && !error;
}

std::vector<std::string> run_names(const fs::path& home) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(runs_dir(home), error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with('.') && is_run(entry.path())) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<fs::path> list_runs(const fs::path& home) {
  std::vector<std::pair<int64_t, fs::path>> runs;
  for (const std::string& name : run_names(home)) {
    const fs::path folder = runs_dir(home) / name;
    int64_t id = 0;
    try {
      id = integer_member(read_json_file(spec_path(folder), inputs::kSpec), "id");
    } catch (const std::exception&) {
      // A folder with a damaged spec is still one that the user can see and delete.
    }
    runs.emplace_back(id, folder);
  }
  std::sort(runs.begin(), runs.end());
  std::vector<fs::path> folders;
  for (auto& [id, folder] : runs) folders.push_back(std::move(folder));
  return folders;
}

fs::path find_run(const fs::path& home, const std::string& name) {
  const bool plain = name.find('/') == std::string::npos && !name.starts_with('.');
  if (plain && is_run(runs_dir(home) / name)) return runs_dir(home) / name;
  const std::vector<std::string> names = run_names(home);
  if (names.empty()) {
    throw UserError(fmt::format("no run '{}': {} holds no runs yet; start one with: mlbench run NAME K --task TASK",
                                name, runs_dir(home).string()));
  }
  std::vector<std::string> meant = nearest(name, names);
  if (meant.empty()) {  // then the latest runs
    for (const fs::path& folder : list_runs(home)) meant.push_back(folder.filename());
    meant.erase(meant.begin(), meant.end() - std::min<std::ptrdiff_t>(3, std::ssize(meant)));
  }
  throw UserError(fmt::format("no run '{}' in {}; there are {}: {}{} (all: mlbench status)", name,
                              runs_dir(home).string(), names.size(), fmt::join(meant, ", "),
                              meant.size() < names.size() ? ", ..." : ""));
}

record::Record read_record(const fs::path& run_dir) {
  const fs::path file = record_path(run_dir);
  return record::record_from_json(read_json_file(file, inputs::kRecord), file.string());
}

std::vector<std::string> last_lines(const fs::path& file, size_t count) {
  std::error_code error;
  const auto size = fs::is_regular_file(file, error) ? fs::file_size(file, error) : 0;
  if (error || size == 0) return {};
  // Reads growing pieces of the file's end, until a piece has `count` line ends before its last line's.
  std::string text;
  for (std::uintmax_t bytes = 1 << 16;; bytes *= 4) {
    const std::uintmax_t most = std::min<std::uintmax_t>({bytes, kMostTailBytes, size});
    text = read_from(file, size - most, static_cast<size_t>(most));
    const auto ends = std::count(text.begin(), text.end(), '\n') - (text.ends_with('\n') ? 1 : 0);
    if (most == size) break;
    if (static_cast<size_t>(ends) >= count || most == kMostTailBytes) {
      text.erase(0, text.find('\n') + 1);  // the rest of a line that begins before the piece
      break;
    }
  }
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  return lines;
}

}  // namespace mlbench::report
