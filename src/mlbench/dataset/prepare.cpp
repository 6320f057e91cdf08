#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "mlbench/base/errors.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/shape.h"
#include "mlbench/dataset/archive.h"
#include "mlbench/dataset/cache.h"
#include "mlbench/dataset/dataset.h"
#include "mlbench/dataset/format.h"

namespace mlbench::dataset {

namespace fs = std::filesystem;

namespace {

// Whether the records are those of the published files. Hashes all of them; false when a checksum is not known.
bool follow_published_files(const DatasetDescription& description, const std::vector<CachedSplit>& splits) {
  const Format* format = find_format(description.format);
  if (format == nullptr || format->hash_file == nullptr) return false;
  for (size_t i = 0; i < splits.size(); ++i) {
    const auto& files = description.splits[i].files;
    for (size_t file = 0; file < files.size(); ++file) {
      Sha256 hash;
      format->hash_file(splits[i], file, files.size(), hash);
      if (hash.hex() != files[file].content_sha256) return false;
    }
  }
  return true;
}

}  // namespace

int64_t CachedSplit::sample_volume() const { return volume_of(sample_shape); }

PreparedDataset::PreparedDataset(const DatasetDescription& description, std::shared_ptr<const MappedFile> cache,
                                 std::vector<CachedSplit> splits, std::string fingerprint, bool synthetic)
    : name_(description.name),
      fingerprint_(std::move(fingerprint)),
      official_(!synthetic && (description.fingerprint.empty() ? follow_published_files(description, splits)
                                                               : fingerprint_ == description.fingerprint)),
      synthetic_(synthetic),
      classes_(description.classes),
      cache_(std::move(cache)),
      splits_(std::move(splits)) {}

const CachedSplit& PreparedDataset::split(const std::string& name) const {
  std::vector<std::string> names;
  for (const CachedSplit& split : splits_) {
    if (split.name == name) return split;
    names.push_back(split.name);
  }
  throw UserError(fmt::format("data set {} has no split '{}'; valid: {}", name_, name, fmt::join(names, ", ")));
}

Json PreparedDataset::record() const {
  Json samples = Json::object();
  for (const CachedSplit& split : splits_) samples[split.name] = split.samples;
  return {{"name", name_},
          {"fingerprint", fingerprint_},
          {"official", official_},
          {"synthetic", synthetic_},
          {"samples", std::move(samples)}};
}

PreparedDataset prepare(const DatasetDescription& description, const std::vector<std::string>& data_dirs,
                        const fs::path& cache_dir, const Progress& progress) {
  const LocatedDataset located = locate(description, data_dirs);
  Json sources = Json::array();
  const auto add_source = [&](const fs::path& file) {
    sources.push_back({fs::absolute(file).lexically_normal().string(), fs::file_size(file),
                       fs::last_write_time(file).time_since_epoch().count()});
  };
  if (!located.archive.empty()) {
    add_source(located.archive);
  } else {
    for (const auto& split : located.files) std::ranges::for_each(split, add_source);
  }
  const Format* format = find_format(description.format);
  MLBENCH_CHECK(format != nullptr, "parse_description() checks the format");

  std::optional<ReadableFiles> files;
  PreparedDataset data = open_or_make_cache(
      {description, false, cache_key(description, sources)}, cache_dir,
      [&](size_t split, const SplitBuffers& out) {
        // Under the cache's lock: one process at a time, and what a killed one left is replaced.
        if (!files) files.emplace(description, located, cache_dir / (description.name + ".unpacked.tmp"));
        format->read(description, description.splits[split], files->files()[split], out);
      },
      fmt::format("decoding {} from {} ({})", description.name, located.folder.string(), located.origin), progress);

  files.reset();
  const bool known =
      !description.fingerprint.empty() || !description.splits.front().files.front().content_sha256.empty();
  if (!data.official() && known && progress) {
    std::string line = fmt::format("warning: the records in {} are not the official ones of {}: fingerprint {}",
                                   located.folder.string(), description.name, data.fingerprint());
    if (!description.fingerprint.empty()) line += ", official " + description.fingerprint;
    for (const std::string& name : dataset_names()) {
      if (find_description(name).fingerprint == data.fingerprint()) line += " (these are those of " + name + ")";
    }
    progress(line);
  }
  return data;
}

}  // namespace mlbench::dataset
