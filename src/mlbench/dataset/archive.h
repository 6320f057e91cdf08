#pragma once

// Files inside a published archive. Internal to dataset/.

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/dataset/description.h"
#include "mlbench/dataset/locate.h"

namespace mlbench::dataset {

// Unpacks these members (paths in the archive; tar, packed with gzip, bzip2 or xz) into `folder`, each under the
// last component of its name; nothing else of the archive is written. UserError when it is damaged, when a member is
// missing, no regular file, or larger than `max_member_bytes`; IoError when the disk refuses.
void unpack_members(const std::filesystem::path& archive, const std::vector<std::string>& members,
                    int64_t max_member_bytes, const std::filesystem::path& folder);

// The files of a located data set as files: those of an archive are unpacked into `folder` (replaced if it is there)
// and removed with this object.
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
