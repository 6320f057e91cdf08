#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/cache.h"
#include "mlbench/dataset/dataset.h"
#include "mlbench/dataset/format.h"

namespace mlbench::dataset {

namespace fs = std::filesystem;

int64_t CachedSplit::sample_volume() const {
  int64_t volume = 1;
  for (const int64_t extent : sample_shape) volume *= extent;
  return volume;
}

PreparedDataset::PreparedDataset(const DatasetDescription& description, std::shared_ptr<const MappedFile> cache,
                                 std::vector<CachedSplit> splits, std::string fingerprint, bool synthetic)
    : name_(description.name),
      fingerprint_(std::move(fingerprint)),
      official_(!synthetic && fingerprint_ == description.fingerprint),
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
  for (const auto& split : located.files) {
    for (const fs::path& file : split) {
      sources.push_back({fs::absolute(file).lexically_normal().string(), fs::file_size(file),
                         fs::last_write_time(file).time_since_epoch().count()});
    }
  }
  const Format* format = find_format(description.format);
  MLBENCH_CHECK(format != nullptr, "parse_description() checks the format");

  PreparedDataset data = open_or_make_cache(
      {description, false, cache_key(description, sources)}, cache_dir,
      [&](size_t split, const SplitBuffers& out) {
        format->read(description, description.splits[split], located.files[split], out);
      },
      fmt::format("decoding {} from {} ({})", description.name, located.folder.string(), located.origin), progress);

  if (!data.official() && !description.fingerprint.empty() && progress) {
    std::string line =
        fmt::format("warning: the records in {} are not the official ones of {}: fingerprint {}, official {}",
                    located.folder.string(), description.name, data.fingerprint(), description.fingerprint);
    for (const std::string& name : dataset_names()) {
      if (find_description(name).fingerprint == data.fingerprint()) line += " (these are those of " + name + ")";
    }
    progress(line);
  }
  return data;
}

}  // namespace mlbench::dataset
