#include "mlbench/dataset/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/archive.h"
#include "mlbench/dataset/cache.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/locate.h"

namespace mlbench::dataset {

namespace fs = std::filesystem;

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
      {description, "", cache_key(description, sources)}, cache_dir,
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
