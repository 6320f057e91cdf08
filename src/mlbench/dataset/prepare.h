#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/dataset/description.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::dataset {

// Finds the data set and decodes it once into CACHE_DIR/<name>-v<version>-<key>.cache, then maps that file. The key
// covers the description and path, size and modification time of the source files. Under a file lock, the first process
// on a host decodes and the others wait. Throws UserError naming file, given and expected where counts, shapes, sizes
// or the range of labels are wrong; throws IoError where the disk is full, and leaves no half cache.
// The first call on a host and with a build hashes the mapped records (about 0.6 s per GB), so that training uses what
// the fingerprint says. A cache that is damaged, cut or of another version is made anew.
//
// Text becomes a folder of token files and a vocabulary (text/prepared_text.h), in the same way. `progress` may be
// empty.
PreparedDataset prepare(const DatasetDescription& description, const std::vector<std::string>& data_dirs,
                        const std::filesystem::path& cache_dir, const Progress& progress);

// Whether the records of the data set are tokens.
bool is_text(const DatasetDescription& description);
// Whether they are sparse rows.
bool is_sparse(const DatasetDescription& description);

}  // namespace mlbench::dataset
