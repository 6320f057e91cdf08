#include "mlbench/image/shards/shard_writer.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/random.h"
#include "mlbench/base/relative_key.h"
#include "mlbench/base/system_error.h"
#include "mlbench/base/temporary_folders.h"
#include "mlbench/image/shards/shard_file.h"

namespace mlbench::image {

namespace fs = std::filesystem;

namespace {

// Absolute and without links, so that a rename to it stays in one folder.
fs::path resolved(const fs::path& path) {
  const fs::path whole = fs::weakly_canonical(fs::absolute(path)).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

void check_output(const fs::path& output, const SampleIndex& index) {
  for (const fs::path& shard : index.shards) {
    if (lies_in(output, resolved(shard))) {
      throw UserError(fmt::format("{}: lies in the folder of the images; expected one beside it", output.string()));
    }
  }
  struct stat own {
  }, above{};
  if (stat(output.c_str(), &own) != 0) return;
  if (!S_ISDIR(own.st_mode)) throw UserError(output.string() + ": is no folder, expected a new one or an empty one");
  if (!fs::is_empty(output)) throw UserError(output.string() + ": is not empty, expected a new folder or an empty one");
  if (stat(output.parent_path().c_str(), &above) == 0 && own.st_dev != above.st_dev) {
    throw UserError(
        fmt::format("{}: is a file system of its own, onto which no folder can be renamed; expected a folder in it: {}",
                    output.string(), (output / "shards").string()));
  }
}

// The name without its ending. WebDataset's key ends at the first dot of the file's name.
std::string tar_key(const std::string& key) {
  const fs::path path(key);
  const std::string stem = path.stem().string();
  if (stem.empty() || stem.find('.') != std::string::npos) {
    throw UserError(
        fmt::format("'{}': a tar file of WebDataset ends the key at the first dot of a name; expected one dot (or "
                    "--format tfrecord)",
                    printable(key, 100)));
  }
  return (path.parent_path() / stem).string();
}

std::vector<std::string> keys_of(const SampleIndex& index, ContainerFormat format) {
  std::vector<std::string> keys;
  std::unordered_set<std::string> seen;
  keys.reserve(index.samples.size());
  seen.reserve(index.samples.size());
  for (const Sample& sample : index.samples) {
    check_key(index.shards[static_cast<size_t>(sample.shard)].string(), sample.key);
    const std::string key = fs::path(sample.key).lexically_normal().string();
    keys.push_back(format == ContainerFormat::kTar ? tar_key(key) : key);
    if (!seen.insert(keys.back()).second) {
      throw UserError(fmt::format("'{}': two images would have the key '{}'", printable(sample.key, 100),
                                  printable(keys.back(), 100)));
    }
  }
  return keys;
}

// The folder that becomes the output. Nobody else uses it while the object lives.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(fs::path target)
      : target_(std::move(target)),
        path_(target_.parent_path() / (std::string(kUnfinished) + target_.filename().string())) {
    make_folder(target_.parent_path());
    if (fs::is_symlink(fs::symlink_status(path_)))
      throw UserError(path_.string() + ": is a link, expected no such file");
    make_folder(path_);
    auto lock = FileLock::acquire(path_ / kLock, std::chrono::milliseconds(0));
    if (!lock) throw UserError(target_.string() + ": another process writes it");
    lock_.emplace(std::move(*lock));
    // What a killed process left.
    for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
      if (entry.path().filename() != kLock) fs::remove_all(entry.path());
    }
  }
  ~UnfinishedFolder() {
    std::error_code ignored;
    if (!finished_) fs::remove_all(path_, ignored);
  }
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  const fs::path& path() const { return path_; }

  void finish() {
    fs::remove(path_ / kLock);
    sync_directory(path_);
    // Takes the place of an empty folder alone.
    if (rename(path_.c_str(), target_.c_str()) != 0) throw_system_error("cannot rename to " + target_.string(), errno);
    finished_ = true;
    sync_directory(target_.parent_path());
  }

 private:
  static constexpr const char* kLock = "lock";
  fs::path target_, path_;
  std::optional<FileLock> lock_;
  bool finished_ = false;
};

struct Written {
  int64_t samples = 0, image_bytes = 0;
};

void write_samples(ShardWriter& writer, const SampleIndex& index, const SampleFiles& files, const ShardPlan& plan,
                   const ShardRange& range, Written& written, const ShardProgress& progress) {
  std::vector<std::byte> bytes;
  for (int64_t at = range.begin; at < range.end; ++at) {
    const auto number = static_cast<size_t>(plan.order[static_cast<size_t>(at)]);
    const Sample& sample = index.samples[number];
    files.read(sample, bytes);
    const EncodedImage image{bytes, sample.key};
    const std::string_view name =
        index.classes.empty() ? std::string_view() : index.classes[static_cast<size_t>(sample.label)];
    writer.add({plan.keys[number], sample.label, name, image, format_of(image)});
    ++written.samples;
    written.image_bytes += sample.length;
    if (progress) progress(written.samples, written.image_bytes);
  }
}

}  // namespace

ShardPlan plan_shards(const SampleIndex& index, const ShardOptions& options, const fs::path& output) {
  MLBENCH_CHECK(options.format != ContainerFormat::kFolder, "a folder has no shards");
  check_name(options.name, "name of shards (--name)");
  const auto samples = static_cast<int64_t>(index.samples.size());
  if (options.shards < 1 || options.shards > std::min(samples, kMostShards)) {
    throw UserError(fmt::format("--shards {}: expected 1 to {}: there are {} samples", options.shards,
                                std::min(samples, kMostShards), samples));
  }
  ShardPlan plan{options, resolved(output), {}, {}, keys_of(index, options.format)};
  check_output(plan.output, index);
  if (options.seed) {
    plan.order = permutation(samples, derive_key(*options.seed, {kShuffleStream}));
  } else {
    for (int64_t number = 0; number < samples; ++number) plan.order.push_back(number);
  }
  for (int64_t shard = 0; shard < options.shards; ++shard) {
    plan.shards.push_back({samples * shard / options.shards, samples * (shard + 1) / options.shards});
  }
  return plan;
}

ShardManifest write_shards(const SampleIndex& index, const ShardPlan& plan, const ShardProgress& progress) {
  const ShardOptions& options = plan.options;
  UnfinishedFolder folder(plan.output);
  const SampleFiles files(index);
  ShardManifest manifest{.format = options.format,
                         .samples = std::ssize(index.samples),
                         .classes = index.labels,
                         .first_label = first_label_of(options.format),
                         .seed = options.seed,
                         .shards = {}};
  Written written;
  for (const ShardRange& range : plan.shards) {
    const std::string name = shard_name(options.name, std::ssize(manifest.shards), options.shards, options.format);
    const std::unique_ptr<ShardWriter> writer = make_shard_writer(options.format, folder.path() / name);
    write_samples(*writer, index, files, plan, range, written, progress);
    const WrittenShard shard = writer->finish();
    manifest.shards.push_back({name, range.end - range.begin, shard.bytes, shard.sha256});
  }
  std::string classes;
  for (const std::string& name : index.classes) classes += name + "\n";
  write_file_atomically(folder.path() / kClassesFile, classes);
  write_json_file(folder.path() / kManifestFile, to_json(manifest));
  folder.finish();
  return manifest;
}

}  // namespace mlbench::image
