#pragma once

// Finds out what somebody's files of images are: a folder per class, a folder with a list, tar files or TensorFlow's
// records, written here or elsewhere.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/image/index/sample_index.h"
#include "mlbench/image/shards/manifest.h"

namespace mlbench::image {

// What the user says about the files; what is empty is found out.
struct ContainerRequest {
  std::vector<std::filesystem::path> paths = {};  // one folder, or shards
  std::optional<ContainerFormat> format = {};
  std::optional<std::filesystem::path> list = {};     // of a folder with a list of labels
  std::optional<std::filesystem::path> classes = {};  // a file with a class on each line
  std::optional<int64_t> labels = {};                 // how many there are
  std::optional<int64_t> first_label = {};            // of records
};

struct Container {
  ContainerFormat format = ContainerFormat::kFolder;
  std::vector<std::filesystem::path> shards;  // of kFolder: the folder
  std::optional<std::filesystem::path> list;
  std::vector<std::string> classes;       // empty where nobody names them; of a folder per class, its index has them
  std::optional<int64_t> labels;          // empty where nobody says it
  int64_t first_label = 1;                // of records
  std::optional<ShardManifest> manifest;  // of shards that were written here
  std::vector<std::string> absent;        // shards that names or the manifest ask for
  std::vector<std::string> ignored;       // files of the folder that are no shards
};

// Reads names and the first bytes of files. Throws UserError (path, what it is, what is expected, what to type).
Container find_container(const ContainerRequest& request);

// The index of a part of the container: shards [begin, end). Throws as the functions of sample_index.h.
SampleIndex index_of(const Container& container, size_t begin, size_t end);
SampleIndex index_of(const Container& container);

}  // namespace mlbench::image
