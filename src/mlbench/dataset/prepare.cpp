#include "mlbench/dataset/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/archive.h"
#include "mlbench/dataset/cache.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/images.h"
#include "mlbench/dataset/locate.h"
#include "mlbench/dataset/text/prepared_text.h"

namespace mlbench::dataset {

namespace fs = std::filesystem;

namespace {

// Prepares text. Its records may be more or fewer than the description says, since text is cleaned. A warning is given
// of that, and where the records are known not to be the official ones.
PreparedDataset prepare_located_text(const DatasetDescription& description, const LocatedDataset& located,
                                     const fs::path& cache_dir, const Progress& progress) {
  PreparedDataset data = text::prepare_text(description, located, cache_dir, progress);
  const bool pairs = find_format(description.format)->pairs;
  for (const SplitSpec& expected : description.splits) {
    const CachedSplit& split = data.split(expected.name);
    const int64_t samples = pairs ? split.samples : std::ssize(split.column<TokenColumn>("tokens").elements);
    if (samples == expected.samples || !progress) continue;
    progress(fmt::format("warning: split '{}' of {} has {} {}, the official one {}", expected.name, description.name,
                         samples, pairs ? "pairs" : "tokens", expected.samples));
  }
  if (!data.official() && !description.fingerprint.empty() && progress) {
    progress(fmt::format("warning: the text in {} is not the official one of {}: fingerprint {}, official {}",
                         located.folder.string(), description.name, data.fingerprint(), description.fingerprint));
  }
  return data;
}

}  // namespace

bool is_text(const DatasetDescription& description) {
  const Format* format = find_format(description.format);
  return format != nullptr && format->make_tokens != nullptr;
}

bool is_sparse(const DatasetDescription& description) {
  const Format* format = find_format(description.format);
  return format != nullptr && format->read_sparse != nullptr;
}

namespace {

// Decodes all samples into the cache.
PreparedDataset prepare_samples(const DatasetDescription& description, const Format& format,
                                const LocatedDataset& located, const fs::path& cache_dir, const Progress& progress) {
  Json sources = Json::array();
  const auto add_source = [&](const fs::path& file) { sources.push_back(state_of_file(file)); };
  if (!located.archive.empty()) {
    add_source(located.archive);
  } else {
    for (const auto& split : located.files) std::ranges::for_each(split, add_source);
  }
  std::optional<ReadableFiles> files;
  return open_or_make_cache(
      {description, sample_columns(description), "", cache_key(description, sources)}, cache_dir,
      [&](size_t split, SplitWriter& out) {
        // The cache's lock is held: one process unpacks at a time, and replaces what a killed one left.
        if (!files) files.emplace(description, located, cache_dir / (description.name + ".unpacked.tmp"));
        const SplitSpec& spec = description.splits[split];
        if (format.read_sparse != nullptr) {
          format.read_sparse(description, spec, files->files()[split], out);
        } else {
          format.read(description, spec, files->files()[split], sample_buffers(out));
        }
      },
      fmt::format("decoding {} from {} ({})", description.name, located.folder.string(), located.origin), progress);
}

}  // namespace

PreparedDataset prepare(const DatasetDescription& description, const std::vector<std::string>& data_dirs,
                        const fs::path& cache_dir, const Progress& progress) {
  const LocatedDataset located = locate(description, data_dirs);
  if (is_text(description)) return prepare_located_text(description, located, cache_dir, progress);
  const Format* format = find_format(description.format);
  MLBENCH_CHECK(format != nullptr, "parse_description() checks the format");
  PreparedDataset data = format->encoded ? prepare_images(description, located, cache_dir, progress)
                                         : prepare_samples(description, *format, located, cache_dir, progress);
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
