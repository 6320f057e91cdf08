#pragma once

// Where the encoded images of a data set lie, in any of the containers that image data sets come in. An index is made
// once, by reading names and labels; samples are read at their places afterwards. What a container holds is somebody
// else's: names and sizes are checked, links are refused.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/check_cost.h"
#include "mlbench/base/files.h"

namespace mlbench::image {

// No image file is larger. The largest of ImageNet has 15 MB.
inline constexpr int64_t kMostImageBytes = int64_t{64} << 20;

struct Sample {
  int32_t shard = 0;               // its number in SampleIndex::shards
  int64_t offset = 0, length = 0;  // in bytes
  int64_t label = 0;               // 0 <= label < SampleIndex::labels
  std::string key;                 // names it within the shard: a relative path, or a key of the container
  bool operator==(const Sample&) const = default;
};

struct SampleIndex {
  std::vector<std::filesystem::path> shards;  // files; or a folder, in which each sample is the file `key`
  int64_t labels = 0;
  std::vector<std::string> classes = {};  // what labels stand for; empty where the container has numbers alone
  std::vector<Sample> samples = {};
  CheckCost checked = {};  // CRC-32C of the records, where the container has some
};

// A folder per class, as torchvision's ImageFolder reads it: labels number the sorted names of the folders, samples
// are sorted by folder and name, also from folders below. Files whose names do not end in .jpg, .jpeg or .png in any
// case are left out, but an image of another kind is refused.
//
// All index_*() functions throw UserError (path, what is wrong, what is expected), and IoError or filesystem_error
// where the system refuses.
SampleIndex index_image_folder(const std::filesystem::path& folder);

// Images of one folder, with a list that has their labels: ILSVRC's validation split. Each line has, with blanks or a
// tab between them, a file and its class, by name (one of `classes`) or by number from 0; more columns are ignored. A
// line of a class alone stands for the file ILSVRC2012_val_0000000N.JPEG, N being the number of the line from 1.
SampleIndex index_listed_folder(const std::filesystem::path& folder, const std::filesystem::path& list,
                                const std::vector<std::string>& classes);

// The classes of such a list where nobody names them: the names in it, sorted as those of folders; of numbers alone,
// all from 0 to the largest.
std::vector<std::string> classes_of_list(const std::filesystem::path& list);

// Tar files (ustar, pax or GNU; not packed) named as WebDataset has it: KEY.jpg (or .jpeg, .png) beside KEY.cls, which
// holds the label, one behind the other. Other members of a key are ignored.
SampleIndex index_web_dataset(const std::vector<std::filesystem::path>& shards, int64_t labels);

// TensorFlow's record files of tf.train.Example, as its scripts for ImageNet write them: image/encoded,
// image/class/label, and image/filename where it is there. `first_label` is what the first class is called: 1 for these
// scripts, 0 for others.
SampleIndex index_example_records(const std::vector<std::filesystem::path>& shards, int64_t labels,
                                  int64_t first_label);

// All images of a folder, whatever the folders below it mean, or of a tar file that is not packed, without labels. They
// are told by their names; links are left out of a folder.
SampleIndex index_unlabelled(const std::filesystem::path& path);

// A file in a tar file.
struct TarMember {
  std::string name;
  int64_t offset = 0, length = 0;  // of its content
  std::string content;             // where it was asked for
};
// The plain files of a tar file that is not packed, in order. Holds the content of those whose names end with `read`
// and that are no larger than 64 bytes. Throws UserError for links, devices, sparse files, names that check_key()
// refuses, and sizes beyond the end of the file.
std::vector<TarMember> read_tar_members(const std::filesystem::path& path, std::string_view read = ".cls");

// Opens the shards of an index, and reads samples. Safe on several threads.
class SampleFiles {
 public:
  // The index must outlive it. Throws IoError.
  explicit SampleFiles(const SampleIndex& index);
  // Puts the file of the sample into `bytes`. Throws UserError when it is no longer what the index says.
  void read(const Sample& sample, std::vector<std::byte>& bytes) const;

 private:
  const SampleIndex& index_;
  std::vector<FileDescriptor> shards_;
};

}  // namespace mlbench::image
