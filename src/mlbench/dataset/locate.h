#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/dataset/description.h"

namespace mlbench::dataset {

// A data set found on disk: the folder, and for each split the files in reader order.
struct LocatedDataset {
  std::filesystem::path folder;
  std::string origin;                                     // "data folder" | "package NAME"
  std::vector<std::vector<std::filesystem::path>> files;  // [split][file]; members of the archive, where there is one
  std::filesystem::path archive;                          // "" when the files lie there themselves
};

// What a search found, and what it passed.
struct SearchResult {
  std::optional<LocatedDataset> found;  // the first place that holds all of it
  // A line "\n  PLACE (ORIGIN): WHAT IS MISSING" for each place before; of those, the ones that hold something that was
  // meant to be the data set: a part of the files, a file named after the data set or one of its files, any file of a
  // folder named so, a look-alike.
  std::string tried, misfits;
};
// Looks in the folders in order (DIR/<folder>, then DIR: two sets may name their files alike; in each also in the
// archive's folder), then in the system package. A file may be there as it was published or unpacked, or all of them in
// the archive. Of data that are only made nothing is found and no place tried.
SearchResult search(const DatasetDescription& description, const std::vector<std::string>& data_dirs);
// What the search found. UserError that lists every place tried, what is missing there, what was taken for it and the
// command that fetches it; where another copy would silently stand in for what does not fit in an earlier place; and of
// data that are only made.
LocatedDataset locate(const DatasetDescription& description, const std::vector<std::string>& data_dirs);

// FOLDER/PATTERN, packed in one of the known ways (the first of kPackedSuffixes of input_file.h that is there) or
// plain.
std::optional<std::filesystem::path> find_file(const std::filesystem::path& folder, const std::string& pattern);

}  // namespace mlbench::dataset
