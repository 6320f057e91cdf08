#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/dataset/description.h"
#include "mlbench/dataset/stored_shards.h"

namespace mlbench::dataset {

// A data set found on disk or in an object store: its folder, and for each split the files in the order that the
// format's reader expects.
struct LocatedDataset {
  std::filesystem::path folder;
  std::string origin;                                     // "data folder" | "package NAME" | "object store"
  std::vector<std::vector<std::filesystem::path>> files;  // [split][file]; with an archive: paths of its members
  std::filesystem::path archive = {};                     // "" where the files themselves were found
  // [split]; of a store, in which `folder` and `files` are addresses. Empty: the files are on disk.
  std::vector<std::shared_ptr<const StoredShards>> stored = {};
};

// What a search found, and which places it rejected.
struct SearchResult {
  std::optional<LocatedDataset> found;  // the first place that holds the whole data set
  // Lines "\n  PLACE (ORIGIN): WHAT IS MISSING". `tried` has one for each place searched before `found`. `misfits` has
  // those of them that hold something that was meant to be the data set: some of its files, a file named after the data
  // set or one of its files, any file in a folder named after the data set, or a look-alike.
  std::string tried, misfits;
};
// How to get a data set: the command that fetches it or, where no address is known, which files belong where below
// the last of `data_dirs`.
std::string way_to_get(const DatasetDescription& description, const std::vector<std::string>& data_dirs);

// Looks into each folder of `data_dirs` in order: DIR/<folder>, then DIR, since two sets may have files of the same
// names; before each of the two, its subfolder named as the archive's folder. The system package's folder comes last.
// Files may be as published, unpacked, or in the archive. A folder s3://BUCKET/PREFIX is listed, for shards of images
// alone, and what its store throws passes through. For data that are only made, no place is searched and nothing
// is found.
SearchResult search(const DatasetDescription& description, const std::vector<std::string>& data_dirs);
// What search() found. Throws UserError where nothing was found, listing every place, what is missing or was mistaken
// there, and what way_to_get() says. Also throws UserError for data that are only made, and where `misfits` is not
// empty, since a copy in a later place must not silently replace the user's.
LocatedDataset locate(const DatasetDescription& description, const std::vector<std::string>& data_dirs);

// The file FOLDER/PATTERN with the first suffix of kPackedSuffixes (input_file.h) that exists, else plain; empty where
// there is none.
std::optional<std::filesystem::path> find_file(const std::filesystem::path& folder, const std::string& pattern);

}  // namespace mlbench::dataset
