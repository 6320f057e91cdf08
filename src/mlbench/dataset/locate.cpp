#include "mlbench/dataset/locate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "mlbench/base/errors.h"
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

// The archive, with its members as files.
std::optional<LocatedDataset> find_archive(const DatasetDescription& description, const fs::path& folder,
                                           const std::string& origin) {
  const ArchiveSource& source = description.archive;
  if (source.pattern.empty()) return std::nullopt;
  const auto path = find_file(folder, source.pattern);
  if (!path) return std::nullopt;
  LocatedDataset located{folder, origin, {}, *path};
  for (const SplitSpec& split : description.splits) {
    auto& members = located.files.emplace_back();
    for (const FileSource& file : split.files) members.push_back(fs::path(source.folder) / file.pattern);
  }
  return located;
}

// What lies in the folder and is easily taken for the data set: "; cifar-10-batches-py is ...".
std::string describe_lookalikes(const DatasetDescription& description, const fs::path& folder) {
  std::string text;
  std::error_code ignored;
  for (const Lookalike& other : description.lookalikes) {
    if (fs::exists(folder / other.pattern, ignored)) text += fmt::format("; {} {}", other.pattern, other.advice);
  }
  return text;
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
    for (const fs::path& folder : {fs::path(dir) / description.folder, fs::path(dir)}) {
      if (!description.archive.folder.empty()) places.push_back({folder / description.archive.folder, "data folder"});
      places.push_back({folder, "data folder"});
    }
  }
  if (!description.system_path.empty()) {
    places.push_back({description.system_path, "package " + description.system_package});
  }

  std::string tried;
  for (const Place& place : places) {
    LocatedDataset located{place.folder, place.origin, {}, {}};
    const auto missing = find_files(description, place.folder, located.files);
    if (missing.empty()) return located;
    if (auto packed = find_archive(description, place.folder, place.origin)) return *std::move(packed);
    std::error_code ignored;
    tried += fmt::format("\n  {} ({}): {}", place.folder.string(), place.origin,
                         !fs::is_directory(place.folder, ignored)     ? "no such folder"
                         : missing.size() == count_files(description) ? "none of its files"
                                                                      : fmt::format("no {}", fmt::join(missing, ", ")));
    tried += describe_lookalikes(description, place.folder);
  }
  std::string text =
      fmt::format("data set {} not found; places tried:{}\nfetch it with `mlbench data fetch {}`", description.name,
                  tried.empty() ? " none (no data folder given)" : tried, description.name);
  if (!description.system_package.empty())
    text += fmt::format(", or install the package {}", description.system_package);
  throw UserError(text + ", or name the folder that holds it with --data-dir DIR or MLBENCH_DATA_DIR");
}

}  // namespace mlbench::dataset
