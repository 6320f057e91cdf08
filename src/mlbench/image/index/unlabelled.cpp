#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/relative_key.h"
#include "mlbench/image/index/labels.h"
#include "mlbench/image/index/sample_index.h"

namespace mlbench::image {

namespace fs = std::filesystem;

namespace {

void add_images_of_tar(const fs::path& tar, SampleIndex& index) {
  for (TarMember& member : read_tar_members(tar)) {
    if (!has_image_name(member.name)) continue;
    index.samples.push_back({0, member.offset, member.length, 0, std::move(member.name)});
  }
}

void add_images_of_folder(const fs::path& folder, SampleIndex& index) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_symlink() || !entry.is_regular_file() || !has_image_name(entry.path().string())) continue;
    std::string key = entry.path().lexically_relative(folder).string();
    check_key(folder.string(), key);
    index.samples.push_back({0, 0, static_cast<int64_t>(entry.file_size()), 0, std::move(key)});
  }
  std::ranges::sort(index.samples, {}, &Sample::key);
}

}  // namespace

SampleIndex index_unlabelled(const fs::path& path) {
  if (!fs::exists(path)) throw UserError(path.string() + ": no such file or folder, expected images, or a tar of them");
  SampleIndex index;
  index.shards = {path};
  if (fs::is_directory(path)) {
    add_images_of_folder(path, index);
  } else {
    add_images_of_tar(path, index);
  }
  if (index.samples.empty()) throw UserError(path.string() + ": holds no images (.jpg, .jpeg, .png)");
  for (const Sample& sample : index.samples) {
    if (sample.length > 0 && sample.length <= kMostImageBytes) continue;
    throw UserError(
        fmt::format("{}: {}: {} bytes, expected 1 to {}", path.string(), sample.key, sample.length, kMostImageBytes));
  }
  return index;
}

}  // namespace mlbench::image
