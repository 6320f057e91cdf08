#pragma once

// Data sets of encoded images. The images stay where they are: what is prepared is an index of them. Internal to
// dataset/.
//
// A split has these columns, one value of int64 each where nothing else is said:
//   shard, offset, length   where the image's file lies, in bytes: CachedSplit::shards[shard]
//   sha256                  of the image's file, as 64 hexadecimal digits
//   labels                  in [0, classes)
//   key                     bytes: what names the image in its shard (image/index/sample_index.h)
//
// So the fingerprint covers keys, labels, places and contents. Contents are hashed when the index is made: the cache's
// key has path, size and modification time of each file, so that a changed file makes the index anew. Of an object in a
// store it has address, size and ETag.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "mlbench/dataset/description.h"
#include "mlbench/dataset/locate.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::dataset {

// Maps the index of the images, which is made where there is none. Shards in a store are copied into the cache folder
// for that, one after the other; each copy is removed again. Throws UserError naming the file for what
// image/index refuses, and where labels or the number of images are not what the description says.
PreparedDataset prepare_images(const DatasetDescription& description, const LocatedDataset& located,
                               const std::filesystem::path& cache_dir, const Progress& progress);

// What a pattern of a split of images stands for in `folder`: a folder or a file; where the pattern has a `*`, all
// files of such names in their order. Empty where there is none.
std::vector<std::filesystem::path> find_images(const std::filesystem::path& folder, const std::string& pattern);

// Whether the split's images lie in shards, which may be objects of a store.
bool lies_in_shards(const SplitSpec& split);

// Throws UserError by `fail(key, text)` unless the split says what its container is, and has the files for it.
void check_container(const SplitSpec& split,
                     const std::function<void(const std::string& key, const std::string&)>& fail);

}  // namespace mlbench::dataset
