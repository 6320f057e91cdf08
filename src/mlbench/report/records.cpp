#include "mlbench/report/records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/growing_lines.h"

namespace mlbench::report {

namespace fs = std::filesystem;

namespace {
constexpr std::uintmax_t kMostTailBytes = 4 << 20;
}

fs::path runs_dir(const fs::path& home) { return home / "runs"; }

std::vector<std::string> run_names(const fs::path& home) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(runs_dir(home), error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with('.') && fs::is_regular_file(entry.path() / "spec.json", error)) names.push_back(name);
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
      id = read_json_file(folder / "spec.json").value("id", int64_t{0});
    } catch (const std::exception&) {
      // A damaged spec is still a folder that the user can see and delete.
    }
    runs.emplace_back(id, folder);
  }
  std::sort(runs.begin(), runs.end());
  std::vector<fs::path> folders;
  for (auto& [id, folder] : runs) folders.push_back(std::move(folder));
  return folders;
}

fs::path find_run(const fs::path& home, const std::string& name) {
  std::error_code error;
  const bool plain = name.find('/') == std::string::npos && !name.starts_with('.');
  if (plain && fs::is_regular_file(runs_dir(home) / name / "spec.json", error)) return runs_dir(home) / name;
  const std::vector<std::string> names = run_names(home);
  if (names.empty()) {
    throw UserError(fmt::format("no run '{}': {} holds no runs yet; start one with: mlbench run NAME K --task TASK",
                                name, runs_dir(home).string()));
  }
  std::vector<std::string> meant = nearest(name, names);
  if (meant.empty()) {  // the latest ones
    for (const fs::path& folder : list_runs(home)) meant.push_back(folder.filename());
    meant.erase(meant.begin(), meant.end() - std::min<std::ptrdiff_t>(3, std::ssize(meant)));
  }
  throw UserError(fmt::format("no run '{}' in {}; there are {}: {}{} (all: mlbench status)", name,
                              runs_dir(home).string(), names.size(), fmt::join(meant, ", "),
                              meant.size() < names.size() ? ", ..." : ""));
}

Json read_record(const fs::path& run_dir) { return read_json_file(run_dir / "run.json"); }

int64_t segment_count(const Json& record) {
  const auto segments = record.find("segments");
  return segments != record.end() && segments->is_array() ? std::max<int64_t>(1, std::ssize(*segments)) : 1;
}

bool is_active(const Json& record) {
  const auto state = record.find("state");
  return state != record.end() && (*state == "queued" || *state == "running");
}

std::vector<std::string> last_lines(const fs::path& file, size_t count) {
  std::error_code error;
  const auto size = fs::is_regular_file(file, error) ? fs::file_size(file, error) : 0;
  if (error || size == 0) return {};
  // Backwards in growing pieces, until there are enough line ends in front of the last one.
  std::string text;
  for (std::uintmax_t bytes = 1 << 16;; bytes *= 4) {
    const std::uintmax_t most = std::min<std::uintmax_t>({bytes, kMostTailBytes, size});
    text = read_from(file, size - most, static_cast<size_t>(most));
    const auto ends = std::count(text.begin(), text.end(), '\n') - (text.ends_with('\n') ? 1 : 0);
    if (most == size) break;
    if (static_cast<size_t>(ends) >= count || most == kMostTailBytes) {
      text.erase(0, text.find('\n') + 1);  // of a line whose beginning is elsewhere
      break;
    }
  }
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  return lines;
}

namespace {
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}
}  // namespace

std::vector<std::string> nearest(const std::string& given, const std::vector<std::string>& choices, size_t count) {
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& choice : choices) {
    const bool prefix = !given.empty() && choice.starts_with(given);
    const size_t distance = prefix ? 0 : edit_distance(given, choice);
    if (distance <= std::max<size_t>(2, given.size() / 3)) ranked.emplace_back(distance, choice);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (ranked.size() > count) ranked.resize(count);
  std::vector<std::string> result;
  for (auto& [distance, choice] : ranked) result.push_back(std::move(choice));
  return result;
}

}  // namespace mlbench::report
