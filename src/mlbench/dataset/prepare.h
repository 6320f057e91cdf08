#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/dataset/description.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::dataset {

// Finds and decodes the data set into CACHE_DIR/<name>-v<version>-<key>.cache once (key over the description and path,
// size and modification time of the source files), under a file lock: the first process on a host decodes, the others
// wait. Checks counts, shapes, label range and sizes (UserError naming file, given and expected), and maps the result.
// The first call on a host and with a build hashes the mapped records (about 0.6 s per GB), so that what is trained
// on is what the fingerprint says; a cache that is damaged, cut or of another version is made anew. A disk that is
// full: IoError, and no half cache is left.
//
// Text becomes a folder of token files and a vocabulary (text/prepared_text.h), in the same way.
PreparedDataset prepare(const DatasetDescription& description, const std::vector<std::string>& data_dirs,
                        const std::filesystem::path& cache_dir, const Progress& progress);

// Whether its records are tokens.
bool is_text(const DatasetDescription& description);

}  // namespace mlbench::dataset
