#include "mlbench/dataset/locate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/images.h"
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

// Fills `files` and returns the patterns that are missing.
std::vector<std::string> find_files(const DatasetDescription& description, const fs::path& folder,
                                    std::vector<std::vector<fs::path>>& files) {
  std::vector<std::string> missing;
  const bool encoded = find_format(description.format)->encoded;
  files.clear();
  for (const SplitSpec& split : description.splits) {
    auto& found = files.emplace_back();
    for (const FileSource& source : split.files) {
      if (encoded) {
        const std::vector<fs::path> images = find_images(folder, source.pattern);
        if (images.empty()) missing.push_back(source.pattern);
        found.insert(found.end(), images.begin(), images.end());
      } else if (auto path = find_file(folder, source.pattern)) {
        found.push_back(*std::move(path));
      } else {
        missing.push_back(source.pattern + "[.gz|.bz2|.xz]");
      }
    }
  }
  return missing;
}

struct Place {
  fs::path folder;
  std::string origin;
};

// The archive where it is in `place`, with its members as files.
std::optional<LocatedDataset> find_archive(const DatasetDescription& description, const Place& place) {
  const ArchiveSource& source = description.archive;
  if (source.pattern.empty()) return std::nullopt;
  const auto path = find_file(place.folder, source.pattern);
  if (!path) return std::nullopt;
  LocatedDataset located{place.folder, place.origin, {}, *path};
  for (const SplitSpec& split : description.splits) {
    auto& members = located.files.emplace_back();
    for (const FileSource& file : split.files) members.push_back(fs::path(source.folder) / file.pattern);
  }
  return located;
}

bool fits(const std::string& key, const std::string& pattern) {
  if (pattern.find('*') == std::string::npos) return key == pattern;
  return fnmatch(pattern.c_str(), key.c_str(), FNM_PERIOD | FNM_PATHNAME) == 0;
}

// Whether a store may hold the data set: it has no folders to walk through.
bool may_be_stored(const DatasetDescription& description) {
  return find_format(description.format)->encoded && std::ranges::all_of(description.splits, lies_in_shards);
}

// The data set where the store has it below `place`; else fills `missing`.
std::optional<LocatedDataset> find_in_store(const DatasetDescription& description, const Place& place,
                                            std::vector<std::string>& missing) {
  const std::shared_ptr<objects::ObjectStore> store = open_data_store(place.folder.string());
  const std::vector<objects::Object> listed = list_objects(*store);
  LocatedDataset located{place.folder, place.origin, {}};
  for (const SplitSpec& split : description.splits) {
    StoredShards shards{store};
    for (const FileSource& source : split.files) {
      const size_t before = shards.objects.size();
      std::ranges::copy_if(listed, std::back_inserter(shards.objects),
                           [&](const objects::Object& object) { return fits(object.key, source.pattern); });
      if (shards.objects.size() == before) missing.push_back(source.pattern);
    }
    auto& files = located.files.emplace_back();
    for (size_t i = 0; i < shards.objects.size(); ++i) files.emplace_back(shards.address(i));
    located.stored.push_back(std::make_shared<const StoredShards>(std::move(shards)));
  }
  return missing.empty() ? std::optional(std::move(located)) : std::nullopt;
}

// The data set where `place` holds it; else fills `missing`.
std::optional<LocatedDataset> find_at(const DatasetDescription& description, const Place& place,
                                      std::vector<std::string>& missing) {
  if (objects::is_store(place.folder.string())) {
    if (!may_be_stored(description)) return std::nullopt;
    return find_in_store(description, place, missing);
  }
  LocatedDataset located{place.folder, place.origin, {}, {}};
  missing = find_files(description, place.folder, located.files);
  if (missing.empty()) return located;
  return find_archive(description, place);
}

// Names look-alikes that lie in the folder: "; cifar-10-batches-py is ...".
std::string describe_lookalikes(const DatasetDescription& description, const fs::path& folder) {
  std::string text;
  std::error_code ignored;
  for (const Lookalike& other : description.lookalikes) {
    if (fs::exists(folder / other.pattern, ignored)) text += fmt::format("; {} {}", other.pattern, other.advice);
  }
  return text;
}

// Names a file named after the data set or one of its files, or any file in a folder named after the data set: ", but
// x.zip".
std::string describe_namesake(const DatasetDescription& description, const fs::path& folder) {
  std::vector<std::string> names = {description.name};
  for (const SplitSpec& split : description.splits) {
    for (const FileSource& source : split.files) names.push_back(source.pattern);
  }
  const bool own_folder = folder.filename() == description.name;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string found = entry.path().filename();
    const auto bears = [&](const std::string& name) { return found == name || found.starts_with(name + "."); };
    if (entry.is_regular_file(ignored) && (own_folder || std::ranges::any_of(names, bears))) return ", but " + found;
  }
  return "";
}

size_t count_files(const DatasetDescription& description) {
  size_t count = 0;
  for (const SplitSpec& split : description.splits) count += split.files.size();
  return count;
}

std::vector<Place> places_of(const DatasetDescription& description, const std::vector<std::string>& data_dirs) {
  std::vector<Place> places;
  for (const std::string& dir : data_dirs) {
    for (const fs::path& folder : {fs::path(dir) / description.folder, fs::path(dir)}) {
      const char* const origin = objects::is_store(dir) ? "object store" : "data folder";
      if (!description.archive.folder.empty()) places.push_back({folder / description.archive.folder, origin});
      places.push_back({folder, origin});
    }
  }
  if (!description.system_path.empty()) {
    places.push_back({description.system_path, "package " + description.system_package});
  }
  return places;
}

// What a place lacks, and what it has instead.
struct Lack {
  std::string text;
  bool misfit = false;  // it holds something that was meant to be the data set
};

Lack lack_of(const DatasetDescription& description, const fs::path& folder, const std::vector<std::string>& missing) {
  std::error_code ignored;
  const bool stored = objects::is_store(folder.string());
  if (stored && !may_be_stored(description)) return {"only images in tar or record files are read from a store"};
  if (!stored && !fs::is_directory(folder, ignored)) return {"no such folder"};
  const bool some = missing.size() < count_files(description);
  const std::string instead =
      (some ? "" : describe_namesake(description, folder)) + describe_lookalikes(description, folder);
  return {(some ? fmt::format("no {}", fmt::join(missing, ", ")) : "none of its files") + instead,
          some || !instead.empty()};
}

}  // namespace

SearchResult search(const DatasetDescription& description, const std::vector<std::string>& data_dirs) {
  SearchResult result;
  if (description.only_made()) return result;
  for (const Place& place : places_of(description, data_dirs)) {
    std::vector<std::string> missing;
    if ((result.found = find_at(description, place, missing))) return result;
    const Lack lack = lack_of(description, place.folder, missing);
    const std::string line = fmt::format("\n  {} ({}): {}", place.folder.string(), place.origin, lack.text);
    result.tried += line;
    if (lack.misfit) result.misfits += line;
  }
  return result;
}

std::string way_to_get(const DatasetDescription& description, const std::vector<std::string>& data_dirs) {
  std::vector<std::string> missing;
  const bool packed = !description.archive.pattern.empty();
  if (packed && description.archive.url.empty()) missing.push_back(description.archive.pattern);
  for (const SplitSpec& split : description.splits) {
    for (const FileSource& source : split.files) {
      if (!packed && source.url.empty()) missing.push_back(source.pattern);
    }
  }
  if (missing.empty()) return "mlbench data fetch " + description.name;
  const fs::path folder = data_dirs.empty() ? "DIR" : data_dirs.back();
  return fmt::format("put {} into {}", fmt::join(missing, ", "), (folder / description.folder).string());
}

LocatedDataset locate(const DatasetDescription& description, const std::vector<std::string>& data_dirs) {
  require_files(description);
  SearchResult result = search(description, data_dirs);
  if (result.found && result.misfits.empty()) return *std::move(result.found);
  if (result.found) {
    throw UserError(fmt::format(
        "data set {}: what lies here does not fit:{}\nthe copy in {} ({}) is not taken in its place: "
        "complete or remove "
        "what does not fit, or name another folder with --data-dir DIR or {}",
        description.name, result.misfits, result.found->folder.string(), result.found->origin, variables::kDataDir));
  }
  std::string text = fmt::format("data set {} not found; places tried:{}\nto get it: {}", description.name,
                                 result.tried.empty() ? " none (no data folder given)" : result.tried,
                                 way_to_get(description, data_dirs));
  if (!description.system_package.empty())
    text += fmt::format(", or install the package {}", description.system_package);
  throw UserError(
      fmt::format("{}, or name the folder that holds it with --data-dir DIR or {}", text, variables::kDataDir));
}

}  // namespace mlbench::dataset
