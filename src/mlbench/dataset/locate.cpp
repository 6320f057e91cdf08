#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/dataset.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/input_file.h"

namespace mlbench::dataset {

namespace fs = std::filesystem;

std::optional<fs::path> find_file(const fs::path& folder, const std::string& pattern) {
  std::error_code ignored;
  for (const std::string_view suffix : kPackedSuffixes) {
    fs::path path = folder / (pattern + std::string(suffix));
    if (fs::is_regular_file(path, ignored)) return path;
  }
  if (fs::path path = folder / pattern; fs::is_regular_file(path, ignored)) return path;
  return std::nullopt;
}

namespace {

// Fills `files`, or returns what is missing.
std::vector<std::string> find_files(const DatasetDescription& description, const fs::path& folder,
                                    std::vector<std::vector<fs::path>>& files) {
  std::vector<std::string> missing;
  files.clear();
  for (const SplitSpec& split : description.splits) {
    auto& found = files.emplace_back();
    for (const FileSource& source : split.files) {
      if (auto path = find_file(folder, source.pattern)) {
        found.push_back(*std::move(path));
      } else {
        missing.push_back(source.pattern + "[.gz|.bz2|.xz]");
      }
    }
  }
  return missing;
}

size_t count_files(const DatasetDescription& description) {
  size_t count = 0;
  for (const SplitSpec& split : description.splits) count += split.files.size();
  return count;
}

}  // namespace

LocatedDataset locate(const DatasetDescription& description, const std::vector<std::string>& data_dirs) {
  struct Place {
    fs::path folder;
    std::string origin;
  };
  std::vector<Place> places;
  for (const std::string& dir : data_dirs) {
    places.push_back({fs::path(dir) / description.folder, "data folder"});
    places.push_back({dir, "data folder"});
  }
  if (!description.system_path.empty()) {
    places.push_back({description.system_path, "package " + description.system_package});
  }

  std::string tried;
  for (const Place& place : places) {
    LocatedDataset located{place.folder, place.origin, {}};
    const auto missing = find_files(description, place.folder, located.files);
    if (missing.empty()) return located;
    std::error_code ignored;
    tried += fmt::format("\n  {} ({}): {}", place.folder.string(), place.origin,
                         !fs::is_directory(place.folder, ignored)     ? "no such folder"
                         : missing.size() == count_files(description) ? "none of its files"
                                                                      : fmt::format("no {}", fmt::join(missing, ", ")));
  }
  std::string text =
      fmt::format("data set {} not found; places tried:{}\nfetch it with `mlbench data fetch {}`", description.name,
                  tried.empty() ? " none (no data folder given)" : tried, description.name);
  if (!description.system_package.empty())
    text += fmt::format(", or install the package {}", description.system_package);
  throw UserError(text + ", or name the folder that holds it with --data-dir DIR or MLBENCH_DATA_DIR");
}

}  // namespace mlbench::dataset
