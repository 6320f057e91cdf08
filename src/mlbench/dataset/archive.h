#pragma once

// Files inside a published archive. Internal to dataset/.

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/dataset/description.h"
#include "mlbench/dataset/locate.h"

namespace mlbench::dataset {

// Unpacks `members` (paths in the archive, a tar packed with gzip, bzip2 or xz) into `folder`, each under the last
// component of its name. Nothing else of the archive is written. Precondition: `folder` exists and holds none of these
// names. Throws UserError where the archive is damaged, or a member is missing, no regular file, or larger than
// `max_member_bytes`; throws IoError where a file cannot be read or written.
void unpack_members(const std::filesystem::path& archive, const std::vector<std::string>& members,
                    int64_t max_member_bytes, const std::filesystem::path& folder);

// The files of a located data set, as files on disk. Members of an archive are unpacked into `folder`, which is
// replaced if it exists; the destructor removes it. Files that lie there themselves are left in their place.
class ReadableFiles {
 public:
  ReadableFiles(const DatasetDescription& description, const LocatedDataset& located,
                const std::filesystem::path& folder);
  ~ReadableFiles();
  ReadableFiles(const ReadableFiles&) = delete;
  ReadableFiles& operator=(const ReadableFiles&) = delete;
  const std::vector<std::vector<std::filesystem::path>>& files() const { return files_; }  // [split][file]

 private:
  std::vector<std::vector<std::filesystem::path>> files_;
  std::filesystem::path folder_;  // "" when nothing had to be unpacked
};

}  // namespace mlbench::dataset
